//! Finds output of the agent that the component does not show, and changes of the output whose
//! effect it would not report: spelling mistakes of the author, and changes that a later version of
//! the agent may make.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Area;
use crate::finding::{CheckFinding, Rule, add};
use crate::mutation::{
    ADDED_TEXT, Change, Holds, Mutant, Recording, reports, silent_loss, visible,
};
use crate::unread::{Unread, holds, unread};
use aetheel_model::agent::{Input, Pipe};
use aetheel_model::plain::shortened;
use aetheel_recording::case::Case;
use aetheel_recording::replay::{Batches, ReplayResult, replay};
use aetheel_recording::{Backend, EntryKind, GuestFailure, RecordingEntry};

const MAX_CHANGES: usize = 1500;
/// Number of inputs per call. The component's actions must not depend on it.
const BATCH: usize = 64;
/// Minimum length of a text that counts as prose, in bytes.
const PROSE_BYTES: usize = 12;
/// Replaces the first word of a line that is not JSON.
const OTHER_WORD: &str = "Otherwise";

/// Searches for answers that no turn shows, and then changes each recording as a new version of the
/// agent may do, one change at a time, to find losses without a report.
pub(super) async fn fields(backend: &dyn Backend, cases: &[Case]) -> Result<Area, GuestFailure> {
    let mut area = Area::new("fields", "changes of the output");
    if cases.is_empty() {
        area.why = Some("there is no recording".to_owned());
        return Ok(area);
    }
    let mut answers = Answers::default();
    let mut tried = BTreeSet::new();
    for case in cases {
        let replayed = replay(backend, &case.tape.entries, Batches::Single).await?;
        if replayed.failure.is_some() {
            continue; // other areas report it
        }
        answers.add(case, &replayed);
        let before = json(&replayed);
        try_documents(backend, case, &before, &mut tried, &mut area).await?;
        try_plain_lines(backend, case, &before, &mut tried, &mut area).await?;
    }
    answers.report(&mut area);
    Ok(area)
}

/// The answers that were found in the recordings.
#[derive(Default)]
struct Answers {
    /// Whether a turn shows a text.
    is_any_shown: bool,
    /// Answers that no turn shows, and that the component did not report.
    lost: Vec<CheckFinding>,
    /// Answers that the component reported as unknown output.
    reported: Vec<CheckFinding>,
    /// Prose in the output of a turn that shows nothing at all.
    silent: Option<CheckFinding>,
}

impl Answers {
    fn add(&mut self, case: &Case, replayed: &ReplayResult) {
        for unread in unread(&case.tape.entries, replayed) {
            let list = if unread.is_reported { &mut self.reported } else { &mut self.lost };
            list.push(lost_answer(case, &unread));
        }
        let mut turns = replayed.turns.values();
        self.is_any_shown |= turns.any(|turn| !turn.text().trim().is_empty());
        let before = json(replayed);
        if self.silent.is_none() && shows_nothing(&before) {
            let recording = Recording::new(entries(&case.tape.entries));
            self.silent = unread_prose(case, &recording, &before);
        }
    }

    /// Adds the findings. A reported answer is a finding only if no answer is shown at all, because
    /// a recording of unknown output is a good case. The longest prose of a silent turn is less
    /// certain than an answer that the gateway would find.
    fn report(self, area: &mut Area) {
        let Self { is_any_shown, mut lost, reported, silent } = self;
        if is_any_shown {
            area.notes.extend(reported);
        } else {
            lost.extend(reported);
            if lost.is_empty() {
                lost.extend(silent);
            }
        }
        lost.into_iter().for_each(|lost| add(&mut area.findings, lost));
    }
}

/// Tries the changes of the JSON documents of a recording.
async fn try_documents(
    backend: &dyn Backend,
    case: &Case,
    before: &[Value],
    tried: &mut BTreeSet<(String, Change)>,
    area: &mut Area,
) -> Result<(), GuestFailure> {
    let recording = Recording::new(entries(&case.tape.entries));
    for (position, holds, change) in recording.changes() {
        let is_tried = match change {
            Change::Renamed => matches!(holds, Holds::Text | Holds::Structure),
            Change::OtherKind | Change::Added => true,
            Change::Nested | Change::Retyped | Change::Split | Change::RenamedEverywhere => false,
        };
        if !is_tried || area.trials >= MAX_CHANGES || !tried.insert((position.name.clone(), change))
        {
            continue;
        }
        let Some(mutant) = recording.mutant(position, change) else { continue };
        area.trials += 1;
        let Some(after) = read(backend, &mutant.entries).await? else { continue };
        let trial = match change {
            Change::Added => format!("{} {change}", position.name),
            _ => format!("`{}` {change}", position.path),
        };
        if change == Change::Added {
            if let Some((rule, got)) = unknown_line(before, &after) {
                let found = finding(case, line_of(case, &mutant), trial, got, rule);
                match rule {
                    Rule::Reads => add(&mut area.findings, found),
                    _ => area.notes.push(found),
                }
            }
        } else if let Some(got) = loss(before, &after) {
            area.notes.push(finding(case, line_of(case, &mutant), trial, got, Rule::Notices));
        }
    }
    Ok(())
}

