//! Assembles the pieces of an answer into the rows that are printed. Pure.
//!
//! Only complete rows can be printed above the input line, and Markdown can only be shown when its
//! block is complete: a paragraph, an item of a list, a table, or a line of code.

use std::mem::take;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::markdown::{self, CODE, DIM, Row, paint};

/// The complete lines of a block of this size, in bytes, are shown although it is not complete.
const MAX_BLOCK_BYTES: usize = 64 << 10;
/// Columns of the line above and below code.
const RULE_COLUMNS: usize = 20;

/// The part of an answer that is not printed yet.
#[derive(Debug, Default)]
pub(super) struct RowBuffer {
    colour: bool,
    /// The incomplete block, or the incomplete line of a code block.
    text: String,
    /// The beginning of the last line in `text`.
    line: usize,
    /// The fence of the open code block.
    fence: Option<String>,
}

/// The block that a line of Markdown begins.
#[derive(Debug, PartialEq, Eq)]
enum LineKind {
    /// Nothing: the line is blank.
    Blank,
    /// A code block with this fence.
    Fence(String),
    Heading,
    Item,
    /// A paragraph, if the line does not continue a block.
    Text,
}

impl RowBuffer {
    pub(super) fn new(colour: bool) -> Self {
        Self { colour, ..Self::default() }
    }

    /// Adds text of the answer, and returns the complete rows.
    pub(super) fn add(&mut self, text: &str, columns: usize) -> String {
        let mut rows = String::new();
        for piece in text.split_inclusive('\n') {
            self.text.push_str(piece);
            if piece.ends_with('\n') {
                rows += &self.end_line(columns);
            }
        }
        if self.text.len() > MAX_BLOCK_BYTES && self.line > 0 {
            let rest = self.text.split_off(self.line);
            rows += &self.end_block(columns);
            self.text = rest;
        }
        rows
    }

    /// Ends the answer or a part of it, and returns the remaining rows.
    pub(super) fn end(&mut self, columns: usize) -> String {
        if self.fence.take().is_none() {
            return self.end_block(columns);
        }
        let line = take(&mut self.text);
        let last = if line.is_empty() { line } else { self.code(&line) };
        last + &self.rule()
    }

    /// Returns the last row of the incomplete block, without colours.
    pub(super) fn partial(&self, columns: usize) -> String {
        if self.fence.is_some() {
            return self.text.clone();
        }
        markdown::rows(&self.text, columns).last().map(Row::plain).unwrap_or_default()
    }

    fn end_line(&mut self, columns: usize) -> String {
        if let Some(fence) = &self.fence {
            let line = take(&mut self.text);
            let rest = line.trim().strip_prefix(fence.as_str());
            if !rest.is_some_and(|rest| rest.chars().all(|mark| fence.starts_with(mark))) {
                return self.code(line.trim_end_matches('\n'));
            }
            self.fence = None;
            return self.rule();
        }
        let line = self.text.split_off(self.line);
        let kind = LineKind::of(&line);
        let above = if kind == LineKind::Text { String::new() } else { self.end_block(columns) };
        match kind {
            LineKind::Blank => above + "\n",
            LineKind::Fence(fence) => {
                self.fence = Some(fence);
                above + &self.rule()
            }
            LineKind::Heading => {
                self.text = line;
                above + &self.end_block(columns)
            }
            LineKind::Item | LineKind::Text => {
                self.text.push_str(&line);
                self.line = self.text.len();
                above
            }
        }
    }

    fn end_block(&mut self, columns: usize) -> String {
        self.line = 0;
        let rows = markdown::rows(&take(&mut self.text), columns);
        rows.iter().map(|row| row.print(self.colour)).collect()
    }

    fn code(&self, line: &str) -> String {
        paint(line, CODE, self.colour) + "\n"
    }

    fn rule(&self) -> String {
        paint(&"─".repeat(RULE_COLUMNS), DIM, self.colour) + "\n"
    }
}

