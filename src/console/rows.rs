//! Text that comes in pieces, made into rows: only whole ones stand above the line that is being
//! written. Pure.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The end of the printed text that is no whole row yet.
#[derive(Debug, Default)]
pub(super) struct Rows {
    begun: String,
    /// The row goes on with a line that was cut.
    cut: bool,
    /// Within a block of code, whose lines stay whole.
    code: bool,
}

impl Rows {
    /// Takes text in; returns the rows that are whole. A line that does not end is cut at a blank
    /// once it is wider than so many columns, except for code.
    pub(super) fn add(&mut self, text: &str, columns: usize) -> String {
        let mut whole = String::new();
        for piece in text.split_inclusive('\n') {
            self.begun.push_str(piece);
            if piece.ends_with('\n') {
                if !std::mem::take(&mut self.cut) && self.begun.trim_start().starts_with("```") {
                    self.code = !self.code;
                }
                whole.push_str(&std::mem::take(&mut self.begun));
            }
        }
        while !self.code
            && let Some(at) = blank_within(&self.begun, columns)
        {
            let rest = self.begun.split_off(at);
            whole.push_str(&self.begun);
            whole.push('\n');
            rest.trim_start_matches(' ').clone_into(&mut self.begun);
            self.cut = true;
        }
        whole
    }

    /// The row that is not whole yet.
    pub(super) fn begun(&self) -> &str {
        &self.begun
    }

    /// This much of the row that is not whole stays where it is on the screen; what follows begins
    /// a new one.
    pub(super) fn leave(&mut self, shown: &str) {
        if !shown.is_empty() && self.begun.starts_with(shown) {
            self.begun.drain(..shown.len());
            self.cut = true;
        }
    }

    /// Everything that is left.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(self).begun
    }
}

/// Where a row that is too wide can end: its last blank that fits.
fn blank_within(row: &str, columns: usize) -> Option<usize> {
    if row.width() < columns {
        return None;
    }
    let mut width = 0;
    let fits = row.char_indices().take_while(|(_, letter)| {
        width += letter.width().unwrap_or(0);
        width < columns
    });
    fits.filter(|(at, letter)| *letter == ' ' && !row[..*at].trim().is_empty())
        .map(|(at, _)| at)
        .last()
}

/// A text in a row of so many columns: its beginning, or its end with `end`.
pub(super) fn in_a_row(text: &str, columns: usize, end: bool) -> String {
    if text.width() < columns {
        return text.to_owned();
    }
    let mut width = 2;
    let mut fits = |letter: &char| {
        width += letter.width().unwrap_or(0);
        width < columns
    };
    if end {
        let tail: Vec<char> = text.chars().rev().take_while(&mut fits).collect();
        return std::iter::once('…').chain(tail.into_iter().rev()).collect();
    }
    text.chars().take_while(&mut fits).chain(std::iter::once('…')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_given_out_when_they_are_whole() {
        let mut rows = Rows::default();
        assert_eq!((rows.add("Once up", 80).as_str(), rows.begun()), ("", "Once up"));
        assert_eq!((rows.add("on a\nti", 80).as_str(), rows.begun()), ("Once upon a\n", "ti"));
        assert_eq!((rows.add("me\n\n", 80).as_str(), rows.begun()), ("time\n\n", ""));
    }

    #[test]
    fn a_long_line_goes_on_below_and_words_and_code_stay_whole() {
        let mut rows = Rows::default();
        assert_eq!(
            (rows.add("one two three four", 10).as_str(), rows.begun()),
            ("one two\nthree\n", "four")
        );
        let mut rows = Rows::default();
        assert_eq!((rows.add("漢漢 漢漢 x", 10).as_str(), rows.begun()), ("漢漢\n", "漢漢 x"));
        let mut rows = Rows::default();
        assert_eq!(
            (rows.add("averylongword and", 10).as_str(), rows.begun()),
            ("", "averylongword and")
        );
        assert_eq!(rows.add(" more\n", 10), "averylongword and more\n");
        assert_eq!(rows.add("```\nlet a = 1; let b = 2;", 10), "```\n");
        assert_eq!(
            rows.add(" done\n```\nand on and on", 10),
            "let a = 1; let b = 2; done\n```\nand on\n"
        );
    }

    #[test]
    fn what_was_left_on_the_screen_is_not_shown_again_and_nothing_is_lost() {
        let mut rows = Rows::default();
        rows.add("there was", 80);
        rows.leave("there w");
        assert_eq!(rows.add(" a king\n", 80), "as a king\n");
        rows.add("and", 80);
        rows.leave("something else");
        assert_eq!(rows.take(), "and");
    }

    #[test]
    fn a_row_shows_the_beginning_or_the_end_of_what_is_too_wide() {
        assert_eq!(
            (in_a_row("abc", 4, false), in_a_row("abcdef", 5, false), in_a_row("abcdef", 5, true)),
            ("abc".into(), "ab…".into(), "…ef".into())
        );
        assert_eq!(in_a_row("漢漢漢", 6, true), "…漢");
    }

    proptest::proptest! {
        #[test]
        fn no_letter_but_blanks_is_lost(pieces in proptest::collection::vec("[a-c `\n]{0,12}", 0..12), columns in 3_usize..20) {
            let mut rows = Rows::default();
            let mut shown: String = pieces.iter().map(|piece| rows.add(piece, columns)).collect();
            shown += &rows.take();
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            proptest::prop_assert_eq!(bare(&shown), bare(&pieces.concat()));
        }
    }
}
