//! The queue: which event runs next, and which is refused.
//!
//! Owns order, lanes, slots and depth. It has no clock, no I/O and no locks: whoever owns it passes
//! the time in, calls [`Queue::next`] after every [`Queue::accept`] and [`Queue::finish`] until it
//! returns nothing, and runs what comes out. With one slot it is the fully sequential queue of the
//! requirement texts.
//!
//! An event that could start at once holds its slot already and does not count as waiting, so that
//! what is accepted and refused does not depend on how soon `next` is called.
//! `tests::every_answer_is_that_of_the_naive_model` pins all of this over random histories.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::config::{BusyPolicy, Config};
use crate::event::{ASIDE, Event, EventKind, Lane, NewEvent, Sequence, is_of_block};

/// Bounds of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Slots: events that run at the same time. Zero counts as one.
    pub max_concurrent: usize,
    /// Events that may wait for a lane or a slot.
    pub max_depth: usize,
    /// The fate of a message for an idle lane while all slots are taken.
    pub busy_policy: BusyPolicy,
}

impl From<&Config> for Limits {
    fn from(config: &Config) -> Self {
        Self {
            max_concurrent: config.max_concurrent_queries,
            max_depth: config.max_queue_depth,
            busy_policy: config.busy_policy,
        }
    }
}

/// Why an event was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// A message for an idle lane while all slots are taken, with [`BusyPolicy::Reject`].
    #[error("all {slots} slots are taken")]
    Busy {
        /// How many there are.
        slots: usize,
    },
    /// As many events wait as may wait.
    #[error("{depth} events are waiting already")]
    Full {
        /// Events waiting for a lane or a slot.
        depth: usize,
    },
    /// Intake was closed: the program is about to end.
    #[error("the gateway is shutting down")]
    ShuttingDown,
}

/// A lane that has something waiting or running; others are not kept.
#[derive(Debug, Default)]
struct LaneState {
    running: Option<Sequence>,
    waiting: BTreeSet<Sequence>,
    /// Nothing of it is handed out.
    paused: bool,
}

/// The state of the queue. Every operation costs at most the logarithm of what waits, unless it
/// says otherwise.
#[derive(Debug)]
pub struct Queue {
    limits: Limits,
    /// The first number of the block that numbers are given of; zero: of all.
    first: Sequence,
    last: Sequence,
    aside: Sequence,
    closed: bool,
    waiting: BTreeMap<Sequence, Event>,
    running: BTreeMap<Sequence, Lane>,
    lanes: HashMap<Lane, LaneState>,
    /// The first waiting event of every lane in which nothing runs and that is not paused.
    ready: BTreeSet<Sequence>,
    /// Accepted events that something has to be done for before they wait in a lane.
    held: BTreeMap<Sequence, Event>,
}

