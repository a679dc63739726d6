//! Events that have left their lane but are not finished: their answer, or a question about them,
//! is still being delivered.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use aetheel_model::event::{Event, Lane};

/// The set of events in flight. Cheap to clone; clones share the set.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlightEvents(Arc<Mutex<InFlightLanes>>);

#[derive(Debug, Default)]
struct InFlightLanes {
    last: u64,
    lanes: HashMap<u64, Lane>,
}

/// Keeps an event in the set until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard {
    events: InFlightEvents,
    number: u64,
}

impl InFlightEvents {
    /// Adds an event to the set.
    pub(crate) fn track(&self, event: &Event) -> InFlightGuard {
        let mut held = self.0.lock();
        held.last += 1;
        let number = held.last;
        held.lanes.insert(number, event.lane.clone());
        InFlightGuard { events: self.clone(), number }
    }

    /// Returns whether the set contains an event of a matching lane.
    pub(crate) fn any_in(&self, lanes: impl Fn(&Lane) -> bool) -> bool {
        self.0.lock().lanes.values().any(lanes)
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.events.0.lock().lanes.remove(&self.number);
    }
}
