//! Checks that the state which a guest saves is complete: a fresh guest that loads it does everything
//! that the old guest would have done.
//!
//! The gateway relies on that in two cases: a new component takes over a running agent, and a link
//! is rebuilt from a checkpoint after a crash. In the second case every message to the agent must be
//! the same too, because the recorded ones were already sent. So the state is moved at every place
//! of a recording at which the guest is idle, and another prompt is added at the end, so that a
//! recording of one turn also shows how a conversation continues.

use super::super::finding::{CheckFinding, Rule};
use super::{Area, INPUT_BUDGET, add, compare};
use aetheel_model::agent::descriptor::LinkSharing;
use aetheel_model::agent::{Action, HostCommand, Input};
use aetheel_model::plain::counted;
use aetheel_recording::case::Case;
use aetheel_recording::replay::{Batches, ReplayResult, replay, replay_moving};
use aetheel_recording::{Backend, EntryKind, GuestFailure, RecordingEntry};

/// Minimum of the maximum number of handovers that are tried for a recording.
const FEW_HANDOVERS: usize = 4;
/// Time between the last entry of a recording and the additional prompt, in milliseconds.
const PAUSE_MS: f64 = 1_000.0;

pub(super) async fn handover(backend: &dyn Backend, cases: &[Case]) -> Result<Area, GuestFailure> {
    let mut area = Area::new("handover", "handovers of state to a new guest");
    if backend.descriptor().sharing == LinkSharing::Turn {
        area.why = Some(
            "its agent runs once per turn, so there is never any state to hand over".to_owned(),
        );
        return Ok(area);
    }
    area.findings.extend(unreadable_state(backend).await?);
    let moved = |entry: &RecordingEntry| matches!(entry.kind, EntryKind::Moved { .. });
    let cases = cases.iter().filter(|case| !case.tape.entries.iter().any(moved));
    let cases: Vec<Case> = cases.cloned().collect();
    let inputs: usize = cases.iter().map(|case| case.tape.entries.len()).sum();
    let limit = (INPUT_BUDGET / inputs.max(1)).max(FEW_HANDOVERS);
    let (mut places, mut refused) = (0, 0);
    for mut case in cases.iter().cloned() {
        let recorded = replay(backend, &case.tape.entries, Batches::Single).await?;
        case.tape.entries.extend(next_prompt(&case.tape.entries, &recorded));
        let still = replay(backend, &case.tape.entries, Batches::Single).await?;
        for before in idle(&case, &still, limit) {
            places += 1;
            let trial = "moved to a new guest";
            match replay_moving(backend, &case.tape.entries, before).await {
                Ok(Some(moved)) => {
                    area.trials += 1;
                    compare(&mut area, Rule::Handover, trial, &case, &still, &moved);
                }
                Ok(None) => refused += 1,
                Err(failure) => {
                    area.trials += 1;
                    let (got, expected) = (failure.to_string(), "its own state loaded".to_owned());
                    add(&mut area, Rule::Handover, trial, &case, Some(before), got, expected);
                }
            }
        }
    }
    if area.trials == 0 {
        area.why = Some(match (cases.is_empty(), places) {
            (true, _) => "there is no recording".to_owned(),
            (false, 0) => "no turn of a recording has ended".to_owned(),
            (false, _) => {
                format!(
                    "`save` returned none at {}: every reload restarts its agent \
                     (hint: if `save` should return a state, check that it can access it)",
                    counted(refused, "idle place")
                )
            }
        });
    }
    Ok(area)
}

/// Loads a state that cannot be read. Returns a finding if the guest does not refuse it.
async fn unreadable_state(backend: &dyn Backend) -> Result<Option<CheckFinding>, GuestFailure> {
    let mut guest = backend.open().await?;
    let loaded = guest.load("{\"kit\":[", "0.0.0-kit").await;
    let Err(failure @ (GuestFailure::Trapped(_) | GuestFailure::CutOff(_))) = loaded else {
        return Ok(None);
    };
    let rule = Rule::Handover;
    Ok(Some(CheckFinding {
        rule,
        trial: "a state that cannot be read".to_owned(),
        recording: None,
        line: None,
        input: "load".to_owned(),
        got: failure.to_string(),
        expected: "the state refused with an error".to_owned(),
        advice: rule.advice(),
        times: 1,
    }))
}

/// Returns another prompt in the last session of a recording, or `None` if its agent serves no
/// further turn.
fn next_prompt(entries: &[RecordingEntry], recorded: &ReplayResult) -> Option<RecordingEntry> {
    let shuts_down = |entry: &RecordingEntry| {
        matches!(entry.input(), Some(Input::Command(HostCommand::Shutdown)))
    };
    let last = entries.iter().rev().find_map(RecordingEntry::turn_start)?;
    if last.one_shot || entries.iter().any(shuts_down) {
        return None;
    }
    let turn = entries.iter().filter_map(|entry| Some(entry.turn_start()?.turn)).max()?;
    let ready = |action: &Action| match action {
        Action::SessionReady(ready) if ready.session == last.session => {
            Some(ready.native_id.clone())
        }
        _ => None,
    };
    let mut start = last.clone();
    start.turn = turn + 1;
    start.fork = false;
    start.native_id = recorded.actions().filter_map(ready).last().or(start.native_id);
    let input = Input::Command(HostCommand::StartTurn(start));
    Some(RecordingEntry { t: entries.last()?.t + PAUSE_MS, kind: EntryKind::In(input) })
}

/// Returns the entries before which the guest has no open turn, after its first turn, but at most
/// `limit`.
fn idle(case: &Case, replayed: &ReplayResult, limit: usize) -> Vec<usize> {
    let mut steps = replayed.steps.iter().peekable();
    let (mut open, mut has_started, mut found) = (0_usize, false, Vec::new());
    for (at, entry) in case.tape.entries.iter().enumerate() {
        if entry.input().is_none() {
            continue;
        }
        if has_started && open == 0 {
            found.push(at);
        }
        if entry.turn_start().is_some() {
            open += 1;
            has_started = true;
        }
        while let Some(step) = steps.next_if(|step| step.entry <= at) {
            let ends = |action: &&Action| matches!(action, Action::TurnDone(_));
            open = open.saturating_sub(step.actions.iter().filter(ends).count());
        }
    }
    // The most useful places are directly before the next turn, because the agent then continues.
    found.sort_by_key(|at| case.tape.entries[*at].turn_start().is_none());
    found.truncate(limit);
    found
}
