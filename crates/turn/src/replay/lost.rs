//! Finds answers that a replayed turn lost.

use super::ReplayStep;
use crate::conservation::OutputLedger;
use crate::recording::{EntryKind, RecordingEntry};
use aetheel_model::agent::{Input, TurnDone, TurnKey};

/// Returns the path of the text that a replayed turn lost; see [`OutputLedger::examine`].
#[must_use]
pub fn lost_text(
    entries: &[RecordingEntry],
    steps: &[ReplayStep],
    turn: TurnKey,
    done: Option<&TurnDone>,
) -> Option<String> {
    let mut ledger = OutputLedger::default();
    let mut read = 0;
    for step in steps {
        let upto = (step.entry + 1).clamp(read, entries.len());
        ledger.inputs(inputs(&entries[read..upto]));
        read = upto;
        ledger.actions(&step.actions);
    }
    ledger.inputs(inputs(&entries[read..]));
    ledger.examine(turn, done, None).lost
}

fn inputs(entries: &[RecordingEntry]) -> impl Iterator<Item = &Input> {
    entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::In(input) => Some(input),
        _ => None,
    })
}
