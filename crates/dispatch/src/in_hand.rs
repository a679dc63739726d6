//! Events that are in no lane any more and not over: their answer, or a question about them, is on
//! its way.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use aetheel_model::event::{Event, Lane};

/// All of them. Cheap to clone; clones share everything.
#[derive(Clone, Default)]
pub(crate) struct InHand(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    last: u64,
    lanes: HashMap<u64, Lane>,
}

/// Holds one in hand until it is dropped.
pub(crate) struct Hold {
    of: InHand,
    number: u64,
}

impl InHand {
    /// Has an event in hand.
    pub(crate) fn hold(&self, event: &Event) -> Hold {
        let mut held = self.0.lock();
        held.last += 1;
        let number = held.last;
        held.lanes.insert(number, event.lane.clone());
        Hold { of: self.clone(), number }
    }

    /// Whether there is one of some lanes.
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