/// Gives each line that is not JSON another first word.
async fn try_plain_lines(
    backend: &dyn Backend,
    case: &Case,
    before: &[Value],
    tried: &mut BTreeSet<(String, Change)>,
    area: &mut Area,
) -> Result<(), GuestFailure> {
    for (at, entry) in case.tape.entries.iter().enumerate() {
        let EntryKind::In(Input::Line(line)) = &entry.kind else { continue };
        if line.pipe != Pipe::Stdout || serde_json::from_str::<Value>(&line.text).is_ok() {
            continue;
        }
        let Some((word, rest)) = line.text.trim().split_once(char::is_whitespace) else { continue };
        let rest = rest.trim();
        let is_shown = |actions: &[Value]| holds(&visible(actions), rest);
        if area.trials >= MAX_CHANGES
            || !is_shown(before)
            || !tried.insert((word.to_owned(), Change::OtherKind))
        {
            continue;
        }
        let mut changed = case.tape.entries.clone();
        if let EntryKind::In(Input::Line(line)) = &mut changed[at].kind {
            line.text = format!("{OTHER_WORD} {rest}");
        }
        area.trials += 1;
        let Some(after) = read(backend, &entries(&changed)).await? else { continue };
        if !is_shown(&after) && reports(&after) <= reports(before) {
            let trial = format!("a plain line that begins with `{OTHER_WORD}`, not `{word}`");
            let got = "the line is not shown, and nothing is reported".to_owned();
            let line = case.tape.lines.get(at).copied();
            area.notes.push(finding(case, line, trial, got, Rule::Notices));
        }
    }
    Ok(())
}

/// Describes what a component lost without a report.
fn loss(before: &[Value], after: &[Value]) -> Option<String> {
    Some(format!("{}, and nothing is reported", silent_loss(before, after)?))
}

/// Returns the mistake that a component makes with a line of an unknown kind: it shows the line, or
/// drops it without a report.
fn unknown_line(before: &[Value], after: &[Value]) -> Option<(Rule, String)> {
    let texts = |actions: &[Value]| {
        let visible = visible(actions);
        let turns = visible["turns"].as_object().cloned().unwrap_or_default();
        turns.values().map(|turn| turn["texts"].to_string()).collect::<String>()
    };
    if texts(after).contains(ADDED_TEXT) {
        return Some((Rule::Reads, "the line is shown as a part of the answer".to_owned()));
    }
    if reports(after) > reports(before) || holds(&visible(after), ADDED_TEXT) {
        return None;
    }
    Some((Rule::Notices, loss(before, after).unwrap_or_else(|| "nothing is reported".to_owned())))
}

/// Returns whether turns ended successfully and show nothing.
fn shows_nothing(actions: &[Value]) -> bool {
    let visible = visible(actions);
    let Some(turns) = visible["turns"].as_object().filter(|turns| !turns.is_empty()) else {
        return false;
    };
    let shows = |turn: &Value| {
        ["texts", "thoughts", "tools", "list"]
            .iter()
            .any(|part| turn[part].as_array().is_some_and(|list| !list.is_empty()))
            || turn["text"].as_str().is_some_and(|text| !text.is_empty())
            || turn["outcome"] != "completed"
    };
    !turns.values().any(shows)
}

/// Returns the longest prose in a recording that no turn shows.
fn unread_prose(case: &Case, recording: &Recording, before: &[Value]) -> Option<CheckFinding> {
    let (position, entry) = recording
        .texts()
        .filter(|(_, _, text)| text.len() >= PROSE_BYTES && text.contains(' '))
        .filter(|(_, _, text)| !before.iter().any(|action| holds(action, text)))
        .max_by_key(|(_, _, text)| text.len())
        .map(|(position, entry, _)| (position.path.clone(), entry))?;
    let at = case.tape.lines.get(entry).copied();
    let got = format!("turns complete and show nothing; `{position}` has text that is never shown");
    Some(finding(case, at, "read unchanged".to_owned(), got, Rule::Reads))
}

/// Reports an answer that the component lost.
fn lost_answer(case: &Case, unread: &Unread) -> CheckFinding {
    let Unread { turn, entry, position, text, reason, is_reported } = unread;
    let at = case.tape.lines.get(*entry).copied();
    let text = shortened(text, 120);
    let got = match position {
        Some(position) if !is_reported => format!(
            "turn {turn} shows no answer; the agent's text at `{position}` is not shown: {text}"
        ),
        _ => format!("turn {turn} shows no answer, only a report: {reason}"),
    };
    finding(case, at, "read unchanged".to_owned(), got, Rule::Reads)
}

fn line_of(case: &Case, mutant: &Mutant) -> Option<usize> {
    case.tape.lines.get(mutant.entry).copied()
}

fn finding(
    case: &Case,
    line: Option<usize>,
    trial: String,
    got: String,
    rule: Rule,
) -> CheckFinding {
    CheckFinding {
        rule,
        trial,
        recording: Some(case.path.display().to_string()),
        line,
        input: String::new(),
        got,
        expected: match rule {
            Rule::Reads => "an answer, or `unrecognised` for the lines that cannot be read",
            _ => "the same output for users, or `unrecognised` for the changed line",
        }
        .to_owned(),
        advice: rule.advice(),
        times: 1,
    }
}

fn entries(entries: &[RecordingEntry]) -> Vec<Value> {
    entries.iter().filter_map(|entry| serde_json::to_value(entry).ok()).collect()
}

/// Returns the actions of a component for these entries. Returns `None` if it fails, because other
/// areas report that.
async fn read(
    backend: &dyn Backend,
    entries: &[Value],
) -> Result<Option<Vec<Value>>, GuestFailure> {
    let entries: Vec<RecordingEntry> =
        entries.iter().filter_map(|entry| serde_json::from_value(entry.clone()).ok()).collect();
    let replayed = replay(backend, &entries, Batches::Of(BATCH)).await?;
    Ok(replayed.failure.is_none().then(|| json(&replayed)))
}

fn json(replayed: &ReplayResult) -> Vec<Value> {
    replayed.actions().filter_map(|action| serde_json::to_value(action).ok()).collect()
}
