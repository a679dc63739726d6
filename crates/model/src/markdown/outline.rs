//! Markdown in which a heading of any level, or a list item, has some `key: value` lines and a
//! text.
//!
//! Comments are removed. Fenced code is an example and is skipped, except by
//! [`OutlineSection::code`], which returns it as the content of a file. Use [`super::sections`] for
//! files that contain only settings.

use super::{CodeFence, KeyValue, MarkdownLine, lines};

/// A heading and the text after it, up to the next heading of any level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlineSection {
    /// Number of `#`; 0 for the text before the first heading.
    pub level: usize,
    /// The text of the heading, unchanged.
    pub title: String,
    /// The line of the heading in the file, from 1.
    pub line: usize,
    /// The lines after it, without fenced code.
    pub body: Vec<TextLine>,
    /// The text after it, with fenced code.
    pub text: String,
}

/// A line of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextLine {
    /// Its number in the file, from 1.
    pub number: usize,
    /// The text, without comments.
    pub text: String,
}

/// The content of a heading or an item: its settings and its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsBlock {
    /// The entries with a known key.
    pub entries: Vec<KeyValue>,
    /// The text, without the common indentation.
    pub text: String,
    /// Lines that look like an entry but have no known key.
    pub unknown: Vec<(usize, String)>,
}

/// A list item with any key, and the indented lines after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListItem {
    /// The text before the first colon, without backticks.
    pub key: String,
    /// The text after the colon, with lines separated by `\n`.
    pub value: String,
    /// Its first line in the file, from 1.
    pub line: usize,
}

/// Splits a file at its headings. The first part is the text before the first heading.
#[must_use]
pub fn outline(text: &str) -> Vec<OutlineSection> {
    let mut parts = vec![OutlineSection {
        level: 0,
        title: String::new(),
        line: 1,
        body: Vec::new(),
        text: String::new(),
    }];
    for (number, line) in lines(text) {
        let part = parts.last_mut().expect("there is a first");
        let line = match line {
            MarkdownLine::Text(line) => line,
            MarkdownLine::Code(line) => {
                part.text.extend([line, "\n"]);
                continue;
            }
        };
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        match line[level..].strip_prefix(' ') {
            Some(title) if (1..=6).contains(&level) && !title.trim().is_empty() => {
                let title = title.trim().trim_end_matches('#').trim().to_owned();
                parts.push(OutlineSection {
                    level,
                    title,
                    line: number,
                    body: Vec::new(),
                    text: String::new(),
                });
            }
            _ => {
                part.text.extend([&line, "\n"]);
                part.body.push(TextLine { number, text: line });
            }
        }
    }
    parts
}

/// Returns the parts below the one at `index`, up to the next part of the same or a higher level.
pub fn descendants(parts: &[OutlineSection], index: usize) -> &[OutlineSection] {
    let rest = &parts[index + 1..];
    &rest[..rest.iter().take_while(|part| part.level > parts[index].level).count()]
}

impl OutlineSection {
    /// Returns the title without backticks and a final colon.
    pub fn plain_title(&self) -> String {
        self.title.replace('`', "").trim_end_matches([':', ' ']).trim().to_owned()
    }

    /// Returns its list items at the margin. Another line at the margin ends the item before it.
    pub fn items(&self) -> Vec<ListItem> {
        let (mut items, mut open): (Vec<ListItem>, _) = (Vec::new(), false);
        for TextLine { number, text } in &self.body {
            if let Some(item) = strip_bullet(text) {
                let (key, value) = item.split_once(':').unwrap_or((item, ""));
                items.push(ListItem {
                    key: key.replace('`', "").trim().to_owned(),
                    value: value.trim().to_owned(),
                    line: *number,
                });
                open = true;
            } else if !text.trim().is_empty() {
                open &= text.starts_with([' ', '\t']);
                if let Some(item) = items.last_mut().filter(|_| open) {
                    item.value = format!("{}\n{}", item.value, text.trim()).trim().to_owned();
                }
            }
        }
        items
    }

    /// Returns the content of its first fenced code.
    pub fn code(&self) -> Option<String> {
        let mut lines = self.text.lines();
        let fence = lines.find_map(CodeFence::opened_by)?;
        Some(
            lines
                .take_while(|line| !fence.closed_by(line))
                .map(|line| format!("{line}\n"))
                .collect(),
        )
    }

    /// Returns heading and text, unchanged.
    pub fn source(&self) -> String {
        format!("{} {}\n{}", "#".repeat(self.level), self.title, self.text)
    }
}

/// Parses lines into entries with one of the `known` keys, and the text, which may begin with
/// `instruction:`. Once the text has begun, only list items at the margin are entries.
pub fn parse_block(body: &[TextLine], known: &[&str]) -> SettingsBlock {
    let (mut block, mut in_text, mut text) = (SettingsBlock::default(), false, Vec::new());
    for TextLine { number, text: line } in body {
        match parse_entry(line) {
            Some((key, value, item)) if item || !in_text => {
                if key == "instruction" || key == "prompt" {
                    in_text = true;
                    text.push(value);
                    continue;
                }
                if known.contains(&key.as_str()) {
                    block.entries.push(KeyValue { key, value, line: *number });
                    continue;
                }
                // This is probably a misspelled key, unless it reads like a sentence.
                if item && !in_text && !key.contains('-') {
                    block.unknown.push((*number, key));
                    continue;
                }
            }
            _ => {}
        }
        in_text |= !line.trim().is_empty();
        text.push(line.trim_end().to_owned());
    }
    block.text = dedented(&text);
    block
}

