//! The content of the journal: open events with their progress, and recently finished events. Pure.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::checksum::is_checked;
use super::newer::NewerEvent;
use super::newer_events::NewerEvents;
use super::record::{FinishedEvent, JournalMark, Record};
use aetheel_model::event::{Event, Sequence, UNSAVED_START, is_in_block};
use aetheel_model::id::{ChannelId, MessageId};

/// Maximum number of finished events that are remembered, so that none of them is accepted twice.
const MAX_FINISHED: usize = 4_096;
/// The maximum for a node of a cluster, which also remembers events of other nodes.
const MAX_FINISHED_OF_NODE: usize = 4 * MAX_FINISHED;
const FINISHED_SPAN_MS: i64 = 24 * 3_600_000;
/// Time after which an offer to repeat an event expires.
pub const OFFER_SPAN_MS: i64 = 7 * 24 * 3_600_000;

/// The largest number that an event in the file may have, so that there are enough larger ones.
pub(super) const MAX_SEQUENCE: Sequence = UNSAVED_START - u32::MAX as Sequence;

const HEADING: &str = "# Queue

Accepted events that are not finished yet, each as a task with its JSON, followed by lines about its progress. Written by Aetheel;
stop Aetheel before you edit it. Removing the line of a task forgets the event; `[x]` instead of `[ ]` marks it as finished. After a
change within a line, remove the checksum at its end (`#` and eight digits).

";

/// An event that is not finished.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalEntry {
    /// The event as it was accepted.
    pub event: Event,
    /// How often its turn began without coming to an end.
    pub started: u32,
    /// Whether its agent used a tool.
    pub used_tool: bool,
    /// Whether its agent may have used a tool, because the journal could not be written.
    pub doubtful: bool,
    /// Whether a budget was about to stop its turn.
    pub cut_off: bool,
    /// The messages of its reply, including those of earlier attempts; the next attempt continues
    /// in them.
    pub posted: Vec<MessageId>,
    /// Its answer, while it is unknown whether that was delivered.
    pub answer: Option<String>,
    /// When people were asked whether to repeat it, in milliseconds since 1970.
    pub offered_ms: Option<i64>,
    /// Whether it was set aside because the gateway crashed too often while it ran.
    pub set_aside: bool,
    /// How often people requested that it is repeated.
    pub retries: u32,
    /// The event whose running turn received it; `None` again once it has a turn of its own.
    pub joined_turn: Option<Sequence>,
}

impl JournalEntry {
    fn new(event: Event) -> Self {
        Self {
            event,
            started: 0,
            used_tool: false,
            doubtful: false,
            cut_off: false,
            posted: Vec::new(),
            answer: None,
            offered_ms: None,
            set_aside: false,
            retries: 0,
            joined_turn: None,
        }
    }

    fn lines(&self) -> String {
        let mut text = Record::Accepted(Box::new(self.event.clone()), None).write();
        let mut marks = vec![JournalMark::Retry; self.retries as usize];
        marks.extend(vec![JournalMark::Started; self.started as usize]);
        marks.extend(self.joined_turn.map(JournalMark::JoinedTurn));
        marks.extend(self.used_tool.then_some(JournalMark::UsedTool));
        marks.extend(self.doubtful.then_some(JournalMark::Doubtful));
        marks.extend(self.cut_off.then_some(JournalMark::CutOff));
        marks.extend((!self.posted.is_empty()).then(|| JournalMark::Posted(self.posted.clone())));
        marks.extend(self.answer.clone().map(JournalMark::Answered));
        marks.extend(
            self.offered_ms.map(|at_ms| JournalMark::Offered { at_ms, aside: self.set_aside }),
        );
        for mark in marks {
            text.push_str(&Record::Mark(self.event.sequence, mark).write());
        }
        text
    }

