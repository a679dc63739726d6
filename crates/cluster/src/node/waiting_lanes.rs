//! Lanes that this node took over and that stay closed, because a turn had begun there and its
//! agent may still run on the other machine.

use std::collections::{HashMap, HashSet};

use crate::LaneRow;
use aetheel_dispatch::ImportedEvents;

#[derive(Default)]
pub(super) struct WaitingLanes {
    /// Their events, by the root of the lane. They begin when the lane is opened.
    events: HashMap<String, Vec<ImportedEvents>>,
    /// Numbers of the messages for closed lanes whose authors were notified.
    notified: HashSet<i64>,
}

impl WaitingLanes {
    pub(super) fn add(&mut self, lanes: &[LaneRow], events: ImportedEvents) {
        let mut rest = events;
        for row in lanes {
            let (of_row, others) = rest.split(|lane| row.has(lane));
            self.events.entry(row.root.clone()).or_default().push(of_row);
            rest = others;
        }
    }

    pub(super) fn roots(&mut self) -> Vec<String> {
        if self.events.is_empty() {
            self.notified.clear();
        }
        self.events.keys().cloned().collect()
    }

    /// Returns whether the author of a message, given by its number, has to be notified. Returns
    /// `true` once for each message.
    pub(super) fn needs_notice(&mut self, message: i64) -> bool {
        self.notified.insert(message)
    }

    pub(super) fn contains(&self, root: &str) -> bool {
        self.events.contains_key(root)
    }

    /// Removes a lane that another node has now. Its events do not begin here.
    pub(super) fn remove(&mut self, root: &str) {
        self.events.remove(root);
    }

    /// Begins the events of the lanes that were opened, given by their roots.
    pub(super) fn begin(&mut self, opened: &[String]) {
        for events in opened.iter().filter_map(|root| self.events.remove(root)).flatten() {
            events.begin();
        }
    }
}
