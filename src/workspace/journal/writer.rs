//! The thread that writes the journal: takes what waits, writes it at once, syncs once, and tells
//! everybody.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::pages::Pages;
use super::record::{Mark, Record};
use crate::disk::replace;

/// Lines written together at most.
const TOGETHER: usize = 4_096;
/// After which what could not be written is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// A file larger than this is made short again.
const LARGE: u64 = 8 << 20;

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

/// The end of a file, as far as the journal uses it.
pub(super) trait Tail: Send {
    /// Appends bytes; when this fails, any part of them may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Waits until what was appended is on disk.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts off what is behind this length.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl Tail for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

pub(super) struct Writer {
    path: PathBuf,
    pages: Arc<Mutex<Pages>>,
    jobs: Receiver<Job>,
    file: Box<dyn Tail>,
    /// Up to where the file holds whole lines that are on disk.
    length: u64,
    /// Something of a write that failed may stand behind that.
    torn: bool,
    /// Lines that must still be written.
    owed: String,
    failing: Arc<AtomicBool>,
    /// When to make the file short again.
    large: u64,
}

impl Writer {
    pub(super) fn open(
        path: PathBuf,
        pages: Arc<Mutex<Pages>>,
        jobs: Receiver<Job>,
        failing: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let file = append(&path)?;
        let length = file.metadata()?.len();
        Ok(Self::on(Box::new(file), length, path, pages, jobs, failing))
    }

    /// Makes one that appends to a file of this length.
    pub(super) fn on(
        file: Box<dyn Tail>,
        length: u64,
        path: PathBuf,
        pages: Arc<Mutex<Pages>>,
        jobs: Receiver<Job>,
        failing: Arc<AtomicBool>,
    ) -> Self {
        Self {
            path,
            pages,
            jobs,
            file,
            length,
            torn: false,
            owed: String::new(),
            failing,
            large: (2 * length).max(LARGE),
        }
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
            if self.length > self.large && !self.is_failing() {
                self.shorten();
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
        let written = if text.is_empty() { Ok(()) } else { self.append(text.as_bytes()) };
        match &written {
            Ok(()) if !text.is_empty() && self.failing.swap(false, Ordering::SeqCst) => {
                tracing::info!("state/queue.md can be written again");
            }
            Ok(()) => {}
            Err(error) => {
                if !self.failing.swap(true, Ordering::SeqCst) {
                    tracing::error!(%error, path = %self.path.display(), "cannot write the queue's file: nothing new is taken until it can be; make room or mend its folder");
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

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.mend()?;
        let written = self.file.append(bytes).and_then(|()| self.file.sync());
        match &written {
            Ok(()) => self.length += bytes.len() as u64,
            Err(_) => {
                self.torn = true;
                // Where this fails too, it is done before anything else is written.
                if let Err(error) = self.mend() {
                    tracing::debug!(%error, "cannot cut half a line off state/queue.md yet");
                }
            }
        }
        written
    }

    /// Cuts off what a failed write left: half a line would spoil the next one.
    fn mend(&mut self) -> io::Result<()> {
        if self.torn {
            self.file.cut(self.length)?;
            self.torn = false;
        }
        Ok(())
    }

    /// Writes the file anew without what is over for long.
    fn shorten(&mut self) {
        let (text, rest) = {
            let pages = self.pages.lock();
            // Whoever writes holds this lock: what is in the file then is what these pages say.
            let rest: Vec<Job> = self.jobs.try_iter().collect();
            (pages.render(), rest)
        };
        let done = replace(&self.path, text.as_bytes()).and_then(|_| append(&self.path));
        match done {
            Ok(file) => {
                self.file = Box::new(file);
                (self.length, self.torn) = (text.len() as u64, false);
                tracing::debug!(bytes = self.length, "state/queue.md was made short again");
                for told in rest.into_iter().filter_map(|job| job.told) {
                    told.send_replace(Some(true));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot make state/queue.md short again; it goes on growing");
                self.write(rest);
            }
        }
        self.large = (2 * self.length).max(LARGE);
    }
}

fn append(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().append(true).open(path)
}
