//! Questions about the state of the queue.

use super::{LaneHold, Queue};
use crate::event::{Event, Lane, Sequence};
use crate::id::UserId;

impl Queue {
    /// Returns how many events of its lane come before a waiting one, including the running one and
    /// without those of people that it passes. Returns `None` if it does not wait.
    ///
    /// Takes time in proportion to the result.
    #[must_use]
    pub fn position(&self, sequence: Sequence) -> Option<usize> {
        let event = self.waiting.get(&sequence)?;
        let state = self.lanes.get(&event.lane)?;
        let counts = |asker: Option<UserId>| asker == event.asker || !state.is_held_back(asker);
        let before = state.waiting.range(..event.place()).filter(|(_, asker)| counts(**asker));
        Some(before.count() + usize::from(state.running.is_some()))
    }

    /// Returns the events that wait in a lane, in the order of their places.
    pub fn waiting_in(&self, lane: &Lane) -> impl Iterator<Item = &Event> {
        let waiting = self.lanes.get(lane).into_iter().flat_map(|state| state.waiting.keys());
        waiting.filter_map(|place| self.waiting.get(&place.sequence))
    }

    /// Returns the hold that keeps a waiting event from starting.
    #[must_use]
    pub fn hold_of(&self, event: &Event) -> Option<LaneHold> {
        let state = self.lanes.get(&event.lane)?;
        let person = event.asker.filter(|person| state.held_back.contains(person));
        match state.paused {
            true => Some(LaneHold::Everybody),
            false => person.map(LaneHold::Person),
        }
    }

    /// Returns the first event that a hold of a lane keeps from starting. Takes time in proportion
    /// to the number of events that wait there.
    #[must_use]
    pub fn first_held(&self, lane: &Lane, hold: LaneHold) -> Option<&Event> {
        self.waiting_in(lane).find(|event| self.hold_of(event) == Some(hold))
    }

    /// Returns the first event of each hold, except those of paused lanes in which a turn runs.
    pub fn paused(&self) -> impl Iterator<Item = &Event> {
        self.lanes.iter().flat_map(|(lane, state)| {
            let everybody =
                (state.paused && state.running.is_none()).then_some(LaneHold::Everybody);
            let people = state.held_back.iter().copied().map(LaneHold::Person);
            let holds = everybody.into_iter().chain(people);
            holds.filter_map(|hold| self.first_held(lane, hold))
        })
    }

    /// Returns all events that wait, oldest first.
    pub fn all_waiting(&self) -> impl Iterator<Item = &Event> {
        self.waiting.values()
    }

    /// Returns the number of accepted events that have not started.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns when the event was accepted that has waited longest, in milliseconds since 1970.
    #[must_use]
    pub fn oldest_ms(&self) -> Option<i64> {
        self.waiting.values().next().map(|event| event.accepted_ms)
    }

    /// Returns the number of started events that have not finished.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns whether an event waits or runs in a lane.
    #[must_use]
    pub fn lane_busy(&self, lane: &Lane) -> bool {
        self.lanes.contains_key(lane)
    }

    /// Returns the running event of a lane.
    #[must_use]
    pub fn running_in(&self, lane: &Lane) -> Option<Sequence> {
        self.lanes.get(lane)?.running
    }

    /// Returns whether an event waits, is held for, or runs in one of these lanes.
    #[must_use]
    pub fn any_in(&self, lanes: impl Fn(&Lane) -> bool) -> bool {
        self.lanes.keys().any(&lanes) || self.held.values().any(|event| lanes(&event.lane))
    }

    /// Returns whether no event waits or runs.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.held.is_empty() && self.running.is_empty()
    }

    /// Returns the number of waiting events for which there is no free slot.
    pub(super) fn depth(&self) -> usize {
        let free = self.limits.max_concurrent - self.running.len();
        self.waiting.len() + self.held.len() - free.min(self.ready.len())
    }
}
