//! The section "Cron Jobs" of `agents.md`. The operator's file; only read.
//!
//! Pure. `docs/schedules.md` has the format.

use std::collections::HashSet;

use jiff::tz::TimeZone;

use super::agents_layout::AgentsSection;
use super::fields::{FieldError, clean_name, parse_channel, parse_time_zone};
use super::unread_entries::{entry_faults, ignored_entries, unread_entries};
use aetheel_model::id::ChannelId;
use aetheel_model::markdown::KeyValue;
use aetheel_model::markdown::layout::{
    HiddenHeadings, LayoutFault, MarkdownError, block_faults, key_of,
};
use aetheel_model::markdown::outline::{
    OutlineSection, SettingsBlock, TextLine, outline, parse_block, parse_entry, strip_bullet,
};
use aetheel_model::schedule::{Cron, CronError, MissedPolicy};

const KEYS: [&str; 9] = [
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
/// Maximum length, in characters, of the name that is made from the instruction of a job without a
/// name.
const MAX_NAME_CHARS: usize = 40;

/// A task that runs at the times of a cron expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronJob {
    /// Its unique name, on one line.
    pub name: String,
    /// The line at which it begins in the file, from 1.
    pub line: usize,
    /// The times at which it runs.
    pub expression: Cron,
    /// The prompt for the agent.
    pub instruction: String,
    /// The channel for its answers, or `None` for the operator's output channel.
    pub channel: Option<ChannelId>,
    /// The time zone of its times, or `None` for the operator's.
    pub zone: Option<TimeZone>,
    /// The policy for missed times.
    pub missed: MissedPolicy,
}

/// The content of the section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CronJobs {
    /// The jobs in the order of the file, with different names.
    pub jobs: Vec<CronJob>,
    /// A line for each part that could not be read.
    pub warnings: Vec<String>,
}

/// A job as it is written in the file.
struct JobDraft {
    line: usize,
    /// The title: the heading, or the text before the expression.
    title: String,
    expression: Option<String>,
    block: SettingsBlock,
}

impl JobDraft {
    /// Returns whether a line contains the expression of this job, which needs no bullet after the
    /// heading of a job.
    fn begins_with(&self, line: &TextLine) -> bool {
        let Some(expression) = self.expression.as_deref() else { return false };
        self.line < line.number
            && split_expression(&line.text).is_some_and(|head| head.expression == expression)
    }
}

impl CronJobs {
    /// Parses the text of a file. An invalid job is left out with a warning.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (mut read, mut names) = (Self::default(), HashSet::new());
        let parts = outline(text);
        let drafts = drafts(&parts);
        let mut layout = layout_faults(&parts, &drafts);
        // A complete comment may contain an example.
        layout.extend(block_faults(text, &|_| false, HiddenHeadings::AreAllowed));
        let begins: Vec<usize> = drafts
            .iter()
            .map(|draft| draft.line)
            .chain(parts.iter().map(|part| part.line))
            .collect();
        for draft in drafts {
            read.warnings.extend(ignored_entries("agents.md", &draft.block, &KEYS));
            let after = begins.iter().filter(|line| **line > draft.line);
            let end = after.min().copied().unwrap_or(usize::MAX);
            // A fault may hide when or where the job runs.
            let has_faults = layout.iter().any(|(line, _)| (draft.line..=end).contains(line));
            let given = draft
                .block
                .entries
                .iter()
                .find(|entry| entry.key == "name")
                .map_or(draft.title.as_str(), KeyValue::text);
            let (line, mut called) = (draft.line, clean_name(given));
            if called.is_empty() {
                called = short_name(&draft.block.text);
                let (first, mut number) = (called.clone(), 1);
                while !called.is_empty() && names.contains(&called.to_lowercase()) {
                    number += 1;
                    called = format!("{first} {number}");
                }
            }
            let shown = if called.is_empty() {
                draft.expression.clone().unwrap_or_default()
            } else {
                called.clone()
            };
            let job = job(draft, &called).and_then(|job| {
                if !names.insert(called.to_lowercase()) {
                    return Err(JobError::DuplicateName);
                }
                if has_faults { Err(JobError::HasFaults) } else { Ok(job) }
            });
            match job {
                Ok(job) => read.jobs.push(job),
                Err(fault) => read.warnings.push(format!(
                    "agents.md line {line}: cron job {shown:?} is left out: {fault}"
                )),
            }
        }
        let section = AgentsSection {
            titles: &TITLES,
            is_part: &|part| part.body.iter().any(is_expression_entry),
            is_item: &|line| is_unread_job(&line.text),
            word: "cron",
        };
        let layout = layout.into_iter();
        let lines = layout.map(|(line, fault)| format!("agents.md line {line}: {fault}"));
        read.warnings.extend(lines);
        read.warnings.extend(section.faults(text));
        read
    }
}

/// The titles of the section, in lower case.
const TITLES: [&str; 3] = ["cron jobs", "cron job", "cronjobs"];

/// Returns whether a line sets a cron expression.
fn is_expression_entry(line: &TextLine) -> bool {
    let is_expression = |key: String| ["expression", "cron", "schedule"].contains(&key.as_str());
    let value = line.text.split_once(':').map_or("", |(_, value)| value.trim().trim_matches('`'));
    key_of(&line.text).is_some_and(is_expression) && value.parse::<Cron>().is_ok()
}

