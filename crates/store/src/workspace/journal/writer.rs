//! The thread that writes the journal. It takes all waiting jobs, writes their lines at once, syncs
//! once and notifies all callers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::PendingSave;
use super::record::{JournalMark, Record};
use super::state::JournalState;
use super::store::LineStore;
use aetheel_runtime::supervisor;

const MAX_BATCH_LINES: usize = 4_096;
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The journal is compacted once it is larger than this and twice as large as after the last
/// compaction. The finished events that it keeps take up to 0.7 MiB.
pub(super) const COMPACTION_BYTES: usize = 1 << 20;

/// A line to write, and the caller that waits until it is on disk.
struct WriteJob {
    line: String,
    drop_on_failure: bool,
    /// Receives whether the line is on disk.
    done: Option<watch::Sender<Option<bool>>>,
}

/// Sends lines to the thread that writes the journal. Clones share it.
#[derive(Clone)]
pub(super) struct JournalLines {
    jobs: Arc<Mutex<Sender<WriteJob>>>,
    failing: Arc<AtomicBool>,
}

impl JournalLines {
    /// Starts the thread, which appends to a store of this many bytes.
    pub(super) fn start(
        store: Box<dyn LineStore>,
        length: usize,
        pages: Arc<Mutex<JournalState>>,
    ) -> io::Result<Self> {
        let (jobs, received) = channel();
        let failing = Arc::new(AtomicBool::new(false));
        let writer = JournalWriter {
            pages,
            jobs: received,
            store,
            length,
            unwritten: String::new(),
            failing: failing.clone(),
            compact_above: (2 * length).max(COMPACTION_BYTES),
        };
        supervisor::spawn_thread("journal", move || writer.run())?;
        Ok(Self { jobs: Arc::new(Mutex::new(jobs)), failing })
    }

    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::SeqCst)
    }

    /// Sends a whole line, or nothing to wait for the lines before it. If `drop_on_failure` is true
    /// and the line cannot be written, it is dropped, because the caller then undoes the change.
    pub(super) fn send(&self, line: String, drop_on_failure: bool) -> PendingSave {
        let (done, saving) = watch::channel(None);
        // The thread runs as long as a journal exists. If it panicked, this job is dropped, and its
        // caller learns that nothing was written.
        let _ = self.jobs.lock().send(WriteJob { line, drop_on_failure, done: Some(done) });
        PendingSave(saving)
    }
}

struct JournalWriter {
    pages: Arc<Mutex<JournalState>>,
    jobs: Receiver<WriteJob>,
    store: Box<dyn LineStore>,
    /// Size of the store in bytes.
    length: usize,
    /// Lines that must still be written.
    unwritten: String,
    failing: Arc<AtomicBool>,
    compact_above: usize,
}

impl JournalWriter {
    /// Runs until the journal is dropped.
    fn run(mut self) {
        loop {
            let first = if self.unwritten.is_empty() && !self.is_failing() {
                self.jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                self.jobs.recv_timeout(RETRY_INTERVAL)
            };
            let mut batch = match first {
                Ok(job) => vec![job],
                Err(RecvTimeoutError::Timeout) => {
                    // Only a write shows whether writing works again.
                    let line = if self.unwritten.is_empty() {
                        Record::Mark(self.pages.lock().last(), JournalMark::Last).write()
                    } else {
                        String::new()
                    };
                    vec![WriteJob { line, drop_on_failure: true, done: None }]
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.write(Vec::new());
                    return;
                }
            };
            batch.extend(self.jobs.try_iter().take(MAX_BATCH_LINES));
            self.write(batch);
            if self.length > self.compact_above && !self.is_failing() {
                self.compact();
            }
        }
    }

    fn is_failing(&self) -> bool {
        self.failing.load(Ordering::SeqCst)
    }

    fn write(&mut self, batch: Vec<WriteJob>) {
        let mut text = std::mem::take(&mut self.unwritten);
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
                    tracing::error!(%error, place = self.store.name(), "cannot write the queue: new events are refused until it can be written; hint: free disk space or repair the place it is stored in");
                }
                text.truncate(owed);
                batch
                    .iter()
                    .filter(|job| !job.drop_on_failure)
                    .for_each(|job| text.push_str(&job.line));
                self.unwritten = text;
            }
        }
        for done in batch.into_iter().filter_map(|job| job.done) {
            done.send_replace(Some(written.is_ok()));
        }
    }

    /// Replaces the lines in the store by the current content of the journal, in one step.
    fn compact(&mut self) {
        let (text, rest) = {
            let pages = self.pages.lock();
            // Jobs are sent under this lock, so the rendered text contains their lines.
            let rest: Vec<WriteJob> = self.jobs.try_iter().collect();
            (pages.render(), rest)
        };
        match self.store.replace(&text) {
            Ok(()) => {
                self.length = text.len();
                tracing::debug!(bytes = self.length, "the queue was compacted");
                for done in rest.into_iter().filter_map(|job| job.done) {
                    done.send_replace(Some(true));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot compact the queue; it grows until the next attempt");
                self.write(rest);
            }
        }
        self.compact_above = (2 * self.length).max(COMPACTION_BYTES);
    }
}
