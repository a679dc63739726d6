//! Finds lines of an operator's file that are written like settings but are not read as settings.
//!
//! A parser skips prose. Without these checks, a slip of layout would turn a setting into prose: a
//! heading of another level, an indented entry, a fence or a comment without an end. Pure.

use std::collections::HashSet;

use crate::suggest::nearest;

use super::{CodeFence, KeyValue, MarkdownLine, MarkdownLines, OpenBlock, lines};

/// The reason why a line is not read, or not as the operator meant it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarkdownError {
    /// A code fence has no end.
    #[error("the code fence that begins here has no end, so nothing after it is read")]
    UnclosedFence,
    /// A fence begins in another one of the same kind.
    #[error("a code fence begins inside another one; close the first one, or make it longer")]
    NestedFence,
    /// A comment has no end.
    #[error("the comment that begins here has no `-->`, so nothing after it is read")]
    UnclosedComment,
    /// A comment contains an entry.
    #[error("a comment hides `{0}`; delete it, or write an example in a code fence")]
    HiddenKey(String),
    /// A comment contains the heading of a section.
    #[error("a comment hides a heading; delete it, or write an example in a code fence")]
    HiddenHeading,
    /// The file contains bytes that are not text.
    #[error(
        "this is not plain UTF-8 text with lines that end with a line feed; save the file as UTF-8"
    )]
    NotText,
    /// An entry is in no section.
    #[error("`{0}` belongs to no section; begin one with `## NAME`")]
    OutsideSection(String),
    /// An entry is indented, or has no bullet.
    #[error("`{0}` is not read; begin the line with `- {0}:`")]
    NotAnEntry(String),
    /// An entry has no value.
    #[error("`{0}` has no value")]
    NoValue(String),
    /// An entry follows prose of its section.
    #[error(
        "`{0}` comes after text of the section; write it before the text, or begin a section with `## NAME`"
    )]
    AfterProse(String),
    /// A key occurs twice in a section.
    #[error("there is an earlier `{0}` in this section")]
    Repeated(String),
    /// A heading is not one that begins a section.
    #[error("this heading begins no section; write it at the margin as `## NAME`")]
    NotASection,
    /// A key is similar to a known one.
    #[error("`{key}` is unknown here; did you mean `{meant}`?")]
    Misspelled {
        /// The key in the file.
        key: String,
        /// The known key.
        meant: String,
    },
    /// A part of a list is not an item.
    #[error("this is not read; begin a list item at the margin with `- `")]
    NotAnItem,
    /// A heading is not one of markdown.
    #[error("this is not a heading; write it at the margin, with a space after the `#`")]
    NotAHeading,
}

/// A fault with its line in the file, from 1.
pub type LayoutFault = (usize, MarkdownError);

/// How the sections of a file are written; see [`super::sections`].
#[derive(Clone, Copy)]
pub struct SectionLayout<'a> {
    /// Returns whether a key has a meaning in this file.
    pub is_known: &'a dyn Fn(&str) -> bool,
    /// Returns whether a key may occur several times in a section.
    pub may_repeat: &'a dyn Fn(&str) -> bool,
    /// Keys with the same meaning as another key, each with that key.
    pub aliases: &'a [(&'a str, &'a str)],
    /// Whether the prose of a section is a prompt, which may have headings of its own.
    pub has_prompt: bool,
}

#[derive(Default)]
struct SectionState {
    keys: HashSet<String>,
    has_prose: bool,
    /// Whether prose came after an entry.
    has_ended: bool,
}

