//! The numbers of events.

use crate::event::{Event, NewEvent, Sequence, UNSAVED_START, is_in_block};

/// Assigns numbers to events, each above all numbers of the same block that are in use.
#[derive(Debug, Default)]
pub struct EventNumbers {
    /// The start of the block from which numbers are assigned, or zero if there are no blocks.
    first: Sequence,
    last: Sequence,
    unsaved: Sequence,
}

impl EventNumbers {
    /// Assigns numbers above `last` from now on, in the block that begins with `first`; zero means
    /// that there are no blocks. Numbers of other blocks do not affect this.
    pub fn count_from(&mut self, first: Sequence, last: Sequence) {
        self.first = self.first.max(first);
        self.last = self.last.max(last).max(first);
    }

    /// Assigns a number to an event.
    pub fn assign(&mut self, event: NewEvent, now_ms: i64) -> Event {
        self.last += 1;
        event.accepted(self.last, now_ms)
    }

    /// Assigns a number above those of all saved events to an event that is not saved.
    pub(super) fn assign_unsaved(&mut self, event: NewEvent, now_ms: i64) -> Event {
        self.unsaved += 1;
        event.accepted(UNSAVED_START + self.unsaved, now_ms)
    }

    /// Notes that a number is in use.
    pub(super) fn note(&mut self, number: Sequence) {
        if is_in_block(number, self.first) {
            self.last = self.last.max(number);
        }
    }
}
