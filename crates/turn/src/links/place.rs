//! The place of a finished turn on its link, until its answer is saved.

use super::Lease;

/// The place of a finished turn. Dropping it ends the turn for its link.
#[derive(Default)]
pub struct TurnPlace(Option<Lease>);

impl From<Lease> for TurnPlace {
    fn from(lease: Lease) -> Self {
        Self(Some(lease))
    }
}

impl std::fmt::Debug for TurnPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TurnPlace").field(&self.0.as_ref().map(|lease| lease.turn)).finish()
    }
}
