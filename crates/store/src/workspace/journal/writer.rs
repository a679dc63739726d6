//! The thread that writes the journal: takes what waits, writes it at once, syncs once, and tells
//! everybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::pages::Pages;
use super::record::{Mark, Record};
use super::store::LineStore;

/// Lines written together at most.
const TOGETHER: usize = 4_096;
/// After which what could not be written is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The journal is compacted once it is larger than this and twice its size after the last time.
/// The finished events that it keeps take up to 0.7 MiB (`FINISHED_MOST`).
pub(super) const COMPACTION_BYTES: usize = 1 << 20;

/// A line to write, and whoever waits for it to be on the disk.
pub(super) struct Job {
    /// A whole line; empty to be told when everything before is written.
    pub(super) line: String,
    /// It is given up when it cannot be written: nobody relies on it then. Otherwise it is tried
    /// again.
    pub(super) or_never: bool,
    /// Told whether it is on disk.
    pub(super) told: Option<watch::Sender<Option<bool>>>,
}

pub(super) struct Writer {
    pages: Arc<Mutex<Pages>>,
    jobs: Receiver<Job>,
    store: Box<dyn LineStore>,
    /// Bytes that are kept.
    length: usize,
    /// Lines that must still be written.
    owed: String,
    failing: Arc<AtomicBool>,
    /// Size above which the journal is compacted.
    compact_above: usize,
}

impl Writer {
    /// Makes one that adds to a store with so many bytes.
    pub(super) fn on(
        store: Box<dyn LineStore>,
        length: usize,
        pages: Arc<Mutex<Pages>>,
        jobs: Receiver<Job>,
        failing: Arc<AtomicBool>,
    ) -> Self {
        let compact_above = (2 * length).max(COMPACTION_BYTES);
        Self { pages, jobs, store, length, owed: String::new(), failing, compact_above }
    }

    /// Runs until the journal is gone.
    pub(super) fn run(mut self) {
        loop {
            let first = if self.owed.is_empty() && !self.is_failing() {
                self.jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                self.jobs.recv_timeout(RETRY_INTERVAL)
            };
            let mut batch = match first {
                Ok(job) => vec![job],
                Err(RecvTimeoutError::Timeout) => {
                    // Something has to be written to find out whether that is possible again.
                    let line = if self.owed.is_empty() {
                        Record::Mark(self.pages.lock().last(), Mark::Last).write()
                    } else {
                        String::new()
                    };
                    vec![Job { line, or_never: true, told: None }]
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.write(Vec::new());
                    return;
                }
            };
            batch.extend(self.jobs.try_iter().take(TOGETHER));
            self.write(batch);
            if self.length > self.compact_above && !self.is_failing() {
                self.compact();
            }
        }
    }

    fn is_failing(&self) -> bool {
        self.failing.load(Ordering::SeqCst)
    }

    fn write(&mut self, batch: Vec<Job>) {
        let mut text = std::mem::take(&mut self.owed);
        let owed = text.len();
        batch.iter().for_each(|job| text.push_str(&job.line));
        let written = if text.is_empty() { Ok(()) } else { self.store.append(&text) };
        match &written {
            Ok(()) => {
                self.length += text.len();
                if !text.is_empty() && self.failing.swap(false, Ordering::SeqCst) {
                    tracing::info!("the queue can be written again");
                }
            }
            Err(error) => {
                if !self.failing.swap(true, Ordering::SeqCst) {
                    tracing::error!(%error, place = self.store.name(), "cannot write the queue: nothing new is taken until it can be; make room or mend its place");
                }
                text.truncate(owed);
                batch.iter().filter(|job| !job.or_never).for_each(|job| text.push_str(&job.line));
                self.owed = text;
            }
        }
        for told in batch.into_iter().filter_map(|job| job.told) {
            told.send_replace(Some(written.is_ok()));
        }
    }

    /// Replaces the lines in the store by what the journal says now, in one step.
    fn compact(&mut self) {
        let (text, rest) = {
            let pages = self.pages.lock();
            // Jobs are sent under this lock, so these pages contain every one of them.
            let rest: Vec<Job> = self.jobs.try_iter().collect();
            (pages.render(), rest)
        };
        match self.store.replace(&text) {
            Ok(()) => {
                self.length = text.len();
                tracing::debug!(bytes = self.length, "the queue was compacted");
                for told in rest.into_iter().filter_map(|job| job.told) {
                    told.send_replace(Some(true));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot compact the queue; it grows until the next try");
                self.write(rest);
            }
        }
        self.compact_above = (2 * self.length).max(COMPACTION_BYTES);
    }
}
