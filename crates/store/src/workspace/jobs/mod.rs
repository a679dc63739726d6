//! The section "Cron Jobs" of `agents.md`. The operator's file; only read.
//!
//! `draft` finds the jobs of the section, `heading` finds the cron expression in a line, and this
//! module reads their settings. Pure. `docs/schedules.md` has the format.

mod draft;
mod heading;

use std::collections::HashSet;

use jiff::tz::TimeZone;

use self::draft::{JobDraft, KEYS, TITLES, drafts, layout_faults};
use self::heading::{is_expression_entry, is_unread_job};
use super::agents_layout::AgentsSection;
use super::fields::{FieldError, clean_name, parse_channel, parse_time_zone};
use super::unread_entries::ignored_entries;
use aetheel_model::id::ChannelId;
use aetheel_model::markdown::KeyValue;
use aetheel_model::markdown::layout::{HiddenHeadings, block_faults};
use aetheel_model::markdown::outline::outline;
use aetheel_model::schedule::{Cron, CronError, MissedPolicy};

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
