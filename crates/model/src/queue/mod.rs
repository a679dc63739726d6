//! The queue: decides which event runs next, and which is refused.
//!
//! Owns slots, depth and held events; [`LaneOrder`] has the order of the others. It has no clock, no I/O and no locks. The owner passes the
//! time, calls [`Queue::next`] after every [`Queue::accept`] and [`Queue::finish`] until it returns
//! `None`, and runs the returned events. With one slot it is the sequential queue of the
//! requirements.
//!
//! An event that can start at once has its slot already and does not count as waiting. So the
//! decision about other events does not depend on how soon `next` is called.
//! `tests::every_answer_is_that_of_the_naive_model` tests all of this with random histories.

mod lane;
mod lane_order;
mod numbers;

use std::collections::BTreeMap;

pub use self::lane::LaneHold;
pub use self::lane_order::LaneOrder;
pub use self::numbers::EventNumbers;
use crate::choice::BusyPolicy;
use crate::event::{Event, EventKind, Lane, NewEvent, Sequence};
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
    /// The numbers of accepted events.
    pub numbers: EventNumbers,
    closed: bool,
    lanes: LaneOrder,
    /// Accepted events that need some preparation before they wait in a lane.
    held: BTreeMap<Sequence, Event>,
}

impl Queue {
    /// Creates an empty, open queue.
    #[must_use]
    pub fn new(limits: QueueLimits) -> Self {
        Self {
            limits: QueueLimits { max_concurrent: limits.max_concurrent.max(1), ..limits },
            numbers: EventNumbers::default(),
            closed: false,
            lanes: LaneOrder::default(),
            held: BTreeMap::new(),
        }
    }

    /// Returns the events that wait and run.
    #[must_use]
    pub fn lanes(&self) -> &LaneOrder {
        &self.lanes
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
        let event = self.numbers.assign(event, now_ms);
        self.lanes.insert(event.clone());
        Ok(event)
    }

    /// Accepts an event as [`Queue::accept`] does, if it needs some preparation before it waits in
    /// a lane. It counts as waiting, but does not start before [`Queue::release`].
    ///
    /// # Errors
    /// [`Rejection`], as for an event that waits.
    pub fn hold(&mut self, event: NewEvent, now_ms: i64) -> Result<Event, Rejection> {
        self.examine(&event)?;
        let event = self.numbers.assign(event, now_ms);
        self.held.insert(event.sequence, event.clone());
        Ok(event)
    }

    /// Adds an event that was accepted before to the held events, with its own number and
    /// regardless of the limits.
    pub fn hold_again(&mut self, event: Event) {
        self.numbers.note(event.sequence);
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

    fn examine(&self, event: &NewEvent) -> Result<(), Rejection> {
        if self.closed {
            return Err(Rejection::ShuttingDown);
        }
        let idle_lane = self.lanes.would_start(&event.lane, event.asker);
        let slots = self.limits.max_concurrent;
        if !self.has_free_slot() || !idle_lane {
            if idle_lane
                && event.kind == EventKind::Message
                && self.limits.busy_policy == BusyPolicy::Reject
            {
                return Err(Rejection::Busy { slots });
            }
            // Events for which there is a free slot do not wait.
            let starting = self.lanes.ready().min(slots - self.lanes.running());
            let depth = self.lanes.waiting().len() + self.held.len() - starting;
            if depth >= self.limits.max_depth {
                return Err(Rejection::Full { depth });
            }
        }
        Ok(())
    }

    /// Returns whether an event for an idle lane could start at once.
    #[must_use]
    pub fn has_free_slot(&self) -> bool {
        self.lanes.running() + self.lanes.ready() < self.limits.max_concurrent
    }

    /// Accepts an event again that was accepted before, with its own number, before younger ones of
    /// its lane. It is never refused, even beyond the limits or while the queue is closed.
    pub fn restore(&mut self, event: Event) {
        self.numbers.note(event.sequence);
        self.lanes.insert(event);
    }

    /// Lets a started event wait again in its place, and holds events of its lane until
    /// [`Queue::resume`]. Call it before [`Queue::finish`].
    pub fn pause(&mut self, event: Event, hold: LaneHold) {
        self.lanes.pause(&event.lane, hold);
        self.restore(event);
    }

    /// Ends a hold of a lane.
    pub fn resume(&mut self, lane: &Lane, hold: LaneHold) {
        self.lanes.resume(lane, hold);
    }

    /// Accepts a new event regardless of the limits, even while the queue is closed. This is for
    /// events that wait in order but need no agent.
    pub fn accept_beyond_limits(&mut self, event: NewEvent, now_ms: i64) -> Event {
        let event = self.numbers.assign(event, now_ms);
        self.lanes.insert(event.clone());
        event
    }

    /// Accepts a new event that is not saved, with a number above all saved ones, so that it does
    /// not use one of their numbers.
    pub fn accept_unsaved(&mut self, event: NewEvent, now_ms: i64) -> Event {
        let event = self.numbers.assign_unsaved(event, now_ms);
        self.lanes.insert(event.clone());
        event
    }

    /// Starts the oldest event whose lane is free, if a slot is free. The event occupies both until
    /// [`Queue::finish`].
    ///
    /// This is not an iterator, because the result depends on what was finished in between.
    #[allow(clippy::should_implement_trait, reason = "an iterator would borrow the queue")]
    pub fn next(&mut self) -> Option<Event> {
        match self.lanes.running() < self.limits.max_concurrent {
            true => self.lanes.start(),
            false => None,
        }
    }

    /// Frees the lane and the slot of a running event. Returns whether it was running.
    pub fn finish(&mut self, sequence: Sequence) -> bool {
        self.lanes.finish(sequence)
    }

    /// Removes a waiting event. Returns `None` if it does not wait any more.
    pub fn cancel(&mut self, sequence: Sequence) -> Option<Event> {
        self.held.remove(&sequence).or_else(|| self.lanes.remove(sequence))
    }

    /// Changes the prompt of a waiting event, which keeps its place. Returns the changed event, or
    /// `None` if it does not wait any more.
    pub fn amend(&mut self, sequence: Sequence, prompt: &str) -> Option<&Event> {
        self.lanes.amend(sequence, prompt)
    }

    /// Removes all events that wait in a lane, oldest first, and held ones that would wait there,
    /// except those that open a thread. Running events continue.
    pub fn cancel_waiting(&mut self, lane: &Lane) -> Vec<Event> {
        let held = self.held.values().filter(|event| event.lane == *lane && !event.opens_thread);
        let waiting = self.lanes.waiting_in(lane).chain(held).map(|event| event.sequence);
        let mut waiting: Vec<Sequence> = waiting.collect();
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
        let held = std::mem::take(&mut self.held);
        self.lanes.clear().into_values().chain(held.into_values()).collect()
    }

    /// Ends all holds of lanes and removes the events that they hold, oldest first.
    pub fn drain_paused(&mut self) -> Vec<Event> {
        self.lanes.drain_paused()
    }

    /// Adds slots until one is free, regardless of how many events run.
    pub fn free_slot(&mut self) {
        self.limits.max_concurrent = self.limits.max_concurrent.max(self.lanes.running() + 1);
    }

    /// Returns whether an event waits, is held for, or runs in one of these lanes.
    #[must_use]
    pub fn any_in(&self, lanes: impl Fn(&Lane) -> bool) -> bool {
        self.lanes.lanes().any(&lanes) || self.held.values().any(|event| lanes(&event.lane))
    }

    /// Returns whether no event waits or runs.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.lanes.waiting().len() + self.lanes.running() + self.held.len() == 0
    }
}

#[cfg(test)]
mod tests;
