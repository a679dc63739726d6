//! What a running turn holds, and what its end starts.

use std::cell::Cell;

use super::Dispatcher;
use crate::event::{Lane, Sequence};

thread_local! {
    static PUMPING: Cell<bool> = const { Cell::new(false) };
}

/// This thread starts what may start, and need not be told so again.
pub(super) struct Pumping;

impl Pumping {
    pub(super) fn begin() -> Option<Self> {
        // Not made when there is one already: dropping it would say that nobody pumps.
        if PUMPING.replace(true) { None } else { Some(Self) }
    }
}

impl Drop for Pumping {
    fn drop(&mut self) {
        PUMPING.set(false);
    }
}

/// Frees lane and slot when dropped, so that even a panic of ours blocks nothing.
pub(super) struct Ticket {
    pub(super) dispatcher: Dispatcher,
    pub(super) sequence: Sequence,
    pub(super) lane: Lane,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let inner = &self.dispatcher.inner;
        inner.running.lock().remove(&self.lane);
        inner.queue.lock().finish(self.sequence);
        // Dropped by a runtime that is going away: nothing more can be started.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.dispatcher.pump();
        }
        inner.finished.notify_waiters();
    }
}
