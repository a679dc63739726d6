//! Finds lines of `boot.md` that are written like a list or a heading but are not read as one. Pure.

use aetheel_model::markdown::layout::{
    HiddenHeadings, LayoutFault, MarkdownError, block_faults, is_failed_heading, is_underline,
    misspelled,
};
use aetheel_model::markdown::outline::{OutlineSection, TextLine, descendants, strip_bullet};

use super::{INSTRUCTION_TITLES, LIST_TITLES, fault};

pub(super) fn layout_faults(text: &str, parts: &[OutlineSection]) -> Vec<String> {
    let mut faults = block_faults(text, &|_| false, HiddenHeadings::AreFaults);
    let mut prompt_end = 0;
    for (index, part) in parts.iter().enumerate() {
        let title = part.plain_title().to_lowercase();
        if INSTRUCTION_TITLES.contains(&title.as_str()) {
            prompt_end = index + 1 + descendants(parts, index).len();
        }
        faults.extend(failed_headings(part));
        if index < prompt_end {
            continue;
        }
        let titles = [&LIST_TITLES[..], &INSTRUCTION_TITLES].concat();
        faults.extend(misspelled(&title, &titles).map(|error| (part.line, error)));
        let is_list = LIST_TITLES.contains(&title.as_str());
        let unread =
            part.body.iter().filter(|line| names_file(line) && !(is_list && is_item(line)));
        faults.extend(unread.map(|line| (line.number, MarkdownError::NotAnItem)));
    }
    faults.sort_by_key(|(line, _)| *line);
    faults.dedup();
    faults.into_iter().map(|(line, error)| format!("boot.md line {line}: {error}")).collect()
}

/// Returns the lines that are written like a heading but are not one.
fn failed_headings(part: &OutlineSection) -> Vec<LayoutFault> {
    let is_title = |line: &str| {
        let plain = line.trim_matches(|c: char| c.is_whitespace() || "#>*_`:-".contains(c));
        let plain = plain.to_lowercase();
        [&LIST_TITLES[..], &INSTRUCTION_TITLES].concat().contains(&plain.as_str())
    };
    let mut before = "";
    let mut faults = Vec::new();
    for TextLine { number, text } in &part.body {
        if is_failed_heading(text) || is_underline(text, before) || is_title(text) {
            faults.push((*number, MarkdownError::NotAHeading));
        }
        before = text;
    }
    faults
}

/// Returns whether a line is only the name of a file, possibly with a remark after a colon.
fn names_file(line: &TextLine) -> bool {
    let name = line.text.trim_start_matches(|c: char| c.is_whitespace() || "-*+>•`".contains(c));
    let (name, rest) = name.split_once(':').unwrap_or((name, ""));
    let name = name.replace('`', "");
    fault(name.trim()).is_none() && (rest.is_empty() || !name.trim().contains(' '))
}

fn is_item(line: &TextLine) -> bool {
    strip_bullet(&line.text).is_some()
}
