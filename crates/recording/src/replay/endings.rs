//! Decides how the turns of a recording would end with a replayed guest.

use std::collections::{BTreeMap, BTreeSet};

use super::{ReplayResult, lost_text};
use crate::RecordingEntry;
use crate::{Ending, TurnEvidence, TurnObservations};
use aetheel_model::agent::{Action, AgentFailure, Exit, FailureKind, Input, TurnKey};
use aetheel_model::fold::Transcript;

/// Returns the ending of each turn that the recording starts or the guest reported on, by the same
/// rules as for a running turn. A turn that the guest did not end counts as failed.
#[must_use]
pub fn endings(entries: &[RecordingEntry], replayed: &ReplayResult) -> BTreeMap<TurnKey, Ending> {
    let started = entries.iter().filter_map(|entry| Some(entry.turn_start()?.turn));
    let turns: BTreeSet<TurnKey> = started.chain(replayed.turns.keys().copied()).collect();
    turns.into_iter().map(|turn| (turn, ending(entries, replayed, turn))).collect()
}

fn ending(entries: &[RecordingEntry], replayed: &ReplayResult, turn: TurnKey) -> Ending {
    let ends = |action: &Action| matches!(action, Action::TurnDone(done) if done.turn == turn);
    let last = replayed.steps.iter().position(|step| step.actions.iter().any(ends));
    let steps = last.map_or(&replayed.steps[..], |last| &replayed.steps[..=last]);
    let upto = last.map_or(entries.len(), |last| replayed.steps[last].entry + 1);
    let entries = &entries[..upto.min(entries.len())];
    let start =
        entries.iter().position(|entry| entry.turn_start().is_some_and(|start| start.turn == turn));
    let mut observed = TurnObservations {
        asked: steps
            .iter()
            .flat_map(|step| &step.actions)
            .any(|action| matches!(action, Action::Ask(ask) if ask.turn == turn)),
        ..TurnObservations::default()
    };
    let mut trouble = None;
    for entry in &entries[start.unwrap_or(0)..] {
        match entry.input() {
            Some(Input::Line(_) | Input::HttpResponse(_) | Input::StreamEvent(_)) => {
                observed.output = true;
            }
            Some(Input::Exited(exited)) => {
                observed.exited_well |= exited.how == Exit::Code(0);
                trouble = Some(AgentFailure {
                    kind: FailureKind::Crashed,
                    message: exited.stderr_tail.clone(),
                    retry_after_ms: None,
                });
            }
            _ => {}
        }
    }
    let (nothing, replayed_turn) = (Transcript::default(), replayed.turns.get(&turn));
    let transcript = replayed_turn.map_or(&nothing, |replayed| &replayed.transcript);
    let done = replayed_turn.and_then(|replayed| replayed.done.as_ref());
    let text = replayed_turn.map(super::ReplayedTurn::text).unwrap_or_default();
    let usage = done.and_then(|done| done.usage.clone()).or_else(|| transcript.usage());
    let lost = lost_text(entries, steps, turn, done);
    let failure = replayed.failure.as_ref().map(|(_, failure)| failure.clone());
    Ending::of(done.map(|done| done.outcome.clone()), failure, None, trouble).unless_unread(
        &TurnEvidence {
            observed,
            transcript,
            text: &text,
            usage: usage.as_ref(),
            lost: lost.as_deref(),
        },
    )
}
