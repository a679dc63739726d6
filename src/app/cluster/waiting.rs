//! Channels that this node took over and that stay closed, because the agent of a turn that had
//! begun there may still run on the other machine.

use std::collections::HashMap;

use crate::cluster::LaneRow;
use crate::dispatch::Absorbed;

/// The events of such channels, by root. They begin when the channel is opened.
#[derive(Default)]
pub(super) struct WaitingLanes(HashMap<String, Vec<Absorbed>>);

impl WaitingLanes {
    /// Keeps the events of some lanes.
    pub(super) fn add(&mut self, lanes: &[LaneRow], events: Absorbed) {
        let mut rest = events;
        for row in lanes {
            let (of_row, others) = rest.split(|lane| row.has(lane));
            self.0.entry(row.root.clone()).or_default().push(of_row);
            rest = others;
        }
    }

    /// Whether no channel waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Begins the events of lanes that were opened.
    pub(super) fn begin(&mut self, opened: &[String]) {
        for events in opened.iter().filter_map(|root| self.0.remove(root)).flatten() {
            events.begin();
        }
    }
}
