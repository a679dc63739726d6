//! Markdown in which a heading of any level, or a list item, is a thing with a few `key: value` lines and a text.
//!
//! Fenced code and comments are examples and for people: passed over. [`super::sections`] is for files of settings only.

use super::sections::{bare, uncommented};

/// A heading and what stands below it, up to the next heading of any level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Number of `#`; 0: what stands before the first heading.
    pub level: usize,
    /// As it stands.
    pub title: String,
    /// From 1.
    pub line: usize,
    pub body: Vec<Line>,
}

/// A line of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// From 1.
    pub number: usize,
    pub text: String,
}

/// What a heading or item says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub entries: Vec<Entry>,
    /// The instruction, its indentation taken away.
    pub text: String,
    /// What looks like an entry and is none that is known.
    pub strange: Vec<(usize, String)>,
}

/// `key: value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Lower-case, with `-` for blanks and `_`.
    pub key: String,
    /// Without backticks around it.
    pub value: String,
    /// From 1.
    pub line: usize,
}

/// Reads a file.
pub(super) fn outline(text: &str) -> Vec<Part> {
    let mut parts = vec![Part { level: 0, title: String::new(), line: 1, body: Vec::new() }];
    let (mut fence, mut comment) = (None, false);
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark)) {
            match fence {
                None if !comment => fence = Some(mark),
                Some(open) if open == mark => fence = None,
                _ => {}
            }
            continue;
        }
        if fence.is_some() {
            continue;
        }
        let line = uncommented(line, &mut comment);
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        match line[level..].strip_prefix(' ') {
            Some(title) if (1..=6).contains(&level) && !title.trim().is_empty() => {
                let title = title.trim().trim_end_matches('#').trim().to_owned();
                parts.push(Part { level, title, line: number, body: Vec::new() });
            }
            _ => parts.last_mut().expect("there is a first").body.push(Line { number, text: line }),
        }
    }
    parts
}

/// Reads lines: entries with one of the `known` keys first, then the text, or `instruction:` and what follows it. Once
/// the text has begun, only list items at the margin are entries.
pub(super) fn block(lines: &[Line], known: &[&str]) -> Block {
    let (mut block, mut begun, mut text) = (Block::default(), false, Vec::new());
    for Line { number, text: line } in lines {
        match entry(line) {
            Some((key, value, item)) if item || !begun => {
                if key == "instruction" || key == "prompt" {
                    begun = true;
                    text.push(value);
                    continue;
                }
                if known.contains(&key.as_str()) {
                    block.entries.push(Entry { key, value: bare(&value).to_owned(), line: *number });
                    continue;
                }
                // A slip in a key, unless it reads like a sentence.
                if item && !begun && !key.contains('-') {
                    block.strange.push((*number, key));
                    continue;
                }
            }
            _ => {}
        }
        begun |= !line.trim().is_empty();
        text.push(line.trim_end().to_owned());
    }
    block.text = dedented(&text);
    block
}

/// Reads `key: value`, in a list at the margin (the third part) or not, the key emphasised or not.
pub(super) fn entry(line: &str) -> Option<(String, String, bool)> {
    let (rest, item) = item(line).map_or((line, false), |rest| (rest, true));
    let (key, value) = rest.split_once(':')?;
    let marks: String = key.trim().chars().take_while(|c| "*_".contains(*c)).collect();
    let value = value.strip_prefix(marks.as_str()).unwrap_or(value);
    let key = key.trim().trim_matches(['*', '_', '`']);
    let word = |c: char| c.is_alphabetic() || " -_".contains(c);
    (!key.is_empty() && key.len() <= 40 && key.chars().all(word) && !rest.starts_with(' '))
        .then(|| (key.to_lowercase().replace([' ', '_'], "-"), value.trim().to_owned(), item))
}

/// What follows the mark of a list item at the margin.
pub(super) fn item(line: &str) -> Option<&str> {
    if let Some(rest) = ["- ", "* ", "+ "].iter().find_map(|bullet| line.strip_prefix(bullet)) {
        return Some(rest.trim_start());
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| line[digits..].strip_prefix(['.', ')'])?.strip_prefix(' ')).flatten().map(str::trim_start)
}

/// The lines without what they are all indented by; the first may stand further left.
fn dedented(lines: &[String]) -> String {
    let indent = |line: &String| line.len() - line.trim_start().len();
    let common = lines.iter().skip(1).filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or(0);
    let cut = lines.iter().map(|line| line.get(common.min(indent(line))..).unwrap_or_default());
    cut.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// A name as it may stand in a log, a lane and a state file: one line without markup, at most 80 characters.
pub(super) fn name(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain: String = words.chars().filter(|c| !c.is_control() && *c != '`').collect();
    plain.trim_matches(|c: char| c.is_whitespace() || "*_:–—-".contains(c)).chars().take(80).collect::<String>().trim_end().to_owned()
}

/// A Discord channel: its id, alone, as `<#id>`, or behind its name.
///
/// # Errors
/// That it is none.
pub(super) fn channel(text: &str) -> Result<u64, String> {
    let word = text.split_whitespace().last().unwrap_or_default();
    let digits = word.trim_start_matches("<#").trim_end_matches('>').trim_matches(['(', ')']);
    digits.parse().ok().filter(|id| *id > 0).ok_or_else(|| format!("{text:?} is no channel; copy its id from Discord"))
}

/// A time zone of the IANA database.
///
/// # Errors
/// That it is none.
pub(super) fn time_zone(text: &str) -> Result<jiff::tz::TimeZone, String> {
    jiff::tz::TimeZone::get(text).map_err(|_| format!("{text:?} is no time zone of the IANA database, such as `Europe/Berlin`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_any_level_have_the_lines_below_them_but_no_examples() {
        let text = "before\n# A #\n```\n## no\n```\none\n### B <!-- hidden\n## no -->\ntwo\n#not\n";
        let parts: Vec<_> = outline(text).into_iter().map(|part| (part.level, part.title, part.line, part.body.len())).collect();
        assert_eq!(parts, [(0, String::new(), 1, 1), (1, "A".into(), 2, 1), (3, "B".into(), 7, 3)]);
    }

    #[test]
    fn entries_stand_before_the_text_and_as_items_behind_it() {
        let text = "\n- **Interval:** 30m\nchannel: `5`\n- intervall: 9\n\nLook:\n- at: this\n- channel: 6\n  - deep\nzone: no\n";
        let block = block(&outline(text)[0].body, &["interval", "channel", "zone"]);
        let entries: Vec<_> = block.entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str(), entry.line)).collect();
        assert_eq!(entries, [("interval", "30m", 2), ("channel", "5", 3), ("channel", "6", 8)]);
        assert_eq!(block.strange, [(4, "intervall".to_owned())]);
        assert_eq!(block.text, "Look:\n- at: this\n  - deep\nzone: no");
    }

    #[test]
    fn an_instruction_may_go_on_below() {
        let text = "- instruction: First.\n  Second.\n    - deeper\n\n  Third.";
        assert_eq!(block(&outline(text)[0].body, &[]).text, "First.\nSecond.\n  - deeper\n\nThird.");
    }

    #[test]
    fn channels_are_read_as_people_write_them() {
        for text in ["123", "<#123>", "#site 123", "#site (123)"] {
            assert_eq!(channel(text), Ok(123), "{text}");
        }
        for text in ["", "0", "#site", "-1"] {
            channel(text).expect_err(text);
        }
    }
}
