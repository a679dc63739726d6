//! The events of a lane, and the holds that keep them from starting.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{QueuePlace, Sequence};
use crate::id::UserId;

/// The events of a lane that do not start for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneHold {
    /// All events of the lane.
    Everybody,
    /// The events that one person asked for. Events of other people pass them.
    Person(UserId),
}

/// The state of a lane in which an event waits or runs. Other lanes have no state.
#[derive(Debug, Default)]
pub(super) struct LaneState {
    pub(super) running: Option<Sequence>,
    /// The waiting events, each with the person who asked.
    pub(super) waiting: BTreeMap<QueuePlace, Option<UserId>>,
    /// Whether no event starts.
    pub(super) paused: bool,
    /// The people whose events do not start.
    pub(super) held_back: BTreeSet<UserId>,
    /// The event that is in the set of ready events.
    pub(super) ready: Option<Sequence>,
}

impl LaneState {
    pub(super) fn is_held_back(&self, asker: Option<UserId>) -> bool {
        asker.is_some_and(|asker| self.held_back.contains(&asker))
    }

    /// Returns the event that starts next, unless the lane is paused or busy.
    pub(super) fn first(&self) -> Option<Sequence> {
        let mut waiting = self.waiting.iter();
        let (place, _) = waiting.find(|(_, asker)| !self.is_held_back(**asker))?;
        Some(place.sequence)
    }

    /// Returns whether an event could start at once if a slot is free.
    pub(super) fn would_start(&self, asker: Option<UserId>) -> bool {
        let is_idle = self.running.is_none() && self.ready.is_none() && !self.paused;
        is_idle && !self.is_held_back(asker)
    }
}
