//! Keeps the slot of a finished turn on its link until the answer of the turn is saved.

use super::TurnSlot;

/// The slot of a finished turn. Dropping it ends the turn for its link.
#[derive(Default)]
pub struct FinishedTurnSlot(Option<TurnSlot>);

impl From<TurnSlot> for FinishedTurnSlot {
    fn from(lease: TurnSlot) -> Self {
        Self(Some(lease))
    }
}

impl std::fmt::Debug for FinishedTurnSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TurnPlace").field(&self.0.as_ref().map(|lease| lease.turn)).finish()
    }
}
