//! The queue: decides which event runs next, and which is refused.
//!
//! Owns order, lanes, slots and depth. It has no clock, no I/O and no locks. The owner passes the
//! time, calls [`Queue::next`] after every [`Queue::accept`] and [`Queue::finish`] until it returns
//! `None`, and runs the returned events. With one slot it is the sequential queue of the
//! requirements.
//!
//! An event that can start at once has its slot already and does not count as waiting. So the
//! decision about other events does not depend on how soon `next` is called.
//! `tests::every_answer_is_that_of_the_naive_model` tests all of this with random histories.

mod lane;
mod queries;

use std::collections::{BTreeMap, BTreeSet, HashMap};

pub use self::lane::LaneHold;
use self::lane::LaneState;
use crate::choice::BusyPolicy;
use crate::event::{Event, EventKind, Lane, NewEvent, Sequence, UNSAVED_START, is_in_block};
use crate::id::UserId;
use crate::plain::counted;

/// The limits of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Number of slots, that is, events that run at the same time. Zero counts as one.
    pub max_concurrent: usize,
    /// Maximum number of events that may wait for a lane or a slot.
    pub max_depth: usize,
    /// The policy for a message to an idle lane while all slots are taken.
    pub busy_policy: BusyPolicy,
}

/// The reason why an event was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// A message for an idle lane while all slots are taken, with [`BusyPolicy::Reject`].
    #[error("no slot is free: {} in use", counted(*slots, "slot"))]
    Busy {
        /// The number of slots.
        slots: usize,
    },
    /// The maximum number of events already wait.
    #[error("the queue is full: {} waiting", counted(*depth, "event"))]
    Full {
        /// The number of events that wait for a lane or a slot.
        depth: usize,
    },
    /// The queue is closed, because the program is about to end.
    #[error("the gateway is shutting down")]
    ShuttingDown,
}

/// The state of the queue. Unless documented otherwise, an operation costs at most logarithmic time
/// in the number of waiting events, and linear time in the number of held events of its lane.
#[derive(Debug)]
pub struct Queue {
    limits: QueueLimits,
    /// The start of the block from which numbers are assigned, or zero if there are no blocks.
    first: Sequence,
    last: Sequence,
    unsaved: Sequence,
    closed: bool,
    waiting: BTreeMap<Sequence, Event>,
    running: BTreeMap<Sequence, Lane>,
    lanes: HashMap<Lane, LaneState>,
    /// The first waiting event of each lane in which nothing runs and that is not paused.
    ready: BTreeSet<Sequence>,
    /// Accepted events that need some preparation before they wait in a lane.
    held: BTreeMap<Sequence, Event>,
}

impl Queue {
    /// Creates an empty, open queue.
    #[must_use]
    pub fn new(limits: QueueLimits) -> Self {
        Self {
            limits: QueueLimits { max_concurrent: limits.max_concurrent.max(1), ..limits },
            first: 0,
            last: 0,
            unsaved: 0,
            closed: false,
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            lanes: HashMap::new(),
            ready: BTreeSet::new(),
            held: BTreeMap::new(),
        }
    }

    /// Accepts an event and returns it with its sequence number (from 1 up) and with `now_ms`, in
    /// milliseconds since 1970.
    ///
    /// An event that can start at once is never refused while the queue is open.
    ///
    /// # Errors
    /// [`Rejection`]. The queue is unchanged and no sequence number is used. `Busy` takes
    /// precedence over `Full`.
    pub fn accept(&mut self, event: NewEvent, now_ms: i64) -> Result<Event, Rejection> {
        self.examine(&event)?;
        let event = self.number(event, now_ms);
        self.insert(event.clone());
        Ok(event)
    }

    /// Accepts an event as [`Queue::accept`] does, if it needs some preparation before it waits in
    /// a lane. It counts as waiting, but does not start before [`Queue::release`].
    ///
    /// # Errors
    /// [`Rejection`], as for an event that waits.
    pub fn hold(&mut self, event: NewEvent, now_ms: i64) -> Result<Event, Rejection> {
        self.examine(&event)?;
        let event = self.number(event, now_ms);
        self.held.insert(event.sequence, event.clone());
        Ok(event)
    }

