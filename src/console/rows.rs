//! Assembles pieces of text into rows, because only complete rows are printed above the input line.
//! Pure.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The incomplete last row of the printed text.
#[derive(Debug, Default)]
pub(super) struct RowBuffer {
    partial: String,
    /// Whether the row continues a line that was wrapped.
    cut: bool,
    /// Whether the text is inside a code block, whose lines are not wrapped.
    code: bool,
}

impl RowBuffer {
    /// Adds text, and returns the complete rows. A line that is wider than `columns` is wrapped at
    /// a blank, except in code.
    pub(super) fn add(&mut self, text: &str, columns: usize) -> String {
        let mut whole = String::new();
        for piece in text.split_inclusive('\n') {
            self.partial.push_str(piece);
            if piece.ends_with('\n') {
                if !std::mem::take(&mut self.cut) && self.partial.trim_start().starts_with("```") {
                    self.code = !self.code;
                }
                whole.push_str(&std::mem::take(&mut self.partial));
            }
        }
        while !self.code
            && let Some(at) = blank_within(&self.partial, columns)
        {
            let rest = self.partial.split_off(at);
            whole.push_str(&self.partial);
            whole.push('\n');
            rest.trim_start_matches(' ').clone_into(&mut self.partial);
            self.cut = true;
        }
        whole
    }

    /// Returns the incomplete row.
    pub(super) fn partial(&self) -> &str {
        &self.partial
    }

    /// Discards the shown part of the incomplete row, which stays on the screen. The rest starts a
    /// new row.
    pub(super) fn discard_shown(&mut self, shown: &str) {
        if !shown.is_empty() && self.partial.starts_with(shown) {
            self.partial.drain(..shown.len());
            self.cut = true;
        }
    }

    /// Returns the remaining text.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(self).partial
    }
}

/// Returns the position of the last blank at which a row that is too wide can be wrapped.
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

/// Cuts a text to a row: keeps its start, or its end if `end` is set.
pub(super) fn fit_row(text: &str, columns: usize, end: bool) -> String {
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
    fn rows_are_returned_when_they_are_complete() {
        let mut rows = RowBuffer::default();
        assert_eq!((rows.add("Once up", 80).as_str(), rows.partial()), ("", "Once up"));
        assert_eq!((rows.add("on a\nti", 80).as_str(), rows.partial()), ("Once upon a\n", "ti"));
        assert_eq!((rows.add("me\n\n", 80).as_str(), rows.partial()), ("time\n\n", ""));
    }

    #[test]
    fn a_long_line_is_wrapped_except_within_words_and_code() {
        let mut rows = RowBuffer::default();
        assert_eq!(
            (rows.add("one two three four", 10).as_str(), rows.partial()),
            ("one two\nthree\n", "four")
        );
        let mut rows = RowBuffer::default();
        assert_eq!((rows.add("漢漢 漢漢 x", 10).as_str(), rows.partial()), ("漢漢\n", "漢漢 x"));
        let mut rows = RowBuffer::default();
        assert_eq!(
            (rows.add("averylongword and", 10).as_str(), rows.partial()),
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
    fn discarded_text_is_not_returned_again_and_nothing_is_lost() {
        let mut rows = RowBuffer::default();
        rows.add("there was", 80);
        rows.discard_shown("there w");
        assert_eq!(rows.add(" a king\n", 80), "as a king\n");
        rows.add("and", 80);
        rows.discard_shown("something else");
        assert_eq!(rows.take(), "and");
    }

    #[test]
    fn a_wide_text_is_cut_at_its_end_or_its_start() {
        assert_eq!(
            (fit_row("abc", 4, false), fit_row("abcdef", 5, false), fit_row("abcdef", 5, true)),
            ("abc".into(), "ab…".into(), "…ef".into())
        );
        assert_eq!(fit_row("漢漢漢", 6, true), "…漢");
    }

    proptest::proptest! {
        #[test]
        fn only_blanks_are_lost(pieces in proptest::collection::vec("[a-c `\n]{0,12}", 0..12), columns in 3_usize..20) {
            let mut rows = RowBuffer::default();
            let mut shown: String = pieces.iter().map(|piece| rows.add(piece, columns)).collect();
            shown += &rows.take();
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            proptest::prop_assert_eq!(bare(&shown), bare(&pieces.concat()));
        }
    }
}