impl SectionLayout<'_> {
    /// Returns the faults of a file in the order of their lines. A heading with a fault may be an
    /// entry of the section before it.
    #[must_use]
    pub fn faults(&self, text: &str) -> Vec<LayoutFault> {
        let mut faults = block_faults(text, self.is_known, HiddenHeadings::AreFaults);
        let mut section: Option<SectionState> = None;
        for (number, line) in lines(text) {
            let found = match line {
                MarkdownLine::Code(_) => {
                    if let Some(section) = &mut section {
                        section.has_prose = true;
                        section.has_ended |= !section.keys.is_empty();
                    }
                    None
                }
                MarkdownLine::Text(line) if is_section(&line) => {
                    section = Some(SectionState::default());
                    // Such as `## - safety: ask`.
                    let key = key_of(&line).filter(|key| (self.is_known)(key));
                    key.map(MarkdownError::NotAnEntry)
                }
                MarkdownLine::Text(line) => self.read(&line, section.as_mut()),
            };
            faults.extend(found.map(|error| (number, error)));
        }
        faults.sort_by_key(|(line, _)| *line);
        faults
    }

    fn read(&self, line: &str, section: Option<&mut SectionState>) -> Option<MarkdownError> {
        let known = key_of(line).filter(|key| (self.is_known)(key));
        let Some(section) = section else {
            if let Some(key) = known {
                return Some(MarkdownError::OutsideSection(key));
            }
            return is_other_heading(line, 1).then_some(MarkdownError::NotASection);
        };
        let item = ["- ", "* ", "+ "].iter().find_map(|bullet| line.strip_prefix(bullet));
        let Some(key) = known else {
            section.has_prose |= item.is_none() && !line.trim().is_empty();
            section.has_ended |= section.has_prose && !section.keys.is_empty();
            let allowed = if self.has_prompt { 2 } else { 0 };
            return is_other_heading(line, allowed).then_some(MarkdownError::NotASection);
        };
        let (written, value) = item.and_then(|item| item.split_once(':')).unwrap_or_default();
        if KeyValue::key_of(written) != key {
            return Some(MarkdownError::NotAnEntry(key));
        }
        if value.trim().is_empty() {
            return Some(MarkdownError::NoValue(key));
        }
        if section.has_ended || (self.has_prompt && section.has_prose) {
            return Some(MarkdownError::AfterProse(key));
        }
        let meaning = self.aliases.iter().find(|(alias, _)| *alias == key);
        let meaning = meaning.map_or(key.as_str(), |(_, same)| *same);
        if !section.keys.insert(meaning.to_owned()) && !(self.may_repeat)(&key) {
            return Some(MarkdownError::Repeated(key));
        }
        None
    }
}

/// Returns a fault for each entry whose key is not one of `keys`, but similar to one of them.
#[must_use]
pub fn misspelled_keys(entries: &[KeyValue], keys: &[&str]) -> Vec<LayoutFault> {
    let entries = entries.iter().map(|entry| (entry.line, entry.key.as_str()));
    entries.filter_map(|(line, key)| Some((line, misspelled(key, keys)?))).collect()
}

/// Returns the fault of a key that is not one of `keys`, but similar to one of them.
#[must_use]
pub fn misspelled(key: &str, keys: &[&str]) -> Option<MarkdownError> {
    if keys.contains(&key) {
        return None;
    }
    let meant = nearest(key, keys.iter().copied())?;
    // Short words are similar by chance.
    let is_similar = strsim::osa_distance(key, meant) <= (meant.len() / 3).max(1);
    is_similar.then(|| MarkdownError::Misspelled { key: key.to_owned(), meant: meant.to_owned() })
}

/// Returns whether a line begins a section. The name of a section contains a letter or a digit.
fn is_section(line: &str) -> bool {
    line.strip_prefix("## ").is_some_and(|title| title.contains(char::is_alphanumeric))
}

/// Returns whether a line is written like a heading that begins no section. Headings at the margin
/// with `allowed` as their number of `#` are not: 0 for none, 1 for the title of a file, 2 for those
/// of a prompt, which are all others than those of sections.
fn is_other_heading(line: &str, allowed: usize) -> bool {
    let Some((level, is_at_margin, has_space)) = heading_of(line) else { return false };
    let is_proper = is_at_margin && has_space;
    match allowed {
        1 => level > 1 || (!is_at_margin && has_space),
        2 => (level > 1 && !is_proper) || level == 2,
        // Names of channels begin with one `#`, too.
        _ => has_space || level > 1,
    }
}

/// Returns the number of `#` at the beginning of a line, whether they are at the margin, and
/// whether a blank follows them.
fn heading_of(line: &str) -> Option<(usize, bool, bool)> {
    let rest = line.trim_start_matches(|c: char| c.is_whitespace() || c == '>' || is_invisible(c));
    let level = rest.bytes().take_while(|byte| *byte == b'#').count();
    let after = &rest[level..];
    (level > 0).then_some((
        level,
        rest.len() == line.len(),
        after.is_empty() || after.starts_with(' '),
    ))
}

