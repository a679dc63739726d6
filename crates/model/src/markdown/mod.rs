//! Markdown as this program parses it: files of operators, and answers of agents.
//!
//! The same rule for fences ([`CodeFence`]) and for comments ([`lines`]) applies everywhere, so an
//! example inside a fence is never a setting. Pure.

mod fence;
pub mod layout;
pub mod outline;
pub mod sections;

pub use fence::CodeFence;

/// A line of an operator's file, as [`lines`] returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkdownLine<'a> {
    /// A line inside a code fence, or one that opens or closes a fence, unchanged.
    Code(&'a str),
    /// Any other line, without comments.
    Text(String),
}

/// A `key: value` pair, usually in a list item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key in lower case, with `-` in place of blanks and `_`.
    pub key: String,
    /// The value, with its backticks; not empty.
    value: String,
    /// Its line in the file, from 1.
    pub line: usize,
}

impl KeyValue {
    /// Returns a key as it is compared: in lower case, with `-` in place of blanks and `_`.
    pub(crate) fn key_of(written: &str) -> String {
        trim_backticks(written).to_lowercase().replace([' ', '_'], "-")
    }

    /// Returns the value without backticks around it.
    pub fn text(&self) -> &str {
        trim_backticks(&self.value)
    }

    /// Returns the parts between commas, each without backticks around it. A comma within braces,
    /// as in JSON, does not separate parts.
    pub fn list(&self) -> impl Iterator<Item = &str> {
        let mut depth = 0_usize;
        let separates = move |c: char| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        };
        self.value.split(separates).map(trim_backticks).filter(|item| !item.is_empty())
    }
}

/// Splits a file into lines, numbered from 1. A comment may span lines, and fences inside it are
/// ignored. A byte order mark at the beginning is skipped.
pub fn lines(text: &str) -> MarkdownLines<'_> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    MarkdownLines { rest: text.lines(), number: 0, fence: None, comment: None }
}

/// The lines of a file; see [`lines`].
#[derive(Clone, Debug)]
pub struct MarkdownLines<'a> {
    rest: std::str::Lines<'a>,
    number: usize,
    fence: Option<(CodeFence<'a>, usize)>,
    /// The line at which the open comment began.
    comment: Option<usize>,
}

/// A part of a file without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenBlock {
    /// A code fence that began at this line.
    Fence(usize),
    /// A comment that began at this line.
    Comment(usize),
}

impl<'a> MarkdownLines<'a> {
    /// Returns the fence that is open after the last line that was returned.
    #[must_use]
    pub fn open_fence(&self) -> Option<CodeFence<'a>> {
        self.fence.map(|(fence, _)| fence)
    }

    /// Returns the fence or comment that is open after the last line that was returned.
    #[must_use]
    pub fn open_block(&self) -> Option<OpenBlock> {
        let fence = self.fence.map(|(_, line)| OpenBlock::Fence(line));
        fence.or_else(|| self.comment.map(OpenBlock::Comment))
    }
}

impl<'a> Iterator for MarkdownLines<'a> {
    type Item = (usize, MarkdownLine<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.rest.next()?;
        self.number += 1;
        let opened = if self.comment.is_some() { None } else { CodeFence::opened_by(line) };
        let opened = opened.map(|fence| (fence, self.number));
        if self.fence.is_none() && opened.is_none() {
            let mut is_open = self.comment.is_some();
            let text = uncommented(line, &mut is_open);
            let start = self.comment.filter(|_| !line.contains("-->")).unwrap_or(self.number);
            self.comment = is_open.then_some(start);
            return Some((self.number, MarkdownLine::Text(text)));
        }
        self.fence = match self.fence {
            Some(open) => Some(open).filter(|(open, _)| !open.closed_by(line)),
            None => opened,
        };
        Some((self.number, MarkdownLine::Code(line)))
    }
}

/// Removes comments from a line. `open` states whether a comment began in an earlier line, and is
/// updated.
fn uncommented(line: &str, open: &mut bool) -> String {
    let (mut rest, mut visible) = (line, String::new());
    loop {
        if *open {
            let Some((_, after)) = rest.split_once("-->") else { return visible };
            (rest, *open) = (after, false);
        } else {
            let Some((before, after)) = rest.split_once("<!--") else { return visible + rest };
            visible.push_str(before);
            (rest, *open) = (after, true);
        }
    }
}

/// Trims blanks and one pair of backticks.
#[must_use]
pub fn trim_backticks(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix('`').and_then(|text| text.strip_suffix('`'));
    inner.filter(|inner| !inner.contains('`')).unwrap_or(text).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> String {
        lines(text)
            .map(|(_, line)| if matches!(line, MarkdownLine::Code(_)) { 'c' } else { 't' })
            .collect()
    }

    #[test]
    fn a_fence_is_closed_only_by_its_own_marker() {
        assert_eq!(kinds("a\n````md\n```\n## no\n```\n````\nb"), "tccccct");
        assert_eq!(kinds("```\n~~~\n```\nb"), "ccct");
        assert_eq!(kinds("```inline``` code\nb"), "tt");
    }

    #[test]
    fn comments_are_removed_and_hide_fences() {
        let found: Vec<_> = lines("a <!-- b\n```\n--> c\n```\n<!-- d -->\n```").collect();
        let text = |number: usize, text: &str| (number, MarkdownLine::Text(text.to_owned()));
        assert_eq!(
            found,
            [
                text(1, "a "),
                text(2, ""),
                text(3, " c"),
                (4, MarkdownLine::Code("```")),
                (5, MarkdownLine::Code("<!-- d -->")),
                (6, MarkdownLine::Code("```"))
            ]
        );
    }
}
