//! The order in which events start: those of one lane one after the other, and ready events by their
//! numbers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::lane::{LaneHold, LaneState};
use crate::event::{Event, Lane, Sequence};
use crate::id::UserId;

/// The waiting and running events of all lanes. It knows no limits.
#[derive(Debug, Default)]
pub struct LaneOrder {
    waiting: BTreeMap<Sequence, Event>,
    running: BTreeMap<Sequence, Lane>,
    lanes: HashMap<Lane, LaneState>,
    /// The first waiting event of each lane in which nothing runs and that is not paused.
    ready: BTreeSet<Sequence>,
}

impl LaneOrder {
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
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = &Event> {
        self.waiting.values()
    }

    /// Returns the waiting event with this key. Takes linear time.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<Sequence> {
        let found = self.waiting().find(|event| event.key.as_deref() == Some(key));
        found.map(|event| event.sequence)
    }

    /// Returns the number of started events that have not finished.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns whether an event waits or runs in a lane.
    #[must_use]
    pub fn is_busy(&self, lane: &Lane) -> bool {
        self.lanes.contains_key(lane)
    }

    /// Returns the running event of a lane.
    #[must_use]
    pub fn running_in(&self, lane: &Lane) -> Option<Sequence> {
        self.lanes.get(lane)?.running
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.keys()
    }

    /// Returns whether nothing of its lane keeps a new event from starting.
    pub(super) fn would_start(&self, lane: &Lane, asker: Option<UserId>) -> bool {
        self.lanes.get(lane).is_none_or(|state| state.would_start(asker))
    }

    /// Returns the number of events that could start if there were enough slots.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn insert(&mut self, event: Event) {
        let lane = event.lane.clone();
        self.lanes.entry(lane.clone()).or_default().waiting.insert(event.place(), event.asker);
        self.waiting.insert(event.sequence, event);
        self.settle(&lane);
    }

    /// Updates which event of a lane is ready, and removes the state of an empty lane.
    fn settle(&mut self, lane: &Lane) {
        let Some(state) = self.lanes.get_mut(lane) else { return };
        let may_start = state.running.is_none() && !state.paused;
        let ready = if may_start { state.first() } else { None };
        if state.ready != ready {
            if let Some(before) = &state.ready {
                self.ready.remove(before);
            }
            self.ready.extend(ready);
            state.ready = ready;
        }
        if state.running.is_none() && state.waiting.is_empty() {
            self.lanes.remove(lane);
        }
    }

    /// Holds events of a lane until [`LaneOrder::resume`].
    pub(super) fn pause(&mut self, lane: &Lane, hold: LaneHold) {
        let state = self.lanes.entry(lane.clone()).or_default();
        match hold {
            LaneHold::Everybody => state.paused = true,
            LaneHold::Person(person) => {
                state.held_back.insert(person);
            }
        }
    }

    pub(super) fn resume(&mut self, lane: &Lane, hold: LaneHold) {
        let Some(state) = self.lanes.get_mut(lane) else { return };
        match hold {
            LaneHold::Everybody => state.paused = false,
            LaneHold::Person(person) => {
                state.held_back.remove(&person);
            }
        }
        self.settle(lane);
    }

    /// Starts the oldest event whose lane is free.
    pub(super) fn start(&mut self) -> Option<Event> {
        let sequence = self.ready.pop_first()?;
        let event = self.waiting.remove(&sequence).expect("a ready event waits");
        let lane =
            self.lanes.get_mut(&event.lane).expect("a lane is kept while an event waits in it");
        lane.waiting.remove(&event.place());
        (lane.ready, lane.running) = (None, Some(sequence));
        self.running.insert(sequence, event.lane.clone());
        Some(event)
    }

    /// Frees the lane of a running event. Returns whether it was running.
    pub(super) fn finish(&mut self, sequence: Sequence) -> bool {
        let Some(lane) = self.running.remove(&sequence) else { return false };
        if let Some(state) = self.lanes.get_mut(&lane) {
            state.running = None;
        }
        self.settle(&lane);
        true
    }

    /// Removes a waiting event. Returns `None` if it does not wait any more.
    pub(super) fn remove(&mut self, sequence: Sequence) -> Option<Event> {
        let event = self.waiting.remove(&sequence)?;
        let state =
            self.lanes.get_mut(&event.lane).expect("a lane is kept while an event waits in it");
        state.waiting.remove(&event.place());
        self.settle(&event.lane);
        Some(event)
    }

    /// Changes the prompt of a waiting event, which keeps its place. Returns the changed event, or
    /// `None` if it does not wait any more.
    pub(super) fn amend(&mut self, sequence: Sequence, prompt: &str) -> Option<&Event> {
        let event = self.waiting.get_mut(&sequence)?;
        prompt.clone_into(&mut event.request.prompt);
        Some(event)
    }

    /// Removes all waiting events and returns them, oldest first.
    pub(super) fn clear(&mut self) -> BTreeMap<Sequence, Event> {
        self.ready.clear();
        self.lanes.retain(|_, state| {
            *state = LaneState { running: state.running, ..LaneState::default() };
            state.running.is_some()
        });
        std::mem::take(&mut self.waiting)
    }

    /// Ends all holds of lanes and removes the events that they hold, oldest first.
    pub(super) fn drain_paused(&mut self) -> Vec<Event> {
        let mut drained = BTreeSet::new();
        self.lanes.retain(|_, state| {
            let (is_paused, people) =
                (std::mem::take(&mut state.paused), std::mem::take(&mut state.held_back));
            let is_held =
                |asker: &Option<UserId>| asker.is_some_and(|asker| people.contains(&asker));
            state.waiting.retain(|place, asker| {
                let stays = !is_paused && !is_held(asker);
                stays || !drained.insert(place.sequence)
            });
            state.running.is_some() || !state.waiting.is_empty()
        });
        drained.iter().filter_map(|sequence| self.waiting.remove(sequence)).collect()
    }
}
