//! Markdown as this program parses it: files of operators, and answers of agents.
//!
//! The same rule for fences ([`CodeFence`]) and for comments ([`lines`]) applies everywhere, so an
//! example inside a fence is never a setting. Pure.

mod fence;
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
/// ignored.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, MarkdownLine<'_>)> {
    let (mut fence, mut comment): (Option<CodeFence<'_>>, bool) = (None, false);
    (1..).zip(text.lines()).map(move |(number, line)| {
        let opened = if comment { None } else { CodeFence::opened_by(line) };
        if fence.is_none() && opened.is_none() {
            return (number, MarkdownLine::Text(uncommented(line, &mut comment)));
        }
        fence = fence.map_or(opened, |open| Some(open).filter(|open| !open.closed_by(line)));
        (number, MarkdownLine::Code(line))
    })
}

/// Removes comments from a line. `open` states whether a comment began in an earlier line, and is
/// updated.
fn uncommented(line: &str, open: &mut bool) -> String {
    let (mut rest, mut kept) = (line, String::new());
    loop {
        if *open {
            let Some((_, after)) = rest.split_once("-->") else { return kept };
            (rest, *open) = (after, false);
        } else {
            let Some((before, after)) = rest.split_once("<!--") else { return kept + rest };
            kept.push_str(before);
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