    /// Adds an event that was accepted before to the held events, with its own number and
    /// regardless of the limits.
    pub fn hold_again(&mut self, event: Event) {
        self.note_number(event.sequence);
        self.held.insert(event.sequence, event);
    }

    /// Lets a held event, in its present form, wait in its lane with its number. Returns false if
    /// it is not held any more.
    pub fn release(&mut self, event: Event) -> bool {
        let held = self.held.remove(&event.sequence).is_some();
        if held {
            self.restore(event);
        }
        held
    }

    /// Assigns a number to an event without accepting it.
    pub fn number(&mut self, event: NewEvent, now_ms: i64) -> Event {
        self.last += 1;
        event.accepted(self.last, now_ms)
    }

    /// Checks whether a new event is accepted.
    fn examine(&self, event: &NewEvent) -> Result<(), Rejection> {
        if self.closed {
            return Err(Rejection::ShuttingDown);
        }
        let idle_lane =
            self.lanes.get(&event.lane).is_none_or(|state| state.would_start(event.asker));
        let slots = self.limits.max_concurrent;
        let taken = self.running.len() + self.ready.len() >= slots;
        if taken || !idle_lane {
            if idle_lane
                && event.kind == EventKind::Message
                && self.limits.busy_policy == BusyPolicy::Reject
            {
                return Err(Rejection::Busy { slots });
            }
            let depth = self.depth();
            if depth >= self.limits.max_depth {
                return Err(Rejection::Full { depth });
            }
        }
        Ok(())
    }

    /// Adds a waiting event in its place.
    fn insert(&mut self, event: Event) {
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

    /// Returns whether an event for an idle lane could start at once.
    #[must_use]
    pub fn has_free_slot(&self) -> bool {
        self.running.len() + self.ready.len() < self.limits.max_concurrent
    }

    /// Assigns numbers above `last` from now on, in the block that begins with `first`; zero means
    /// that there are no blocks. Numbers of other blocks do not affect this.
    pub fn count_from(&mut self, first: Sequence, last: Sequence) {
        self.first = self.first.max(first);
        self.last = self.last.max(last).max(first);
    }

    /// Notes that a number is in use.
    fn note_number(&mut self, number: Sequence) {
        if is_in_block(number, self.first) {
            self.last = self.last.max(number);
        }
    }

    /// Accepts an event again that was accepted before, with its own number, before younger ones of
    /// its lane. It is never refused, even beyond the limits or while the queue is closed.
    pub fn restore(&mut self, event: Event) {
        self.note_number(event.sequence);
        self.insert(event);
    }

    /// Lets a started event wait again in its place, and holds events of its lane until
    /// [`Queue::resume`]. Call it before [`Queue::finish`].
    pub fn pause(&mut self, event: Event, hold: LaneHold) {
        let state = self.lanes.entry(event.lane.clone()).or_default();
        match hold {
            LaneHold::Everybody => state.paused = true,
            LaneHold::Person(person) => {
                state.held_back.insert(person);
            }
        }
        self.restore(event);
    }

    /// Ends a hold of a lane.
    pub fn resume(&mut self, lane: &Lane, hold: LaneHold) {
        let Some(state) = self.lanes.get_mut(lane) else { return };
        match hold {
            LaneHold::Everybody => state.paused = false,
            LaneHold::Person(person) => {
                state.held_back.remove(&person);
            }
        }
        self.settle(lane);
    }

    /// Accepts a new event regardless of the limits, even while the queue is closed. This is for
    /// events that wait in order but need no agent.
    pub fn accept_beyond_limits(&mut self, event: NewEvent, now_ms: i64) -> Event {
        let event = event.accepted(self.last + 1, now_ms);
        self.restore(event.clone());
        event
    }

    /// Accepts a new event that is not saved, with a number above all saved ones, so that it does
    /// not use one of their numbers.
    pub fn accept_unsaved(&mut self, event: NewEvent, now_ms: i64) -> Event {
        self.unsaved += 1;
        let (last, event) = (self.last, event.accepted(UNSAVED_START + self.unsaved, now_ms));
        self.restore(event.clone());
        self.last = last;
        event
    }

    /// Starts the oldest event whose lane is free, if a slot is free. The event occupies both until
    /// [`Queue::finish`].
    ///
    /// This is not an iterator, because the result depends on what was finished in between.
    #[allow(clippy::should_implement_trait, reason = "an iterator would borrow the queue")]
    pub fn next(&mut self) -> Option<Event> {
        if self.running.len() >= self.limits.max_concurrent {
            return None;
        }
        let sequence = self.ready.pop_first()?;
        let event = self.waiting.remove(&sequence).expect("a ready event waits");
        let lane =
            self.lanes.get_mut(&event.lane).expect("a lane is kept while an event waits in it");
        lane.waiting.remove(&event.place());
        (lane.ready, lane.running) = (None, Some(sequence));
        self.running.insert(sequence, event.lane.clone());
        Some(event)
    }

    /// Frees the lane and the slot of a running event. Returns whether it was running.
    pub fn finish(&mut self, sequence: Sequence) -> bool {
        let Some(lane) = self.running.remove(&sequence) else { return false };
        if let Some(state) = self.lanes.get_mut(&lane) {
            state.running = None;
        }
        self.settle(&lane);
        true
    }

    /// Removes a waiting event. Returns `None` if it does not wait any more.
    pub fn cancel(&mut self, sequence: Sequence) -> Option<Event> {
        if let Some(event) = self.held.remove(&sequence) {
            return Some(event);
        }
        let event = self.waiting.remove(&sequence)?;
        let state =
            self.lanes.get_mut(&event.lane).expect("a lane is kept while an event waits in it");
        state.waiting.remove(&event.place());
        self.settle(&event.lane);
        Some(event)
    }

    /// Returns the waiting event with this key. Takes linear time.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<Sequence> {
        self.waiting
            .values()
            .find(|event| event.key.as_deref() == Some(key))
            .map(|event| event.sequence)
    }

