//! Finds fields of the agent's output that the component does not read, and fields whose absence it
//! would not report: spelling mistakes of the author, and fields that a later version of the agent
//! may rename.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Area;
use crate::case::Case;
use crate::finding::{CheckFinding, Rule, add};
use crate::mutation::{Change, Holds, Recording, silent_loss, visible};
use crate::shortened;
use crate::unread::{Unread, holds, unread};
use aetheel_turn::recording::RecordingEntry;
use aetheel_turn::replay::{Batches, ReplayResult, replay};
use aetheel_turn::{Backend, GuestFailure};

/// Maximum number of changed recordings in one check.
const MAX_CHANGES: usize = 1500;
/// Number of inputs per call. The component's actions must not depend on it.
const BATCH: usize = 64;
/// Minimum length of a text that counts as prose, in bytes.
const PROSE_BYTES: usize = 12;

/// Renames each field of each recording, one at a time, and searches for turns that show nothing
/// although the agent wrote something.
pub(super) async fn fields(backend: &dyn Backend, cases: &[Case]) -> Result<Area, GuestFailure> {
    let mut area = Area::new("fields", "fields renamed");
    if cases.is_empty() {
        area.why = Some("there is no recording".to_owned());
        return Ok(area);
    }
    let mut tried = BTreeSet::new();
    let mut shows_something = false;
    let mut silent = None;
    let mut lost = Vec::new();
    for case in cases {
        let replayed = replay(backend, &case.tape.entries, Batches::Single).await?;
        if replayed.failure.is_some() {
            continue; // other areas report it
        }
        lost.extend(unread(&case.tape, &replayed).iter().map(|unread| lost_answer(case, unread)));
        let recording = Recording::new(entries(&case.tape.entries));
        let before = json(&replayed);
        match turn_visibility(&before) {
            TurnVisibility::Answer => shows_something = true,
            TurnVisibility::Nothing => {
                silent = silent.or_else(|| unread_prose(case, &recording, &before))
            }
            TurnVisibility::NoTurn => {}
        }
        for (position, holds, change) in recording.changes() {
            if change != Change::Renamed
                || !matches!(holds, Holds::Text | Holds::Structure)
                || area.trials >= MAX_CHANGES
                || !tried.insert(position.name.clone())
            {
                continue;
            }
            let Some(mutant) = recording.mutant(position, change) else { continue };
            area.trials += 1;
            let Some(after) = read(backend, &mutant.entries).await? else { continue };
            if let Some(loss) = silent_loss(&before, &after) {
                let trial = format!("`{}` renamed", position.path);
                let at = case.tape.lines.get(mutant.entry).copied();
                let got = format!("{loss}, and nothing is reported");
                area.notes.push(finding(case, at, trial, got, Rule::Notices));
            }
        }
    }
    if shows_something {
        // If other answers can be read, the rule may be wrong about one at another position.
        area.notes.extend(lost);
    } else if lost.is_empty() {
        silent.into_iter().for_each(|silent| add(&mut area.findings, silent));
    } else {
        lost.into_iter().for_each(|lost| add(&mut area.findings, lost));
    }
    Ok(area)
}

enum TurnVisibility {
    /// A turn shows a text, a thought, a tool, a question or a failure.
    Answer,
    /// Turns ended successfully, and show nothing.
    Nothing,
    /// No turn ended.
    NoTurn,
}

fn turn_visibility(actions: &[Value]) -> TurnVisibility {
    let visible = visible(actions);
    let Some(turns) = visible["turns"].as_object().filter(|turns| !turns.is_empty()) else {
        return TurnVisibility::NoTurn;
    };
    let shows = |turn: &Value| {
        ["texts", "thoughts", "tools", "list"]
            .iter()
            .any(|part| turn[part].as_array().is_some_and(|list| !list.is_empty()))
            || turn["text"].as_str().is_some_and(|text| !text.is_empty())
            || turn["outcome"] != "completed"
    };
    if turns.values().any(shows) { TurnVisibility::Answer } else { TurnVisibility::Nothing }
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

/// Reports an answer that the component lost although the turn ended successfully.
fn lost_answer(case: &Case, unread: &Unread) -> CheckFinding {
    let Unread { turn, entry, position, text } = unread;
    let at = case.tape.lines.get(*entry).copied();
    let text = shortened(text, 120);
    let got = format!(
        "turn {turn} shows no answer; the agent's text at `{position}` is not shown: {text}"
    );
    finding(case, at, "read unchanged".to_owned(), got, Rule::Reads)
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
            _ => "the same output for users, or `unrecognised` for the line without the field",
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