/// Returns whether a line is written like a job, whatever its bullet and its backticks.
fn is_unread_job(line: &str) -> bool {
    let is_cron = |text: &str| text.trim().parse::<Cron>().is_ok();
    let text = line.trim_start();
    let text = strip_bullet(text).unwrap_or(text);
    if split_expression(text).is_some_and(|head| is_cron(&head.expression)) {
        return true;
    }
    let plain = line.replace('`', "");
    let Some((head, _)) = plain.split_once(':') else { return false };
    let is_mark = |c: char| c.is_whitespace() || "#>-+_~|".contains(c);
    let head = head.trim_start_matches(is_mark);
    is_cron(head) || is_cron(head.trim_start_matches(|c| is_mark(c) || c == '*'))
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
fn layout_faults(parts: &[OutlineSection], drafts: &[JobDraft]) -> Vec<LayoutFault> {
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

/// Returns a draft for each heading and each list item of the section.
fn drafts(parts: &[OutlineSection]) -> Vec<JobDraft> {
    let (mut drafts, mut inside) = (Vec::new(), None);
    for part in parts {
        let section = TITLES.contains(&clean_name(&part.title).to_lowercase().as_str());
        if inside.is_some_and(|level| part.level > level) {
            drafts.push(draft_of_heading(part));
        } else if section && part.level > 0 {
            inside = Some(part.level);
            drafts.extend(items(&part.body).into_iter().map(draft_of_item));
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

/// Returns the key of an entry, if it is a known one.
fn key(line: &str) -> Option<String> {
    parse_entry(line)
        .map(|(key, ..)| key)
        .filter(|key| KEYS.contains(&key.as_str()) || key == "instruction" || key == "prompt")
}

fn draft_of_item(lines: Vec<TextLine>) -> JobDraft {
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
        return JobDraft {
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
    JobDraft { line, title, expression, block }
}

fn draft_of_heading(part: &OutlineSection) -> JobDraft {
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
    JobDraft { line: part.line, title, expression, block }
}

/// A line that contains a cron expression, split into its parts.
struct JobHeading {
    before: String,
    expression: String,
    after: String,
}

/// Finds an expression: in a code span, before a colon, or as the whole line.
fn split_expression(line: &str) -> Option<JobHeading> {
    let tidy = |text: &str| {
        text.trim_start_matches(|c: char| c.is_whitespace() || ":–—-→=*".contains(c))
            .trim_end()
            .to_owned()
    };
    let pieces: Vec<&str> = line.split('`').collect();
    let spans = || (1..pieces.len().saturating_sub(1)).step_by(2);
    if let Some(at) =
        spans().find(|at| looks_like_expression(pieces[*at])).or_else(|| spans().next())
    {
        let (before, after) = (pieces[..at].join("`"), pieces[at + 1..].join("`"));
        return Some(JobHeading {
            before: clean_name(&before),
            expression: pieces[at].trim().to_owned(),
            after: tidy(&after),
        });
    }
    let (first, after) = line.split_once(':').unwrap_or((line, ""));
    looks_like_expression(first).then(|| JobHeading {
        before: String::new(),
        expression: first.trim().to_owned(),
        after: tidy(after),
    })
}

/// Returns whether a text looks like an expression: a word such as `@daily`, or at least five words
/// that could be fields.
fn looks_like_expression(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let field = |word: &str| word.contains(|c: char| c.is_ascii_digit() || "*?".contains(c));
    text.trim().starts_with('@')
        || (words.clone().count() >= 5 && words.by_ref().take(3).all(field))
}

/// The reason why a cron job is left out.
#[derive(Debug, thiserror::Error)]
enum JobError {
    #[error("there is an earlier one of this name")]
    DuplicateName,
    #[error("it has a line that is not read")]
    HasFaults,
    #[error("`missed` is neither `run-once` nor `skip`: {0:?}")]
    InvalidPolicy(String),
    #[error("it has no cron expression, such as `0 9 * * 1-5`")]
    ExpressionMissing,
    #[error("the cron expression {text:?} is invalid: {source}")]
    InvalidExpression { text: String, source: CronError },
    #[error("it has no instruction")]
    InstructionMissing,
    #[error(transparent)]
    Field(#[from] FieldError),
}

fn job(draft: JobDraft, called: &str) -> Result<CronJob, JobError> {
    let (mut expression, mut to, mut zone, mut missed) =
        (draft.expression, None, None, MissedPolicy::RunOnce);
    for entry in &draft.block.entries {
        let value = entry.text();
        match entry.key.as_str() {
            "name" => {}
            "expression" | "cron" | "schedule" => expression = Some(value.to_owned()),
            "channel" => to = Some(parse_channel(value)?),
            "missed" => {
                missed = match value.to_lowercase().replace([' ', '_'], "-").as_str() {
                    "run-once" | "run" | "once" => MissedPolicy::RunOnce,
                    "skip" => MissedPolicy::Skip,
                    _ => {
                        return Err(JobError::InvalidPolicy(value.to_owned()));
                    }
                }
            }
            _ => zone = Some(parse_time_zone(value)?),
        }
    }
    let text = expression.ok_or(JobError::ExpressionMissing)?;
    let expression = match text.parse() {
        Ok(expression) => expression,
        Err(source) => return Err(JobError::InvalidExpression { text, source }),
    };
    if draft.block.text.is_empty() {
        return Err(JobError::InstructionMissing);
    }
    Ok(CronJob {
        name: called.to_owned(),
        line: draft.line,
        expression,
        instruction: draft.block.text,
        channel: to,
        zone,
        missed,
    })
}

/// Returns the first words of a text.
fn short_name(text: &str) -> String {
    let mut called = String::new();
    for word in clean_name(text.lines().next().unwrap_or_default()).split(' ') {
        if called.chars().count() + 1 + word.chars().count() > MAX_NAME_CHARS && !called.is_empty()
        {
            break;
        }
        called = format!("{called} {word}").trim_start().to_owned();
    }
    clean_name(called.trim_end_matches(['.', ',', ';']))
}

#[cfg(test)]
mod tests;
