//! The lane and the slot that a running turn occupies.

use std::cell::Cell;
use std::sync::Arc;

use crate::Shared;
use aetheel_model::event::{Lane, Sequence};

thread_local! {
    static PUMPING: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as already starting waiting events, while it exists. See
/// [`Shared::start_waiting`].
pub(crate) struct PumpGuard;

impl PumpGuard {
    pub(crate) fn begin() -> Option<Self> {
        // Only the first guard of a thread is created. Dropping a second one would reset the mark.
        if PUMPING.replace(true) { None } else { Some(Self) }
    }
}

impl Drop for PumpGuard {
    fn drop(&mut self) {
        PUMPING.set(false);
    }
}

/// Occupies a lane and a slot. Frees both when dropped, so that even a panic during the turn blocks
/// nothing.
pub(crate) struct LaneSlot {
    pub(crate) shared: Arc<Shared>,
    pub(crate) sequence: Sequence,
    pub(crate) lane: Lane,
}

impl Drop for LaneSlot {
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.lanes.running.lock().remove(&self.lane);
        shared.lanes.queue.lock().finish(self.sequence);
        // Without a runtime, which is then shutting down, nothing can be started.
        if tokio::runtime::Handle::try_current().is_ok() {
            shared.start_waiting();
        }
        shared.lanes.notify_finished();
    }
}