    /// Changes the prompt of a waiting event, which keeps its place. Returns the changed event, or
    /// `None` if it does not wait any more.
    pub fn amend(&mut self, sequence: Sequence, prompt: &str) -> Option<&Event> {
        let event = self.waiting.get_mut(&sequence)?;
        prompt.clone_into(&mut event.prompt);
        Some(event)
    }

    /// Removes all events that wait in a lane, oldest first, and held ones that would wait there,
    /// except those that open a thread. Running events continue.
    pub fn cancel_waiting(&mut self, lane: &Lane) -> Vec<Event> {
        let mut waiting: Vec<Sequence> = self
            .lanes
            .get(lane)
            .into_iter()
            .flat_map(|state| state.waiting.keys().map(|place| place.sequence))
            .collect();
        waiting.extend(
            self.held
                .values()
                .filter(|event| event.lane == *lane && !event.opens_thread)
                .map(|event| event.sequence),
        );
        waiting.sort_unstable();
        waiting.into_iter().filter_map(|sequence| self.cancel(sequence)).collect()
    }

    /// Closes the queue for good. Waiting events still start, or are returned by
    /// [`Queue::drain_waiting`].
    ///
    /// Events that belong to the shutdown must be accepted before.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Returns whether the queue was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Removes all waiting events, oldest first. Running events continue.
    pub fn drain_waiting(&mut self) -> Vec<Event> {
        self.ready.clear();
        self.lanes.retain(|_, state| {
            *state = LaneState { running: state.running, ..LaneState::default() };
            state.running.is_some()
        });
        let held = std::mem::take(&mut self.held);
        std::mem::take(&mut self.waiting).into_values().chain(held.into_values()).collect()
    }

    /// Ends all holds of lanes and removes the events that they hold, oldest first.
    pub fn drain_paused(&mut self) -> Vec<Event> {
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

    /// Adds slots until one is free, regardless of how many events run.
    pub fn free_slot(&mut self) {
        self.limits.max_concurrent = self.limits.max_concurrent.max(self.running.len() + 1);
    }
}

#[cfg(test)]
mod hold_tests;
#[cfg(test)]
mod tests;
