//! Lanes that this node took over and that stay closed, because a turn had begun there and its
//! agent may still run on the other machine.

use std::collections::HashMap;

use aetheel_cluster::LaneRow;
use aetheel_dispatch::ImportedEvents;

/// The events of closed lanes, by the root of the lane. They begin when the lane is opened.
#[derive(Default)]
pub(super) struct WaitingLanes(HashMap<String, Vec<ImportedEvents>>);

impl WaitingLanes {
    /// Adds the events of closed lanes.
    pub(super) fn add(&mut self, lanes: &[LaneRow], events: ImportedEvents) {
        let mut rest = events;
        for row in lanes {
            let (of_row, others) = rest.split(|lane| row.has(lane));
            self.0.entry(row.root.clone()).or_default().push(of_row);
            rest = others;
        }
    }

    /// Returns the roots of the closed lanes.
    pub(super) fn roots(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// Returns whether a lane, given by its root, waits here.
    pub(super) fn contains(&self, root: &str) -> bool {
        self.0.contains_key(root)
    }

    /// Removes a lane that another node has now. Its events do not begin here.
    pub(super) fn remove(&mut self, root: &str) {
        self.0.remove(root);
    }

    /// Begins the events of the lanes that were opened, given by their roots.
    pub(super) fn begin(&mut self, opened: &[String]) {
        for events in opened.iter().filter_map(|root| self.0.remove(root)).flatten() {
            events.begin();
        }
    }
}
