//! What another node left: its open events become those of this node, and begin here as after a
//! restart. And the other way round: what this node leaves to another.
//!
//! Pinned by `tests/dispatch/absorb.rs`.

use crate::Dispatcher;
use crate::outlet::messages::Refusal;
use aetheel_model::event::{Lane, Sequence};
use aetheel_store::workspace::Journal;

/// Events of another node that are this one's now, and have not begun here. Where it is dropped,
/// they begin with the next start.
#[must_use]
pub struct Absorbed {
    pub(super) dispatcher: Dispatcher,
    pub(super) events: Vec<Sequence>,
}

impl Absorbed {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Splits off the events of some lanes.
    pub fn split(self, lanes: impl Fn(&Lane) -> bool) -> (Self, Self) {
        let journal = self.dispatcher.inner.parts.journal.clone();
        let is_theirs = |event: &Sequence| {
            let entry = journal.as_ref().and_then(|journal| journal.entry(*event));
            entry.is_some_and(|entry| lanes(&entry.event.lane))
        };
        let (theirs, others) = self.events.into_iter().partition(is_theirs);
        let dispatcher = self.dispatcher.clone();
        (Self { dispatcher, events: theirs }, Self { dispatcher: self.dispatcher, events: others })
    }

    /// Begins them, each as after a restart: what waited runs, what had used a tool is asked about,
    /// an answer is delivered. Returns at once.
    pub fn begin(self) {
        let Some(journal) = self.dispatcher.inner.parts.journal.clone() else { return };
        if self.dispatcher.inner.lanes.queue.lock().is_closed() {
            return;
        }
        let entries = self.events.iter().filter_map(|event| journal.entry(*event)).collect();
        let taken = self.dispatcher.inner.take_up(&journal, entries);
        self.dispatcher.see_to(&journal, taken);
    }
}

impl Dispatcher {
    /// Takes over what the journal of another node says of some lanes; what is known here is left
    /// out. Returns when it is safe. Events that this node takes from now on have numbers of the block that
    /// begins with `first`, so that they come behind those: nobody else may give numbers of it, and
    /// it is later than every block there was when the other node left. Zero: its own goes on.
    ///
    /// # Errors
    /// [`Refusal::NotSaved`]: nothing was taken over.
    pub async fn absorb(
        &self,
        journal: &str,
        first: Sequence,
        lanes: impl Fn(&Lane) -> bool,
    ) -> Result<Absorbed, Refusal> {
        let own = self.inner.parts.journal.as_ref().ok_or(Refusal::NotSaved)?;
        {
            let mut queue = self.inner.lanes.queue.lock();
            queue.count_from(first, 0);
            own.number_from(first);
        }
        let events = own.absorb(journal, lanes).await.ok_or(Refusal::NotSaved)?;
        Ok(Absorbed { dispatcher: self.clone(), events })
    }

    /// The lanes in which a turn has begun and has no answer, as far as the journal says. After a
    /// takeover the agent of such a turn may still run on the other machine.
    #[must_use]
    pub fn begun_lanes(&self) -> Vec<Lane> {
        let open = self.inner.parts.journal.as_ref().map(Journal::open_events).unwrap_or_default();
        let begun = open
            .into_iter()
            .filter(|entry| entry.started > 0 && entry.answer.is_none() && entry.offered.is_none());
        begun.map(|entry| entry.event.lane).collect()
    }

    /// The lanes in which another node's journal has open events.
    #[must_use]
    pub fn lanes_of(&self, journal: &str) -> Vec<Lane> {
        Journal::open_lanes(journal)
    }

    /// Channel and id of every Discord message that was taken, here or by a node whose journal was
    /// taken over, as far as is known.
    #[must_use]
    pub fn taken_messages(&self) -> Vec<(u64, u64)> {
        self.inner.parts.journal.as_ref().map(Journal::messages).unwrap_or_default()
    }

    /// Whether nothing is in hand in some lanes: nothing waits, is held for, or runs there, no answer
    /// and no question about an event is on its way. What was put to people or left to the next start
    /// is not in hand: [`Dispatcher::leave`] has it.
    #[must_use]
    pub fn is_idle_in(&self, lanes: impl Fn(&Lane) -> bool) -> bool {
        !self.inner.lanes.queue.lock().any_in(&lanes)
            && !self.inner.lanes.running.lock().keys().any(&lanes)
            && !self.inner.delivery.in_hand.any_in(&lanes)
    }

    /// The lines of the journal about some lanes, for the node that gets them. To be asked for while
    /// nothing is in hand there.
    #[must_use]
    pub fn leave(&self, lanes: impl Fn(&Lane) -> bool) -> String {
        self.inner.parts.journal.as_ref().map(|journal| journal.lines_of(lanes)).unwrap_or_default()
    }

    /// Another node has some lanes, with what [`Dispatcher::leave`] said of them: nothing of that is
    /// done here any more, and their agents end. Returns when that is on disk; false when it cannot
    /// be written, and is tried again.
    pub async fn left(&self, lanes: impl Fn(&Lane) -> bool) -> bool {
        self.inner.links.forget_all(&lanes);
        match &self.inner.parts.journal {
            Some(journal) => journal.given(lanes).await,
            None => true,
        }
    }
}
