//! Finds answers that a replayed turn lost.

use std::collections::BTreeSet;

use super::ReplayStep;
use crate::RecordingEntry;
use crate::conservation::{Examination, OutputLedger};
use aetheel_model::agent::{Action, TurnDone, TurnKey};
use aetheel_model::baseline::Baseline;

/// Returns the path of the text that a replayed turn had lost when it ended, as a link finds it; see
/// [`OutputLedger::examine`].
#[must_use]
pub fn lost_text(
    entries: &[RecordingEntry],
    steps: &[ReplayStep],
    turn: TurnKey,
    done: Option<&TurnDone>,
) -> Option<String> {
    examine(entries, steps, turn, done, None).lost
}

/// Compares the raw output of a replayed turn with the text that people saw, as a link does with
/// the usual output of the agent; see [`OutputLedger::examine`].
#[must_use]
pub fn examine(
    entries: &[RecordingEntry],
    steps: &[ReplayStep],
    turn: TurnKey,
    done: Option<&TurnDone>,
    baseline: Option<&Baseline>,
) -> Examination {
    let mut ledger = OutputLedger::default();
    let mut open = BTreeSet::new();
    let mut read = 0;
    for step in steps {
        let upto = (step.entry + 1).clamp(read, entries.len());
        for start in entries[read..upto].iter().filter_map(RecordingEntry::turn_start) {
            // A link forgets the output of earlier turns when no turn is open.
            if open.is_empty() {
                ledger.clear();
            }
            open.insert(start.turn);
        }
        ledger.inputs(entries[read..upto].iter().filter_map(RecordingEntry::input));
        read = upto;
        ledger.actions(&step.actions);
        for action in &step.actions {
            let Action::TurnDone(done) = action else { continue };
            open.remove(&done.turn);
            if done.turn == turn {
                return ledger.examine(turn, Some(done), baseline);
            }
        }
    }
    ledger.inputs(entries[read..].iter().filter_map(RecordingEntry::input));
    ledger.examine(turn, done, baseline)
}
