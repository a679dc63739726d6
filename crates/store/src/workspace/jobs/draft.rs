//! The jobs as they are written in the section: the lines and the settings of each.

use super::super::fields::clean_name;
use super::super::unread_entries::{entry_faults, unread_entries};
use super::heading::{JobHeading, is_unread_job, split_expression};
use aetheel_model::markdown::layout::{LayoutFault, MarkdownError};
use aetheel_model::markdown::outline::{
    OutlineSection, SettingsBlock, TextLine, parse_block, parse_entry, strip_bullet,
};
use aetheel_model::schedule::Cron;

pub(super) const KEYS: [&str; 9] = [
    "name",
    "expression",
    "cron",
    "schedule",
    "channel",
    "time-zone",
    "timezone",
    "zone",
    "missed",
];
/// Keys with the same meaning as another key, each with that key.
const ALIASES: [(&str, &str); 4] = [
    ("cron", "expression"),
    ("schedule", "expression"),
    ("timezone", "time-zone"),
    ("zone", "time-zone"),
];

/// The titles of the section, in lower case.
pub(super) const TITLES: [&str; 3] = ["cron jobs", "cron job", "cronjobs"];

/// A job as it is written in the file.
pub(super) struct JobDraft {
    pub(super) line: usize,
    /// The title: the heading, or the text before the expression.
    pub(super) title: String,
    pub(super) expression: Option<String>,
    pub(super) block: SettingsBlock,
}

impl JobDraft {
    /// Returns whether a line contains the expression of this job, which needs no bullet after the
    /// heading of a job.
    fn begins_with(&self, line: &TextLine) -> bool {
        let Some(expression) = self.expression.as_deref() else { return false };
        self.line < line.number
            && split_expression(&line.text).is_some_and(|head| head.expression == expression)
    }

    fn of_item(lines: &[TextLine]) -> Self {
        let line = lines[0].number;
        let indent = |line: &TextLine| line.text.len() - line.text.trim_start().len();
        let below = lines[1..]
            .iter()
            .filter(|line| !line.text.trim().is_empty())
            .map(indent)
            .min()
            .unwrap_or(0);
        let flat = |line: &TextLine| TextLine {
            number: line.number,
            text: line.text.get(below..).unwrap_or_default().to_owned(),
        };
        let mut rest: Vec<TextLine> = lines[1..].iter().map(flat).collect();
        if key(&lines[0].text).is_some() {
            rest.insert(0, lines[0].clone());
            return Self {
                line,
                title: String::new(),
                expression: None,
                block: parse_block(&rest, &KEYS),
            };
        }
        let head = strip_bullet(&lines[0].text).unwrap_or_default();
        let (title, expression, text) = match split_expression(head) {
            Some(JobHeading { before, expression, after }) => (before, Some(expression), after),
            None => (head.to_owned(), None, String::new()),
        };
        let mut block = parse_block(&rest, &KEYS);
        block.text = format!("{text}\n{}", block.text).trim().to_owned();
        Self { line, title, expression, block }
    }

    fn of_heading(part: &OutlineSection) -> Self {
        let mut block = parse_block(&part.body, &KEYS);
        let (title, mut expression) = match split_expression(&part.title) {
            Some(head) => (head.before, Some(head.expression)),
            None => (part.title.clone(), None),
        };
        // Otherwise the text may begin with the expression.
        if expression.is_none()
            && !block
                .entries
                .iter()
                .any(|entry| ["expression", "cron", "schedule"].contains(&entry.key.as_str()))
        {
            let (first, rest) = block.text.split_once('\n').unwrap_or((&block.text, ""));
            let head = split_expression(
                strip_bullet(first).filter(|_| first.parse::<Cron>().is_err()).unwrap_or(first),
            );
            if let Some(head) = head.filter(|head| head.before.is_empty()) {
                expression = Some(head.expression);
                block.text = format!("{}\n{rest}", head.after).trim().to_owned();
            }
        }
        Self { line: part.line, title, expression, block }
    }
}

/// Returns a draft for each heading and each list item of the section.
pub(super) fn drafts(parts: &[OutlineSection]) -> Vec<JobDraft> {
    let (mut drafts, mut inside) = (Vec::new(), None);
    for part in parts {
        let section = TITLES.contains(&clean_name(&part.title).to_lowercase().as_str());
        if inside.is_some_and(|level| part.level > level) {
            drafts.push(JobDraft::of_heading(part));
        } else if section && part.level > 0 {
            inside = Some(part.level);
            drafts.extend(items(&part.body).iter().map(|lines| JobDraft::of_item(lines)));
        } else {
            inside = None;
        }
    }
    drafts
}

/// Returns the list items at the margin, each with the lines that are indented below it.
/// Consecutive entries with different keys form one item.
fn items(lines: &[TextLine]) -> Vec<Vec<TextLine>> {
    let mut items: Vec<Vec<TextLine>> = Vec::new();
    let mut keys: Vec<String> = Vec::new();
    for line in lines {
        if strip_bullet(&line.text).is_none() {
            // Text before the first item, and other text at the margin, is prose.
            if line.text.starts_with([' ', '\t'])
                && let Some(item) = items.last_mut()
            {
                item.push(TextLine { number: line.number, text: line.text.clone() });
            }
            continue;
        }
        match key(&line.text) {
            Some(key) if !keys.is_empty() && !keys.contains(&key) => {
                items.last_mut().expect("it has a key").push(line.clone());
                keys.push(key);
            }
            key => {
                items.push(vec![line.clone()]);
                keys = key.into_iter().collect();
            }
        }
    }
    items
}

fn key(line: &str) -> Option<String> {
    parse_entry(line)
        .map(|(key, ..)| key)
        .filter(|key| KEYS.contains(&key.as_str()) || key == "instruction" || key == "prompt")
}

/// Returns the parts of the section: its heading and those below it.
fn section_parts(parts: &[OutlineSection]) -> impl Iterator<Item = &OutlineSection> {
    let mut inside = None;
    parts.iter().filter(move |part| {
        let is_section = TITLES.contains(&clean_name(&part.title).to_lowercase().as_str());
        if inside.is_none_or(|level| part.level <= level) {
            inside = (is_section && part.level > 0).then_some(part.level);
        }
        inside.is_some()
    })
}

/// Returns a fault for each line of the section that is written like a job or an entry but was not
/// read as one.
pub(super) fn layout_faults(parts: &[OutlineSection], drafts: &[JobDraft]) -> Vec<LayoutFault> {
    let blocks = || drafts.iter().map(|draft| &draft.block);
    let read = blocks().flat_map(|block| &block.entries).map(|entry| entry.line).collect();
    let mut faults: Vec<LayoutFault> =
        blocks().flat_map(|block| entry_faults(block, &KEYS, &ALIASES)).collect();
    for part in section_parts(parts) {
        faults.extend(unread_entries(part, &read, &KEYS));
        let unread = part.body.iter().filter(|line| {
            strip_bullet(&line.text).is_none()
                && drafts.iter().all(|draft| !draft.begins_with(line))
                && is_unread_job(&line.text)
        });
        faults.extend(unread.map(|line| (line.number, MarkdownError::NotAnItem)));
    }
    faults
}