/// Parses `key: value`. The third part of the result states whether the line is a list item at the
/// margin. The key may be emphasised.
pub fn parse_entry(line: &str) -> Option<(String, String, bool)> {
    let (rest, item) = strip_bullet(line).map_or((line, false), |rest| (rest, true));
    let (key, value) = rest.split_once(':')?;
    let marks: String = key.trim().chars().take_while(|c| "*_".contains(*c)).collect();
    let value = value.strip_prefix(marks.as_str()).unwrap_or(value);
    let key = key.trim().trim_matches(['*', '_', '`']);
    let word = |c: char| c.is_alphabetic() || " -_".contains(c);
    (!key.is_empty() && key.len() <= 40 && key.chars().all(word) && !rest.starts_with(' '))
        .then(|| (key.to_lowercase().replace([' ', '_'], "-"), value.trim().to_owned(), item))
}

/// Returns the text of a list item at the margin, or `None` for other lines.
pub fn strip_bullet(line: &str) -> Option<&str> {
    if let Some(rest) = ["- ", "* ", "+ "].iter().find_map(|bullet| line.strip_prefix(bullet)) {
        return Some(rest.trim_start());
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0)
        .then(|| line[digits..].strip_prefix(['.', ')'])?.strip_prefix(' '))
        .flatten()
        .map(str::trim_start)
}

/// Removes the common indentation of lines; the first one may be indented less.
fn dedented(lines: &[String]) -> String {
    let indent = |line: &String| line.len() - line.trim_start().len();
    let common =
        lines.iter().skip(1).filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or(0);
    let cut = lines.iter().map(|line| line.get(common.min(indent(line))..).unwrap_or_default());
    cut.collect::<Vec<_>>().join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_any_level_have_the_lines_after_them_without_examples() {
        let text = "before\n# A #\n```\n## no\n```\none\n### B <!-- hidden\n## no -->\ntwo\n#not\n";
        let parts: Vec<_> = outline(text)
            .into_iter()
            .map(|part| (part.level, part.title, part.line, part.body.len()))
            .collect();
        assert_eq!(parts, [(0, String::new(), 1, 1), (1, "A".into(), 2, 1), (3, "B".into(), 7, 3)]);
    }

    #[test]
    fn a_part_has_the_deeper_ones_after_it_and_its_code_verbatim() {
        let text = "# Top\n<!-- ## hidden\n-->\n## `One`: ##\n\n````markdown\n## fenced\n```\n<!-- - kept\n```\n````\n### Deep\n## Two\n";
        let parts = outline(text);
        let titles = |parts: &[OutlineSection]| {
            parts.iter().map(OutlineSection::plain_title).collect::<Vec<_>>()
        };
        assert_eq!(
            (titles(descendants(&parts, 1)), titles(descendants(&parts, 4))),
            (vec!["One".into(), "Deep".into(), "Two".into()], vec![])
        );
        assert_eq!(parts[2].code().as_deref(), Some("## fenced\n```\n<!-- - kept\n```\n"));
        assert_eq!(
            (parts[1].code(), parts[2].items(), parts[3].source().as_str()),
            (None, vec![], "### Deep\n")
        );
    }

    #[test]
    fn items_continue_in_indented_lines() {
        let parts = outline(
            "Words.\n* `Key_one`: first\n  second line\n\n  - third\n- bare\nno longer: part of it\n  nor this\n",
        );
        let items = parts[0].items();
        let found: Vec<_> =
            items.iter().map(|item| (item.key.as_str(), item.value.as_str(), item.line)).collect();
        assert_eq!(found, [("Key_one", "first\nsecond line\n- third", 2), ("bare", "", 6)]);
    }

    #[test]
    fn entries_are_before_the_text_or_items_after_it() {
        let text = "\n- **Interval:** 30m\nchannel: `5`\n- intervall: 9\n\nLook:\n- at: this\n- channel: 6\n  - deep\nzone: no\n";
        let block = parse_block(&outline(text)[0].body, &["interval", "channel", "zone"]);
        let entries: Vec<_> = block
            .entries
            .iter()
            .map(|entry| (entry.key.as_str(), entry.text(), entry.line))
            .collect();
        assert_eq!(entries, [("interval", "30m", 2), ("channel", "5", 3), ("channel", "6", 8)]);
        assert_eq!(block.unknown, [(4, "intervall".to_owned())]);
        assert_eq!(block.text, "Look:\n- at: this\n  - deep\nzone: no");
    }

    #[test]
    fn an_instruction_may_have_more_lines() {
        let text = "- instruction: First.\n  Second.\n    - deeper\n\n  Third.";
        assert_eq!(
            parse_block(&outline(text)[0].body, &[]).text,
            "First.\nSecond.\n  - deeper\n\nThird."
        );
    }
}