    /// Marks the entry as doubtful if its turn had begun and has no answer. Returns whether this is
    /// new.
    pub(super) fn mark_doubtful(&mut self) -> bool {
        let running = self.started > 0 && self.answer.is_none() && self.offered_ms.is_none();
        let doubt = running && !self.used_tool && !self.doubtful;
        self.doubtful |= doubt;
        doubt
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct JournalState {
    pub(super) open: BTreeMap<Sequence, JournalEntry>,
    /// The open events that only a newer version can read.
    pub(super) newer: NewerEvents,
    pub(super) finished: VecDeque<(Sequence, FinishedEvent)>,
    /// The events by their keys: those that are open, and those that are finished and remembered.
    pub(super) keys: HashMap<String, Sequence>,
    /// The start of the block from which numbers are assigned, or zero if there are no blocks.
    first: Sequence,
    last: Sequence,
    /// Lines that could not be read, kept so that the operator can correct them.
    pub(super) unreadable: Vec<String>,
}

impl JournalState {
    /// Parses a file for a process that assigns numbers from `first` on. Also returns a warning for
    /// each line that cannot be read.
    pub(super) fn read(text: &str, first: Sequence) -> (Self, Vec<String>) {
        let (mut pages, mut warnings) =
            (Self { first, last: first, ..Self::default() }, Vec::new());
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            // An editor may omit the last line end. A line that a crash cut off has no matching
            // checksum.
            let whole =
                line.strip_suffix('\n').or_else(|| Some(line).filter(|line| is_checked(line)));
            let Some(whole) = whole else {
                warnings
                    .push(format!("line {number} has neither a line end nor a matching checksum and is left out: the last write was cut off"));
                break;
            };
            match Record::read(whole) {
                None => {}
                Some(Ok(record)) if first == 0 => pages.apply(&record),
                Some(Ok(record)) => pages.apply(&record.with_block(first)),
                Some(Err(_)) if pages.newer.add_line(whole.trim_end(), first) => {}
                Some(Err(fault)) => {
                    warnings.push(format!("line {number} is left out: {fault}"));
                    pages.unreadable.push(whole.to_owned());
                }
            }
        }
        warnings.extend(pages.newer.describe());
        (pages, warnings)
    }

    /// Returns the compact text of the file.
    pub(super) fn render(&self) -> String {
        let mut text = HEADING.to_owned();
        text.push_str(&Record::Mark(self.last, JournalMark::Last).write());
        text.push_str(&self.lines());
        text
    }

    pub(super) fn lines(&self) -> String {
        let mut text = String::new();
        for (sequence, finished) in &self.finished {
            text.push_str(
                &Record::Mark(*sequence, JournalMark::Finished(finished.clone())).write(),
            );
        }
        for entry in self.open.values() {
            text.push_str(&entry.lines());
        }
        for event in self.newer.0.values() {
            text.push_str(&event.text());
        }
        for line in &self.unreadable {
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// Applies a record. A mark for an event that is not open changes nothing.
    pub(super) fn apply(&mut self, record: &Record) {
        let sequence = record.sequence();
        if is_in_block(sequence, self.first) {
            self.last = self.last.max(sequence);
        }
        if self.newer.add_record(record) {
            return;
        }
        match record {
            Record::Newer(event) => {
                if !self.is_over(sequence) {
                    if let Some(key) = &event.key {
                        self.keys.insert(key.clone(), sequence);
                    }
                    // A newer version may have changed an event that this one knew.
                    let before = self.open.remove(&sequence).map(|entry| entry.lines());
                    self.newer.add(event, &before.unwrap_or_default());
                }
            }
            Record::Accepted(event, answer) => {
                if self.is_over(sequence) {
                    return;
                }
                if let Some(key) = &event.key {
                    self.keys.insert(key.clone(), sequence);
                }
                // A second record of the same event changed it while it waited.
                let changed = |entry: &mut JournalEntry| (**event).clone_into(&mut entry.event);
                let entry = self
                    .open
                    .entry(sequence)
                    .and_modify(changed)
                    .or_insert_with(|| JournalEntry::new((**event).clone()));
                if answer.is_some() {
                    entry.answer.clone_from(answer);
                }
            }
            Record::Mark(_, JournalMark::Finished(finished)) => {
                if self.is_over(sequence) {
                    return;
                }
                // A line that a person marked as finished has neither key nor message, but the open
                // entry has both.
                let at_ms = finished.at_ms;
                let finished = match (self.open.remove(&sequence), self.newer.0.remove(&sequence)) {
                    (Some(entry), _) => FinishedEvent::of(&entry.event, at_ms),
                    (None, Some(NewerEvent { key, message, .. })) => {
                        FinishedEvent { at_ms, key, message }
                    }
                    (None, None) => finished.clone(),
                };
                if let Some(key) = &finished.key {
                    self.keys.insert(key.clone(), sequence);
                }
                self.finished.push_back((sequence, finished));
                self.drop_too_many();
            }
            Record::Mark(_, JournalMark::Moved) => self.forget(sequence),
            Record::Mark(_, JournalMark::Imported(lines)) => {
                let (theirs, _) = Self::read(lines, 0);
                let added = self.select_unknown(theirs);
                self.import(&added);
            }
            Record::Mark(_, mark) => {
                let Some(entry) = self.open.get_mut(&sequence) else { return };
                match mark {
                    JournalMark::Started => {
                        (entry.started, entry.joined_turn) = (entry.started + 1, None);
                        entry.cut_off = false;
                    }
                    JournalMark::JoinedTurn(turn) => entry.joined_turn = Some(*turn),
                    JournalMark::UsedTool => entry.used_tool = true,
                    JournalMark::Doubtful => entry.doubtful = true,
                    JournalMark::CutOff => entry.cut_off = true,
                    JournalMark::Posted(ids) => entry.posted.clone_from(ids),
                    JournalMark::Answered(answer) => entry.answer = Some(answer.clone()),
                    JournalMark::Waiting => entry.started = entry.started.saturating_sub(1),
                    JournalMark::Offered { at_ms, aside } => {
                        (entry.offered_ms, entry.set_aside) = (Some(*at_ms), *aside)
                    }
                    JournalMark::Retry => {
                        let (again, posted) =
                            (entry.retries + 1, std::mem::take(&mut entry.posted));
                        *entry = JournalEntry {
                            retries: again,
                            posted,
                            ..JournalEntry::new(entry.event.clone())
                        };
                    }
                    JournalMark::Finished(_)
                    | JournalMark::Moved
                    | JournalMark::Imported(_)
                    | JournalMark::Last => {}
                }
            }
        }
    }

    /// Restores an entry after a change of it could not be written.
    pub(super) fn restore(&mut self, entry: JournalEntry) {
        if let Some(now) = self.open.get_mut(&entry.event.sequence) {
            *now = entry;
        }
    }

    /// Undoes the acceptance of an event that could not be written.
    pub(super) fn forget(&mut self, sequence: Sequence) {
        let open = self.open.remove(&sequence).map(|entry| entry.event.request.key);
        let newer = self.newer.0.remove(&sequence).map(|event| event.key);
        if let Some(key) = open.or(newer).flatten() {
            self.keys.remove(&key);
        }
    }

    /// Forgets events that were finished long ago. Returns the open events that nothing waits for:
    /// those whose offer to repeat them expired, and events that belonged to an earlier gateway
    /// process.
    pub(super) fn prune(&mut self, now_ms: i64) -> Vec<Event> {
        while self
            .finished
            .front()
            .is_some_and(|(_, finished)| finished.at_ms < now_ms - FINISHED_SPAN_MS)
        {
            self.drop_oldest();
        }
        let over = |entry: &&JournalEntry| {
            entry.offered_ms.is_some_and(|at| at < now_ms - OFFER_SPAN_MS)
                || entry.event.ends_with_process()
        };
        self.open.values().filter(over).map(|entry| entry.event.clone()).collect()
    }

    pub(super) fn drop_too_many(&mut self) {
        let most = if self.first == 0 { MAX_FINISHED } else { MAX_FINISHED_OF_NODE };
        while self.finished.len() > most {
            self.drop_oldest();
        }
    }

    fn is_over(&self, sequence: Sequence) -> bool {
        // Most lookups are for recently finished events.
        self.finished.iter().rev().any(|(over, _)| *over == sequence)
    }

    fn drop_oldest(&mut self) {
        if let Some((sequence, FinishedEvent { key: Some(key), .. })) = self.finished.pop_front()
            && self.keys.get(&key) == Some(&sequence)
        {
            self.keys.remove(&key);
        }
    }

    pub(super) fn contains_key(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    pub(super) fn first(&self) -> Sequence {
        self.first
    }

    /// Assigns numbers from another block from now on, if it comes after the current one.
    pub(super) fn use_block(&mut self, first: Sequence) {
        if first > self.first {
            (self.first, self.last) = (first, first);
        }
    }

    /// Returns the highest number of all events in any block.
    pub(super) fn highest(&self) -> Sequence {
        let open = self.open.keys().chain(self.newer.0.keys()).max().copied();
        let over = self.finished.iter().map(|(sequence, _)| *sequence).max();
        self.last.max(open.unwrap_or(0)).max(over.unwrap_or(0))
    }

    pub(super) fn last(&self) -> Sequence {
        self.last
    }

    pub(super) fn entry(&self, sequence: Sequence) -> Option<&JournalEntry> {
        self.open.get(&sequence)
    }

    pub(super) fn open(&self) -> impl Iterator<Item = &JournalEntry> {
        self.open.values()
    }

    /// Returns channel and id of every message that was accepted and is still known.
    pub(super) fn messages(&self) -> impl Iterator<Item = (ChannelId, MessageId)> {
        let open =
            self.open.values().filter_map(|entry| FinishedEvent::of(&entry.event, 0).message);
        let newer = self.newer.0.values().filter_map(|event| event.message);
        let finished = self.finished.iter().filter_map(|(_, finished)| finished.message);
        open.chain(newer).chain(finished)
    }
}
