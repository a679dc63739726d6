//! Events that have left their lane but are not finished: their answer, or a question about them,
//! is still being delivered.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use aetheel_model::event::{Event, Lane};

/// The set of these events. Cheap to clone; clones share the set.
#[derive(Clone, Default)]
pub(crate) struct InHand(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    last: u64,
    lanes: HashMap<u64, Lane>,
}

/// Keeps an event in the set until it is dropped.
pub(crate) struct Hold {
    of: InHand,
    number: u64,
}

impl InHand {
    /// Adds an event to the set.
    pub(crate) fn hold(&self, event: &Event) -> Hold {
        let mut held = self.0.lock();
        held.last += 1;
        let number = held.last;
        held.lanes.insert(number, event.lane.clone());
        Hold { of: self.clone(), number }
    }

    /// Returns whether the set has an event of a matching lane.
    pub(crate) fn any_in(&self, lanes: impl Fn(&Lane) -> bool) -> bool {
        self.0.lock().lanes.values().any(lanes)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.of.0.lock().lanes.remove(&self.number);
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hold")
    }
}
