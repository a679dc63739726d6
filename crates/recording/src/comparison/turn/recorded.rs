//! Compares the actions in a recording with those that a version returns for its inputs now.

use std::collections::BTreeSet;

use super::{
    COMPARE_TIMEOUT, CompareError, Reading, Readings, TurnDifference, failed, most_important,
};
use crate::replay::{Batches, ReplayResult, ReplayedTurn, replay};
use crate::{Backend, GuestFailure};
use crate::{EntryKind, MASKED, ParsedRecording, RecordingEntry, SPARSE, UNSEEN, open_turns};
use aetheel_model::agent::{TurnKey, TurnOutcome};

/// The result of a comparison with a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedComparison {
    /// The differences, in the order of the recording.
    pub differences: Vec<TurnDifference>,
    /// Whether the version fails, or a recorded answer is missing.
    pub is_unreadable: bool,
}

/// Replays a recording to a version, and compares its turns with the recorded actions. If the
/// recording is incomplete, additional actions are not harmful. Takes at most 20 s.
///
/// # Errors
/// [`CompareError`] if the recording cannot be compared.
pub async fn compare_recorded(
    backend: &dyn Backend,
    tape: ParsedRecording,
) -> Result<RecordedComparison, CompareError> {
    let compared = tokio::time::timeout(COMPARE_TIMEOUT, compare(backend, tape)).await;
    compared.unwrap_or(Err(CompareError::Timeout))
}

async fn compare(
    backend: &dyn Backend,
    mut tape: ParsedRecording,
) -> Result<RecordedComparison, CompareError> {
    // The guest did not receive the inputs after this note.
    if let Some(end) = tape.entries.iter().position(|entry| entry.is_note(UNSEEN)) {
        tape.entries.truncate(end + 1);
    }
    let entries = &tape.entries;
    if entries.iter().any(|entry| matches!(entry.kind, EntryKind::Lost(_))) {
        return Err(CompareError::Incomplete);
    }
    let now = match replay(backend, entries, Batches::Single).await {
        Ok(now) => now,
        Err(failure) => {
            let line = tape.lines.first().copied().unwrap_or(1);
            let differences = vec![failed(line, &failure)];
            return Ok(RecordedComparison { differences, is_unreadable: true });
        }
    };
    let failure = now.failure.as_ref().filter(|(_, failure)| {
        // The recorded guest failed too.
        let text = failure.to_string();
        !entries.iter().any(|entry| entry.is_note(UNSEEN) || entry.is_note(&text))
    });
    if let Some((at, GuestFailure::Refused(_))) = failure
        && matches!(entries[*at].kind, EntryKind::Moved { .. })
    {
        return Err(CompareError::StateRefused);
    }
    let before = ReplayResult::recorded(entries);
    let mut found = differences(&tape, &before, &now, &backend.descriptor().version);
    found.extend(failure.map(|(at, failure)| failed(tape.lines[*at], failure)));
    if !found.is_empty() && entries.iter().any(|entry| entry.is_note(MASKED)) {
        return Err(CompareError::Masked);
    }
    Ok(RecordedComparison {
        is_unreadable: failure.is_some() || loses_answer(&before, &now),
        differences: most_important(found),
    })
}

/// Returns the differences of all turns, each once: an action that belongs to no turn counts for
/// every turn that began before it.
fn differences(
    tape: &ParsedRecording,
    before: &ReplayResult,
    now: &ReplayResult,
    version: &str,
) -> Vec<TurnDifference> {
    let started = tape.entries.iter().filter_map(|entry| Some(entry.turn_start()?.turn));
    let replayed = before.turns.keys().chain(now.turns.keys()).copied();
    let turns: BTreeSet<TurnKey> = started.chain(replayed).collect();
    let mut found: Vec<TurnDifference> = Vec::new();
    for turn in turns {
        let readings = Readings {
            tape,
            turn,
            before: Reading::of(tape, turn, before, &tape.header.backend_version),
            now: Reading::of(tape, turn, now, version),
            is_incomplete: is_incomplete(&tape.entries),
        };
        for difference in readings.differences() {
            if !found.contains(&difference) {
                found.push(difference);
            }
        }
    }
    found
}

/// Returns whether a recording ends before its link, or does not contain all events.
fn is_incomplete(entries: &[RecordingEntry]) -> bool {
    let is_cut = |entry: &RecordingEntry| matches!(entry.kind, EntryKind::Cut(_));
    open_turns(entries).next().is_some()
        || entries.iter().any(|entry| is_cut(entry) || entry.is_note(SPARSE))
}

/// Returns whether a turn that completed does not complete, or has no answer, in another reading.
fn loses_answer(before: &ReplayResult, now: &ReplayResult) -> bool {
    let completed = |turn: &ReplayedTurn| {
        turn.done.as_ref().is_some_and(|done| done.outcome == TurnOutcome::Completed)
    };
    let is_empty = |turn: &ReplayedTurn| turn.text().trim().is_empty();
    before.turns.iter().filter(|(_, before)| completed(before)).any(|(key, before)| {
        now.turns.get(key).is_none_or(|now| !completed(now) || (!is_empty(before) && is_empty(now)))
    })
}