/// Returns whether a line is written like a heading, but no parser of headings of any level finds it.
#[must_use]
pub fn is_failed_heading(line: &str) -> bool {
    heading_of(line).is_some_and(|(level, is_at_margin, has_space)| {
        (level > 1 && !has_space) || (!is_at_margin && has_space)
    })
}

/// Returns whether a line makes the line before it a heading, as `---` does.
#[must_use]
pub fn is_underline(line: &str, before: &str) -> bool {
    let line = line.trim_end();
    let is_only = |mark: u8| line.len() > 1 && line.bytes().all(|byte| byte == mark);
    (is_only(b'-') || is_only(b'=')) && !before.trim().is_empty()
}

/// Whether a heading in a comment is a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HiddenHeadings {
    /// The heading would begin a section.
    AreFaults,
    /// The file may have examples in comments.
    AreAllowed,
}

/// Returns the faults of fences, comments and characters: everything that hides a part of the file
/// from a parser. A known key in a comment is a fault.
#[must_use]
pub fn block_faults(
    text: &str,
    is_known: &dyn Fn(&str) -> bool,
    headings: HiddenHeadings,
) -> Vec<LayoutFault> {
    let mut faults = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut scanned, mut raw) = (lines(text), text.lines());
    let mut outer: Option<CodeFence<'_>> = None;
    while let (Some((number, line)), Some(raw)) = (scanned.next(), raw.next()) {
        if raw.contains(['\0', '\r', '\u{85}', '\u{2028}', '\u{2029}', '\u{fffd}']) {
            faults.push((number, MarkdownError::NotText));
        }
        match line {
            MarkdownLine::Code(_) => {
                if let (Some(outer), Some(inner)) = (outer, CodeFence::opened_by(raw))
                    && outer.would_be_closed_without_info(&inner)
                {
                    faults.push((number, MarkdownError::NestedFence));
                }
            }
            MarkdownLine::Text(shown) if shown != raw => {
                let hidden = hidden(raw, &shown, is_known, headings);
                faults.extend(hidden.map(|error| (number, error)));
            }
            MarkdownLine::Text(_) => {}
        }
        outer = scanned.open_fence();
    }
    faults.extend(unclosed(&scanned));
    faults
}

fn unclosed(scanned: &MarkdownLines<'_>) -> Option<LayoutFault> {
    scanned.open_block().map(|block| match block {
        OpenBlock::Fence(line) => (line, MarkdownError::UnclosedFence),
        OpenBlock::Comment(line) => (line, MarkdownError::UnclosedComment),
    })
}

/// Returns the fault of a line of which a comment hides at least a part.
fn hidden(
    raw: &str,
    shown: &str,
    is_known: &dyn Fn(&str) -> bool,
    headings: HiddenHeadings,
) -> Option<MarkdownError> {
    let shown_key = key_of(shown);
    raw.split("<!--").flat_map(|part| part.split("-->")).find_map(|part| {
        let key = key_of(part).filter(|key| is_known(key) && shown_key.as_ref() != Some(key));
        if let Some(key) = key {
            return Some(MarkdownError::HiddenKey(key));
        }
        let is_hidden = headings == HiddenHeadings::AreFaults && is_section(part.trim_start());
        (is_hidden && !is_section(shown)).then_some(MarkdownError::HiddenHeading)
    })
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}')
}

/// Returns the key of a line that is written like an entry, whatever its layout: with any
/// indentation, bullet and emphasis, as a heading, or quoted.
#[must_use]
pub fn key_of(line: &str) -> Option<String> {
    let line: String = line.chars().filter(|c| !is_invisible(*c)).collect();
    let is_mark = |c: char| c.is_whitespace() || ">-*+#_~`\"'|•‣·◦–—−".contains(c);
    let mut rest = line.trim_start_matches(is_mark);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if let Some(after) = rest[digits..].strip_prefix(['.', ')']).filter(|_| digits > 0) {
        rest = after.trim_start_matches(is_mark);
    }
    for checkbox in ["[ ]", "[x]", "[X]"] {
        rest = rest.strip_prefix(checkbox).map_or(rest, |rest| rest.trim_start_matches(is_mark));
    }
    let end = rest.find([':', '：', '='])?;
    let key = KeyValue::key_of(rest[..end].trim_end_matches(is_mark));
    (!key.is_empty()).then_some(key)
}
