//! The place of a running turn, and what its end starts.

use std::cell::Cell;

use crate::Dispatcher;
use aetheel_model::event::{Lane, Sequence};

thread_local! {
    static PUMPING: Cell<bool> = const { Cell::new(false) };
}

/// This thread starts waiting events already, and need not begin once more.
pub(crate) struct Pumping;

impl Pumping {
    pub(crate) fn begin() -> Option<Self> {
        // Not made when there is one already: dropping it would reset the mark.
        if PUMPING.replace(true) { None } else { Some(Self) }
    }
}

impl Drop for Pumping {
    fn drop(&mut self) {
        PUMPING.set(false);
    }
}

/// Frees lane and slot when dropped, so that even a panic of ours blocks nothing.
pub(crate) struct Slot {
    pub(crate) dispatcher: Dispatcher,
    pub(crate) sequence: Sequence,
    pub(crate) lane: Lane,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let inner = &self.dispatcher.inner;
        inner.lanes.running.lock().remove(&self.lane);
        inner.lanes.queue.lock().finish(self.sequence);
        // Dropped by a runtime that is going away: nothing more can be started.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.dispatcher.pump();
        }
        inner.lanes.tell_finished();
    }
}