impl LineKind {
    fn of(line: &str) -> Self {
        let line = line.trim();
        for mark in ['`', '~'] {
            let (fence, rest) = line.split_at(line.len() - line.trim_start_matches(mark).len());
            // A code span in one line, such as ```` ```x``` ````, begins no block.
            if fence.len() >= 3 && !rest.contains('`') {
                return Self::Fence(fence.to_owned());
            }
        }
        let (mark, text) = line.split_once(' ').unwrap_or((line, ""));
        let number = mark.strip_suffix(['.', ')']).unwrap_or_default();
        match mark {
            "" => Self::Blank,
            "-" | "*" | "+" if !text.is_empty() => Self::Item,
            _ if !text.is_empty() && is_item_number(number) => Self::Item,
            _ if mark.len() <= 6 && mark.bytes().all(|byte| byte == b'#') => Self::Heading,
            _ => Self::Text,
        }
    }
}

fn is_item_number(text: &str) -> bool {
    (1..10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
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

    /// Adds the pieces of an answer and returns all rows.
    fn rows(pieces: &[&str], columns: usize) -> String {
        let mut buffer = RowBuffer::default();
        let rows: String = pieces.iter().map(|piece| buffer.add(piece, columns)).collect();
        rows + &buffer.end(columns)
    }

    #[test]
    fn a_block_is_returned_when_it_is_complete() {
        let mut rows = RowBuffer::default();
        assert_eq!(
            (rows.add("Once **up", 80).as_str(), rows.partial(80).as_str()),
            ("", "Once **up")
        );
        assert_eq!((rows.add("on** a\nti", 80).as_str(), rows.partial(80).as_str()), ("", "ti"));
        assert_eq!(rows.add("me\n\nthen", 80), "Once upon a\ntime\n\n");
        assert_eq!((rows.end(80).as_str(), rows.partial(80).as_str()), ("then\n", ""));
        assert_eq!(rows.add("- one\n- two\n# Three\n", 80), "• one\n• two\nThree\n");
        assert_eq!(rows.add("1. one\n   - two\n", 80), "1. one\n");
        assert_eq!(rows.end(80), "   • two\n");
    }

    #[test]
    fn lines_of_code_are_returned_unchanged_when_they_are_complete() {
        let mut rows = RowBuffer::default();
        let rule = "─".repeat(RULE_COLUMNS) + "\n";
        assert_eq!(
            rows.add("Run:\n```sh\nls *.rs  **x**\n  ec", 10),
            format!("Run:\n{rule}ls *.rs  **x**\n")
        );
        assert_eq!(rows.partial(10), "  ec");
        assert_eq!(rows.add("ho\n``` x\n```\n", 10), format!("  echo\n``` x\n{rule}"));
        assert_eq!(
            rows.add("~~~\n```\nrest", 10) + &rows.end(10),
            format!("{rule}```\nrest\n{rule}")
        );
    }

    #[test]
    fn a_table_is_aligned() {
        assert_eq!(
            rows(&["| a | num", "ber |\n|---|--:|\n| long", " one | 1 |\n\nx"], 80),
            "a         number\n────────  ──────\nlong one       1\n\nx\n"
        );
        assert_eq!(
            rows(&["| a | b |\n|---|---|\n| long words | 1 |\n| 2 | |"], 12),
            "a: long words\nb: 1\n\na: 2\n\n"
        );
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
        fn no_letter_is_lost(pieces in proptest::collection::vec("[a-c 1.\n|>#-]{0,12}", 0..12), columns in 3_usize..30) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let letters = |text: &str| text.chars().filter(char::is_ascii_lowercase).collect::<String>();
            let shown = letters(&rows(&pieces, columns));
            // A list instead of a table names the columns in each row.
            let wanted = letters(&pieces.concat());
            proptest::prop_assert!(shown.len() >= wanted.len(), "{shown} instead of {wanted}");
        }
    }
}
