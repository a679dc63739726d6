//! Moves lines of the journal between nodes: selects the lines of another node that are unknown
//! here, and the lines about some lanes for another node.

use std::collections::{BTreeSet, HashSet};

use super::Journal;
use super::record::{FinishedEvent, JournalMark, Record};
use super::state::{JournalEntry, JournalState, MAX_SEQUENCE};
use aetheel_model::event::{Lane, Sequence};

impl Journal {
    /// Returns the lanes that have open events in the lines of a journal.
    #[must_use]
    pub fn open_lanes(text: &str) -> Vec<Lane> {
        let (pages, _) = JournalState::read(text, 0);
        let open = pages.open().map(|entry| entry.event.lane.clone());
        let newer = pages.newer.0.values().filter_map(|event| event.lane.clone());
        let lanes: BTreeSet<Lane> = open.chain(newer).collect();
        lanes.into_iter().collect()
    }

    /// Imports the lines of another node's journal about some lanes, except events that are known
    /// here and lanes that never leave a node. Finished events are imported whatever their lane,
    /// because only their keys are known. Returns the newly opened events, oldest first, once
    /// everything is on disk. Returns `None` if it cannot be written; then nothing is imported.
    pub async fn import(&self, text: &str, lanes: impl Fn(&Lane) -> bool) -> Option<Vec<Sequence>> {
        let (added, saving) = {
            // Locked until the job is sent, so that the file has the records in the same order.
            let mut pages = self.pages.lock();
            let (mut theirs, warnings) = JournalState::read(text, 0);
            theirs.open.retain(|_, entry| lanes(&entry.event.lane));
            theirs.newer.0.retain(|_, event| event.lane.as_ref().is_none_or(&lanes));
            for warning in warnings {
                tracing::warn!("the journal of another node: {warning}");
            }
            let added = pages.select_unknown(theirs);
            let mut line = String::new();
            if !added.is_empty() {
                line = Record::Mark(pages.last(), JournalMark::Imported(added.lines())).write();
                pages.import(&added);
            }
            (added, self.lines.send(line, true))
        };
        if !saving.done().await {
            self.pages.lock().undo_import(&added);
            return None;
        }
        Some(added.open().map(|entry| entry.event.sequence).collect())
    }

    /// Returns the lines about some lanes, for another node: the open events and the recently
    /// finished ones.
    #[must_use]
    pub fn lines_of(&self, lanes: impl Fn(&Lane) -> bool) -> String {
        self.pages.lock().select_lanes(lanes).lines()
    }

    /// Removes the open events of some lanes, which another node has now. Finished events of these
    /// lanes stay known by their keys only. Returns once this is on disk, or false if it cannot be
    /// written; the write is then retried.
    pub async fn forget_lanes(&self, lanes: impl Fn(&Lane) -> bool) -> bool {
        let open = {
            let mut pages = self.pages.lock();
            pages.forget_messages_in(&lanes);
            pages.open_in(lanes)
        };
        for sequence in open {
            self.mark(sequence, JournalMark::Moved);
        }
        self.flush().await
    }
}

impl JournalState {
    /// Returns the part of another node's journal that is unknown here. An event is known by its
    /// number or its key.
    pub(super) fn select_unknown(&self, mut theirs: Self) -> Self {
        let over: HashSet<Sequence> = self.finished.iter().map(|(sequence, _)| *sequence).collect();
        let is_known = |sequence: Sequence, key: Option<&String>| {
            self.open.contains_key(&sequence)
                || self.newer.0.contains_key(&sequence)
                || over.contains(&sequence)
                || key.is_some_and(|key| self.keys.contains_key(key))
        };
        theirs.open.retain(|sequence, JournalEntry { event, .. }| {
            *sequence <= MAX_SEQUENCE
                && !event.lane.is_local()
                && !is_known(*sequence, event.key.as_ref())
        });
        theirs.newer.0.retain(|sequence, event| {
            *sequence <= MAX_SEQUENCE
                && !event.is_in(Lane::is_local)
                && !is_known(*sequence, event.key.as_ref())
        });
        theirs.finished.retain(|(sequence, FinishedEvent { key, .. })| {
            *sequence <= MAX_SEQUENCE && !is_known(*sequence, key.as_ref())
        });
        theirs.unreadable.retain(|line| !self.unreadable.contains(line));
        theirs
    }

