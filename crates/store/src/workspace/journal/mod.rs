//! `state/queue.md`: every accepted event and its progress, so that no event is lost when the
//! program crashes.
//!
//! Owns the file and its format. It does not decide what happens to open events after a restart. An
//! event that was reported as saved is on disk (fdatasync). One thread writes all waiting records
//! together and syncs once. Tested below (with the file cut at every byte), in
//! `tests/dispatch/kept.rs` and in `tests/gateway/chaos/mod.rs`.

mod checksum;
mod earlier;
mod newer;
mod newer_events;
mod record;
mod state;
mod store;
mod transfer;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

pub use self::record::JournalMark;
pub use self::state::{JournalEntry, OFFER_SPAN_MS};
pub use self::store::LineStore;

use self::earlier::EarlierLines;
use self::record::{FinishedEvent, Record};
use self::state::JournalState;
use self::store::LineFile;
use self::writer::JournalLines;
use super::FileError;
use super::blocking::blocking;
use crate::disk::replace;
use aetheel_model::event::{Event, Lane, Sequence};
use aetheel_model::id::{ChannelId, MessageId};

/// The journal of one gateway. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Journal {
    pages: Arc<Mutex<JournalState>>,
    lines: JournalLines,
}

/// Reports whether a record has been written to disk. A record is written in the background.
#[derive(Clone, Debug)]
pub struct PendingSave(watch::Receiver<Option<bool>>);

impl PendingSave {
    /// Waits until the record is on disk. Returns false if it cannot be written.
    pub async fn done(mut self) -> bool {
        // A writer that has ended has not written the record.
        self.0.wait_for(Option::is_some).await.is_ok_and(|done| *done == Some(true))
    }
}

impl Journal {
    /// Reads the file of an earlier process, compacts it and continues it.
    ///
    /// # Errors
    /// [`FileError`] if it cannot be read or written.
    pub(super) async fn open(folder: PathBuf, now_ms: i64) -> Result<Self, FileError> {
        blocking(move || Self::begin(&folder.join("queue.md"), now_ms)).await
    }

    fn begin(path: &Path, now_ms: i64) -> Result<Self, FileError> {
        let failed = |source| FileError::new("write", path, source);
        let earlier = EarlierLines::of_file(path)?;
        if earlier.text.is_empty() {
            replace(path, b"").map_err(failed)?;
        }
        let file = LineFile::open(path.to_owned()).map_err(failed)?;
        earlier.continue_in(Box::new(file), now_ms)
    }

    /// Continues a journal whose lines are in another store, to which only this process writes. New
    /// numbers are above `first`, the start of a block of [`aetheel_model::event::BLOCK_BITS`] bits
    /// that belongs to this process.
    ///
    /// # Errors
    /// [`FileError`] if the lines cannot be read or written.
    pub(super) async fn open_with(
        text: String,
        store: Box<dyn LineStore>,
        first: Sequence,
    ) -> Result<Self, FileError> {
        blocking(move || {
            let place = PathBuf::from(store.name());
            let now_ms = jiff::Timestamp::now().as_millisecond();
            EarlierLines { place, text, first, complete: true }.continue_in(store, now_ms)
        })
        .await
    }

    /// Returns whether the journal currently cannot be written. The writer retries once a second.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.lines.is_failing()
    }

    /// Returns the start of the block from which numbers are assigned, or zero if there are no
    /// blocks.
    #[must_use]
    pub fn block_start(&self) -> Sequence {
        self.pages.lock().first()
    }

    /// Assigns numbers from another block from now on, if it comes after the current one.
    pub fn use_block(&self, first: Sequence) {
        self.pages.lock().use_block(first);
    }

    /// Returns the highest sequence number assigned so far.
    #[must_use]
    pub fn last(&self) -> Sequence {
        self.pages.lock().last()
    }

    /// Returns whether an event with this key is open or was finished recently.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.pages.lock().contains_key(key)
    }

    /// Returns the events that are not finished, oldest first.
    #[must_use]
    pub fn open_events(&self) -> Vec<JournalEntry> {
        self.pages.lock().open().cloned().collect()
    }

    /// Returns the lanes with open events that only a newer version can read. Their turns may have
    /// begun.
    #[must_use]
    pub fn newer_lanes(&self) -> Vec<Lane> {
        self.pages.lock().newer.0.values().filter_map(|event| event.lane.clone()).collect()
    }

    /// Returns the progress of an event, or `None` if it is not open.
    #[must_use]
    pub fn entry(&self, sequence: Sequence) -> Option<JournalEntry> {
        self.pages.lock().entry(sequence).cloned()
    }

    /// Returns channel and id of every message that was accepted and is still known.
    #[must_use]
    pub fn messages(&self) -> Vec<(ChannelId, MessageId)> {
        self.pages.lock().messages().collect()
    }

    /// Records an accepted event. If it cannot be written, [`Journal::forget`] undoes that.
    pub fn accepted(&self, event: &Event) -> PendingSave {
        self.write(Record::Accepted(Box::new(event.clone()), None), true)
    }

    /// Records an accepted event together with its answer, so that it is only delivered, even if
    /// the program crashes.
    pub fn accepted_answered(&self, event: &Event, answer: String) -> PendingSave {
        self.write(Record::Accepted(Box::new(event.clone()), Some(answer)), true)
    }

    /// Forgets an event that could not be written.
    pub fn forget(&self, sequence: Sequence) {
        self.pages.lock().forget(sequence);
    }

    /// Records what happened to an event.
    pub fn mark(&self, sequence: Sequence, mark: JournalMark) -> PendingSave {
        let drop_on_failure = mark == JournalMark::Retry;
        self.write(Record::Mark(sequence, mark), drop_on_failure)
    }

    /// Restores an entry after a change of it could not be written.
    pub fn restore(&self, entry: JournalEntry) {
        self.pages.lock().restore(entry);
    }

    /// Records that an event is finished.
    pub fn finished(&self, event: &Event, now_ms: i64) -> PendingSave {
        self.mark(event.sequence, JournalMark::Finished(FinishedEvent::of(event, now_ms)))
    }

    /// Waits until everything recorded so far is on disk. Returns false if it cannot be written.
    pub async fn flush(&self) -> bool {
        self.lines.send(String::new(), true).done().await
    }

    fn write(&self, record: Record, drop_on_failure: bool) -> PendingSave {
        let line = record.write();
        // Locked until the job is sent, so that the file has the records in the same order.
        let mut pages = self.pages.lock();
        pages.apply(&record);
        self.lines.send(line, drop_on_failure)
    }
}

/// Reads a journal file as the gateway does when it starts, without changing it. Returns a line for
/// each part that cannot be read. A last line that is still being written is ignored. Blocks.
pub(super) fn inspect(path: &Path) -> Result<Vec<String>, FileError> {
    EarlierLines::of_file(path)?.inspect()
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Journal")
    }
}

#[cfg(test)]
mod tests;
