//! Keeps events of a newer version in the journal, with every line about them. Pure.

use std::collections::BTreeMap;

use super::newer::{NewerEvent, number_of};
use super::record::{JournalMark, Record};
use aetheel_model::event::{BLOCK_BITS, Sequence};

/// The open events that only a newer version can read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NewerEvents(pub(super) BTreeMap<Sequence, NewerEvent>);

impl NewerEvents {
    /// Adds an event, or a changed record of it. `before` has the lines about it from the time when
    /// this version could read it.
    pub(super) fn add(&mut self, event: &NewerEvent, before: &str) {
        let mut lines: Vec<String> = before.lines().map(str::to_owned).collect();
        if let Some(known) = self.0.remove(&event.sequence) {
            lines.extend(known.lines);
        }
        lines.extend(event.lines.iter().cloned());
        self.0.insert(event.sequence, NewerEvent { lines, ..event.clone() });
    }

    /// Adds a record to the event that it is about. Returns `false` if it is not about one of these
    /// events, or ends it.
    pub(super) fn add_record(&mut self, record: &Record) -> bool {
        let adds = match record {
            Record::Newer(_) => false,
            Record::Accepted(..) => true,
            Record::Mark(_, mark) => !matches!(
                mark,
                JournalMark::Finished(_)
                    | JournalMark::Moved
                    | JournalMark::Imported(_)
                    | JournalMark::Last
            ),
        };
        let event = self.0.get_mut(&record.sequence()).filter(|_| adds);
        let Some(event) = event else { return false };
        event.lines.push(record.write().trim_end().to_owned());
        true
    }

    /// Adds a line that cannot be read to the event that it is about, in the journal of a block that
    /// begins with `first`. Returns `false` if it is not about one of these events.
    pub(super) fn add_line(&mut self, line: &str, first: Sequence) -> bool {
        let event = number_of(line).and_then(|number| {
            let number = if number >> BLOCK_BITS == 0 { number | first } else { number };
            self.0.get_mut(&number)
        });
        let Some(event) = event else { return false };
        event.add(line);
        true
    }

    /// Returns a line for the operator about each event.
    pub(super) fn describe(&self) -> Vec<String> {
        self.0.values().map(NewerEvent::describe).collect()
    }
}
