//! Turns that continue after a restart of the gateway, until their events are recovered.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::TurnSlot;
use aetheel_model::agent::{AskKey, StartTurn};
use aetheel_model::event::Lane;
use aetheel_recording::Backend;

/// A turn that began before a restart of the gateway, with its slot on a link. Dropping it ends the
/// turn.
pub struct ContinuedTurn {
    /// The correlation id.
    pub id: String,
    /// The generation that the turn runs on.
    pub backend: Arc<dyn Backend>,
    /// The command that began the turn.
    pub start: StartTurn,
    /// The open questions, and how often each key was used.
    pub asks: Vec<(AskKey, u32)>,
    pub(crate) slot: TurnSlot,
}

/// The turns that continue after a restart, by the sequence number and the lane of their event.
#[derive(Default)]
pub struct ContinuedTurns(Mutex<HashMap<(u64, Lane), ContinuedTurn>>);

impl ContinuedTurns {
    pub(super) fn insert(&self, event: u64, lane: Lane, turn: ContinuedTurn) {
        self.0.lock().insert((event, lane), turn);
    }

    /// Returns the open questions of all turns: the turn's correlation id, the guest's key, and how
    /// often that key was used.
    #[must_use]
    pub fn asks(&self) -> Vec<(String, AskKey, u32)> {
        let asks = |turn: &ContinuedTurn| {
            turn.asks.iter().map(|(ask, time)| (turn.id.clone(), *ask, *time)).collect::<Vec<_>>()
        };
        self.0.lock().values().flat_map(asks).collect()
    }

    /// Returns the lanes of all turns.
    #[must_use]
    pub fn lanes(&self) -> Vec<Lane> {
        self.0.lock().keys().map(|(_, lane)| lane.clone()).collect()
    }

    /// Returns whether the turn of an event continues in its lane.
    #[must_use]
    pub fn contains(&self, event: u64, lane: &Lane) -> bool {
        self.0.lock().contains_key(&(event, lane.clone()))
    }

    /// Returns the correlation id of an event's turn, if the turn continues.
    #[must_use]
    pub fn id(&self, event: u64, lane: &Lane) -> Option<String> {
        self.0.lock().get(&(event, lane.clone())).map(|turn| turn.id.clone())
    }

    /// Removes and returns the turn of an event.
    #[must_use]
    pub fn take(&self, event: u64, lane: &Lane) -> Option<ContinuedTurn> {
        self.0.lock().remove(&(event, lane.clone()))
    }

    /// Ends the turns for which `wanted` returns false.
    pub fn retain(&self, wanted: impl Fn(u64, &Lane) -> bool) {
        let mut turns = self.0.lock();
        let unwanted: Vec<_> = turns.extract_if(|(event, lane), _| !wanted(*event, lane)).collect();
        // Dropping a turn sends a request to its link.
        drop(turns);
        drop(unwanted);
    }
}
