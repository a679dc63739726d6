//! Events that came from another node.

use super::restart::Recovery;
use aetheel_model::event::{Lane, Sequence};

/// Events imported from another node that have not started here. If this value is dropped, they
/// start when the gateway starts again.
#[must_use]
pub struct ImportedEvents {
    pub(super) recovery: Recovery,
    pub(super) events: Vec<Sequence>,
}

impl ImportedEvents {
    /// Returns the number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns whether there are no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Splits the events into those of matching lanes and the others.
    pub fn split(self, lanes: impl Fn(&Lane) -> bool) -> (Self, Self) {
        let journal = self.recovery.shared.deps.journal.clone();
        let is_theirs = |event: &Sequence| {
            let entry = journal.as_ref().and_then(|journal| journal.entry(*event));
            entry.is_some_and(|entry| lanes(&entry.event.lane))
        };
        let (theirs, others) = self.events.into_iter().partition(is_theirs);
        let recovery = self.recovery.clone();
        (Self { recovery, events: theirs }, Self { recovery: self.recovery, events: others })
    }

    /// Starts the events, each like an event after a restart: a waiting event runs, people are
    /// asked about a turn that used a tool, and a saved answer is delivered. Returns at once.
    pub fn begin(self) {
        let Some(journal) = self.recovery.shared.deps.journal.clone() else { return };
        if self.recovery.shared.lanes.queue.lock().is_closed() {
            return;
        }
        let entries = self.events.iter().filter_map(|event| journal.entry(*event)).collect();
        let taken = self.recovery.restore_entries(&journal, entries);
        self.recovery.resume_restored(&journal, taken);
    }
}