impl Queue {
    /// Makes an empty, open queue.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits: Limits { max_concurrent: limits.max_concurrent.max(1), ..limits },
            first: 0,
            last: 0,
            aside: 0,
            closed: false,
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            lanes: HashMap::new(),
            ready: BTreeSet::new(),
            held: BTreeMap::new(),
        }
    }

    /// Takes an event in and returns it with its sequence number (from 1 up) and `now_ms`,
    /// milliseconds since 1970.
    ///
    /// An event that could start at once is never refused while the queue is open.
    ///
    /// # Errors
    /// [`Rejection`]; the queue is unchanged and no sequence number is used up. `Busy` comes before
    /// `Full`.
    pub fn accept(&mut self, event: NewEvent, now_ms: i64) -> Result<Event, Rejection> {
        let idle_lane = self.examine(&event)?;
        let event = self.number(event, now_ms);
        self.lanes.entry(event.lane.clone()).or_default().waiting.insert(event.sequence);
        if idle_lane {
            self.ready.insert(event.sequence);
        }
        self.waiting.insert(event.sequence, event.clone());
        Ok(event)
    }

    /// Takes an event in like [`Queue::accept`], for which something has to be done before it waits
    /// in a lane. It counts as waiting, and nothing hands it out before [`Queue::release`].
    ///
    /// # Errors
    /// [`Rejection`], as for an event that waits.
    pub fn hold(&mut self, event: NewEvent, now_ms: i64) -> Result<Event, Rejection> {
        self.examine(&event)?;
        let event = self.number(event, now_ms);
        self.held.insert(event.sequence, event.clone());
        Ok(event)
    }

    /// Holds an event that was accepted before, under its own number, whatever the limits.
    pub fn hold_again(&mut self, event: Event) {
        self.pass(event.sequence);
        self.held.insert(event.sequence, event);
    }

    /// Lets a held event, as it is now, wait in its lane under its number. False: it is held no
    /// longer.
    pub fn release(&mut self, event: Event) -> bool {
        let held = self.held.remove(&event.sequence).is_some();
        if held {
            self.restore(event);
        }
        held
    }

    /// Gives an event its number and does not take it in.
    pub fn number(&mut self, event: NewEvent, now_ms: i64) -> Event {
        self.last += 1;
        event.accepted(self.last, now_ms)
    }

    /// Whether the lane of a new event that may be taken is idle.
    fn examine(&self, event: &NewEvent) -> Result<bool, Rejection> {
        if self.closed {
            return Err(Rejection::ShuttingDown);
        }
        let idle_lane = !self.lanes.contains_key(&event.lane);
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
        Ok(idle_lane)
    }

    /// Whether an event for an idle lane could start at once.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.running.len() + self.ready.len() < self.limits.max_concurrent
    }

    /// Gives numbers above `last` from now on, of the block that begins with `first`; zero: numbers
    /// have no blocks. What has numbers of other blocks does not move the count.
    pub fn count_from(&mut self, first: Sequence, last: Sequence) {
        self.first = self.first.max(first);
        self.last = self.last.max(last).max(first);
    }

    /// A number is taken.
    fn pass(&mut self, number: Sequence) {
        if is_of_block(number, self.first) {
            self.last = self.last.max(number);
        }
    }

    /// Takes an event back in that was accepted before, under its own number: it comes before
    /// younger ones of its lane. It is never refused, whatever the limits and also while the queue
    /// is closed.
    pub fn restore(&mut self, event: Event) {
        self.pass(event.sequence);
        let (sequence, state) = (event.sequence, self.lanes.entry(event.lane.clone()).or_default());
        if state.running.is_none() && !state.paused {
            if let Some(first) = state.waiting.first() {
                self.ready.remove(first);
            }
            self.ready.insert(state.waiting.first().map_or(sequence, |first| sequence.min(*first)));
        }
        state.waiting.insert(sequence);
        self.waiting.insert(sequence, event);
    }

    /// Has an event that was handed out wait again, before younger ones of its lane, and hands out
    /// nothing of that lane until [`Queue::resume`]. Call it before [`Queue::finish`].
    pub fn pause(&mut self, event: Event) {
        let state = self.lanes.entry(event.lane.clone()).or_default();
        state.paused = true;
        if let Some(first) = state.waiting.first() {
            self.ready.remove(first);
        }
        self.restore(event);
    }

    /// Lets a paused lane go on.
    pub fn resume(&mut self, lane: &Lane) {
        let Some(state) = self.lanes.get_mut(lane) else { return };
        state.paused = false;
        if let (None, Some(first)) = (state.running, state.waiting.first()) {
            self.ready.insert(*first);
        }
    }

    /// Takes a new event in that is refused by no limit, also while the queue is closed: it waits
    /// its turn and costs no agent.
    pub fn admit(&mut self, event: NewEvent, now_ms: i64) -> Event {
        let event = event.accepted(self.last + 1, now_ms);
        self.restore(event.clone());
        event
    }

    /// Takes a new event in that nothing keeps, under a number beyond those of all others: it uses
    /// none of theirs up.
    pub fn admit_aside(&mut self, event: NewEvent, now_ms: i64) -> Event {
        self.aside += 1;
        let (last, event) = (self.last, event.accepted(ASIDE + self.aside, now_ms));
        self.restore(event.clone());
        self.last = last;
        event
    }

    /// Hands out the oldest event whose lane is free, while a slot is free. It holds both until
    /// [`Queue::finish`].
    ///
    /// Not an iterator: what it returns depends on what was finished in between.
    #[allow(clippy::should_implement_trait, reason = "an iterator would borrow the queue")]
    pub fn next(&mut self) -> Option<Event> {
        if self.running.len() >= self.limits.max_concurrent {
            return None;
        }
        let sequence = self.ready.pop_first()?;
        let event = self.waiting.remove(&sequence).expect("what is ready waits");
        let lane =
            self.lanes.get_mut(&event.lane).expect("a lane is kept while something waits in it");
        lane.waiting.remove(&sequence);
        lane.running = Some(sequence);
        self.running.insert(sequence, event.lane.clone());
        Some(event)
    }

    /// Frees the lane and the slot of a running event; returns whether there was one.
    pub fn finish(&mut self, sequence: Sequence) -> bool {
        let Some(lane) = self.running.remove(&sequence) else { return false };
        if let Some(state) = self.lanes.get_mut(&lane) {
            state.running = None;
            match state.waiting.first() {
                Some(_) if state.paused => false,
                Some(first) => self.ready.insert(*first),
                None => self.lanes.remove(&lane).is_some(),
            };
        }
        true
    }

    /// Takes a waiting event out. None when it is not waiting (any more).
    pub fn cancel(&mut self, sequence: Sequence) -> Option<Event> {
        if let Some(event) = self.held.remove(&sequence) {
            return Some(event);
        }
        let event = self.waiting.remove(&sequence)?;
        let state =
            self.lanes.get_mut(&event.lane).expect("a lane is kept while something waits in it");
        state.waiting.remove(&sequence);
        let was_ready = self.ready.remove(&sequence);
        match state.waiting.first() {
            Some(first) if was_ready => {
                self.ready.insert(*first);
            }
            None if state.running.is_none() => {
                self.lanes.remove(&event.lane);
            }
            _ => {}
        }
        Some(event)
    }

    /// Finds a waiting event by its key. Costs as much as there is waiting.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<Sequence> {
        self.waiting
            .values()
            .find(|event| event.key.as_deref() == Some(key))
            .map(|event| event.sequence)
    }

    /// Changes the prompt of a waiting event, which keeps its place. Returns the event as it is
    /// now; none when it is not waiting (any more).
    pub fn amend(&mut self, sequence: Sequence, prompt: &str) -> Option<&Event> {
        let event = self.waiting.get_mut(&sequence)?;
        prompt.clone_into(&mut event.prompt);
        Some(event)
    }

    /// Takes everything out that waits in a lane, oldest first, and what is held that would; not
    /// events that open a thread of their own. Running ones go on.
    pub fn cancel_waiting(&mut self, lane: &Lane) -> Vec<Event> {
        let mut waiting: Vec<Sequence> = self
            .lanes
            .get(lane)
            .into_iter()
            .flat_map(|state| state.waiting.iter().copied())
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

    /// Stops intake for good. Waiting events still come out of [`Queue::next`], or of
    /// [`Queue::drain_waiting`].
    ///
    /// Events that belong to the shutdown itself have to be accepted before.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Whether intake was stopped.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes out all events that wait, oldest first. Running ones go on.
    pub fn drain_waiting(&mut self) -> Vec<Event> {
        self.ready.clear();
        self.lanes.retain(|_, state| {
            state.waiting.clear();
            state.paused = false;
            state.running.is_some()
        });
        let held = std::mem::take(&mut self.held);
        std::mem::take(&mut self.waiting).into_values().chain(held.into_values()).collect()
    }

    /// Adds slots until one is free, however many events run.
    pub fn free_slot(&mut self) {
        self.limits.max_concurrent = self.limits.max_concurrent.max(self.running.len() + 1);
    }

    /// How many events of its lane come before a waiting one, the running one included. None when
    /// it is not waiting.
    ///
    /// Costs as much as the answer is large.
    #[must_use]
    pub fn position(&self, sequence: Sequence) -> Option<usize> {
        let state = self.lanes.get(&self.waiting.get(&sequence)?.lane)?;
        Some(state.waiting.range(..sequence).count() + usize::from(state.running.is_some()))
    }

    /// Returns the events that wait in a lane, oldest first.
    pub fn waiting_in(&self, lane: &Lane) -> impl Iterator<Item = &Event> {
        let waiting = self.lanes.get(lane).into_iter().flat_map(|state| &state.waiting);
        waiting.filter_map(|sequence| self.waiting.get(sequence))
    }

    /// Returns all events that wait, oldest first.
    pub fn all_waiting(&self) -> impl Iterator<Item = &Event> {
        self.waiting.values()
    }

    /// Events accepted and not yet handed out.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// When the event was accepted that waits longest, milliseconds since 1970.
    #[must_use]
    pub fn oldest_ms(&self) -> Option<i64> {
        self.waiting.values().next().map(|event| event.accepted_ms)
    }

    /// Events handed out and not yet finished.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Whether something waits or runs in a lane.
    #[must_use]
    pub fn lane_busy(&self, lane: &Lane) -> bool {
        self.lanes.contains_key(lane)
    }

    /// The running event of a lane.
    #[must_use]
    pub fn running_in(&self, lane: &Lane) -> Option<Sequence> {
        self.lanes.get(lane)?.running
    }

    /// Whether something waits, is held for or runs in one of these lanes.
    #[must_use]
    pub fn any_in(&self, lanes: impl Fn(&Lane) -> bool) -> bool {
        self.lanes.keys().any(&lanes) || self.held.values().any(|event| lanes(&event.lane))
    }

    /// Whether nothing waits and nothing runs.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.held.is_empty() && self.running.is_empty()
    }

    /// Events that no free slot is waiting for.
    fn depth(&self) -> usize {
        let free = self.limits.max_concurrent - self.running.len();
        self.waiting.len() + self.held.len() - free.min(self.ready.len())
    }
}

#[cfg(test)]
mod tests;
