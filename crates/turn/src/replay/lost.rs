//! Finds answers that a replayed turn lost.

use super::ReplayStep;
use crate::conservation::OutputLedger;
use crate::recording::RecordingEntry;
use aetheel_model::agent::{TurnDone, TurnKey};

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
        ledger.inputs(entries[read..upto].iter().filter_map(RecordingEntry::input));
        read = upto;
        ledger.actions(&step.actions);
    }
    ledger.inputs(entries[read..].iter().filter_map(RecordingEntry::input));
    ledger.examine(turn, done, None).lost
}