    /// Adds the part that [`JournalState::select_unknown`] returned.
    pub(super) fn import(&mut self, added: &Self) {
        let open = added.open.iter().map(|(sequence, entry)| (*sequence, entry.event.key.clone()));
        let over = added.finished.iter().map(|(sequence, over)| (*sequence, over.key.clone()));
        let newer = added.newer.0.iter().map(|(sequence, it)| (*sequence, it.key.clone()));
        let keys =
            open.chain(over).chain(newer).filter_map(|(sequence, key)| Some((key?, sequence)));
        self.keys.extend(keys);
        self.open.extend(added.open.clone());
        self.newer.0.extend(added.newer.0.clone());
        self.finished.extend(added.finished.iter().cloned());
        self.finished.make_contiguous().sort_by_key(|(_, finished)| finished.at_ms);
        self.drop_too_many();
        self.unreadable.extend(added.unreadable.iter().cloned());
    }

    /// Undoes [`JournalState::import`], because its record could not be written.
    pub(super) fn undo_import(&mut self, added: &Self) {
        added.open.keys().chain(added.newer.0.keys()).for_each(|sequence| self.forget(*sequence));
        self.finished.retain(|known| !added.finished.contains(known));
        self.keys.retain(|_, sequence| !added.finished.iter().any(|(over, _)| over == sequence));
        self.unreadable.retain(|line| !added.unreadable.contains(line));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
            && self.newer.0.is_empty()
            && self.finished.is_empty()
            && self.unreadable.is_empty()
    }

    pub(super) fn select_lanes(&self, lanes: impl Fn(&Lane) -> bool) -> Self {
        let mut of = Self::default();
        for (sequence, entry) in self.open.iter().filter(|(_, entry)| lanes(&entry.event.lane)) {
            of.open.insert(*sequence, entry.clone());
        }
        for (sequence, event) in self.newer.0.iter().filter(|(_, event)| event.is_in(&lanes)) {
            of.newer.0.insert(*sequence, event.clone());
        }
        let over = self
            .finished
            .iter()
            .filter(|(_, finished)| lane_of(finished).is_some_and(|lane| lanes(&lane)));
        of.finished.extend(over.cloned());
        of
    }

    /// Forgets which messages of some lanes were finished, because another node handles missed
    /// messages there.
    pub(super) fn forget_messages_in(&mut self, lanes: impl Fn(&Lane) -> bool) {
        for (_, finished) in &mut self.finished {
            finished.message =
                finished.message.filter(|(channel, _)| !lanes(&Lane::Channel(*channel)));
        }
    }

    /// Returns the numbers of the open events of some lanes, including those that only a newer
    /// version can read.
    pub(super) fn open_in(&self, lanes: impl Fn(&Lane) -> bool) -> Vec<Sequence> {
        let open = self.open.iter().filter(|(_, entry)| lanes(&entry.event.lane));
        let newer = self.newer.0.iter().filter(|(_, event)| event.is_in(&lanes));
        open.map(|(sequence, _)| *sequence).chain(newer.map(|(sequence, _)| *sequence)).collect()
    }
}

/// Returns the lane of a finished event, if its message or its key names one.
fn lane_of(finished: &FinishedEvent) -> Option<Lane> {
    if let Some((channel, _)) = finished.message {
        return Some(Lane::Channel(channel));
    }
    let (kind, rest) = finished.key.as_deref()?.split_once(':')?;
    let (name, _) = rest.split_once(':')?;
    format!("{kind}:{name}").parse().ok().filter(|lane: &Lane| !lane.is_local())
}
