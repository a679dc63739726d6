//! Writes recordings.
//!
//! One thread writes all recordings, so that a slow disk never delays a turn: if the thread falls
//! behind, lines are dropped, and the next line has their number. Recordings that are *written
//! ahead* lose no line: their link waits instead until a line is written, before it acts because of
//! the line. `folder` and `retention` enforce the limits of `RECORDINGS_DIR`.

mod folder;
mod paths;
mod recent;
mod recording;
mod resume;
mod retention;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{self, Sender};
use std::time::Instant;

use tokio::sync::oneshot;

pub use self::folder::RecordingLimits;
use self::folder::{RecordingFile, RecordingsFolder};
pub use self::paths::{kept_name, newest, path_in};
pub use self::recent::RecordedHandOff;
pub use self::recording::Recording;
pub use self::resume::ResumeError;
use self::writer::{RecorderMessage, write_all};
use crate::format::Header;
use aetheel_model::redact::Redactor;
use aetheel_runtime::supervisor;

/// Writes recordings. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    folder: PathBuf,
    limits: RecordingLimits,
    redactor: Redactor,
    sender: Sender<RecorderMessage>,
    /// The number of lines that the thread has not received yet.
    backlog: Arc<AtomicUsize>,
}

impl Recorder {
    /// Starts the writer thread. The folder is created for the first recording, readable only by
    /// its owner, and never exceeds its limits.
    #[must_use]
    pub fn new(folder: PathBuf, limits: RecordingLimits, redactor: Redactor) -> Self {
        let (sender, receiver) = mpsc::channel();
        let (below, backlog) = (folder.clone(), Arc::new(AtomicUsize::new(0)));
        let waiting = Arc::clone(&backlog);
        let spawned = supervisor::spawn_thread("recordings", move || {
            write_all(&receiver, &waiting, RecordingsFolder::open(below, limits))
        });
        if let Err(error) = spawned {
            tracing::error!(%error, "cannot start the recordings thread; nothing is recorded");
        }
        Self { folder, limits, redactor, sender, backlog }
    }

    /// Begins the recording of a link.
    #[must_use]
    pub fn begin(&self, header: &Header) -> Recording {
        self.begin_at(header, RecordingFile::at(self.path(header)))
    }

    /// Begins the recording of a link that outlives the gateway. It loses no line, and reports
    /// which lines are written to the system ([`Recording::wait_written`],
    /// [`Recording::progress`]).
    #[must_use]
    pub fn begin_ahead(&self, header: &Header) -> Recording {
        self.begin_at(header, RecordingFile::at(self.path(header)).written_ahead())
    }

    fn begin_at(&self, header: &Header, target: RecordingFile) -> Recording {
        let mut recording = Recording::new(self, target, Instant::now(), 0);
        // A lost header is counted like any other line.
        recording.line(0.0, header);
        recording
    }

    fn path(&self, header: &Header) -> PathBuf {
        let day = header.started.get(..10).unwrap_or("undated");
        self.folder.join(day).join(format!("{}.jsonl", header.link))
    }

    /// Returns the folder of all recordings.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps the recording of a lost turn beyond the ordinary limits. Returns its path within the
    /// folder of recordings once everything recorded so far is there. Later lines are added there
    /// too.
    ///
    /// # Errors
    /// The system's error if the recording cannot be kept.
    pub async fn keep(&self, recording: &Path, turn: &str) -> std::io::Result<PathBuf> {
        let name = PathBuf::from(kept_name(turn));
        let (from, to) = (recording.to_owned(), self.folder.join(&name));
        self.request(|reply| RecorderMessage::Keep(from, to, reply)).await?;
        Ok(name)
    }

    /// Sends a message to the thread and waits for its reply.
    async fn request<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<std::io::Result<T>>) -> RecorderMessage,
    ) -> std::io::Result<T> {
        let (reply, done) = oneshot::channel();
        let (sender, message) = (self.sender.clone(), message(reply));
        let gone = || std::io::Error::other("the recordings thread is gone");
        // Sending may block while the disk is slow.
        tokio::task::spawn_blocking(move || sender.send(message))
            .await
            .map_err(std::io::Error::other)?
            .map_err(|_| gone())?;
        done.await.map_err(|_| gone())?
    }

    /// Reads the folder again and removes recordings that are too old or exceed the limits. Returns
    /// the number of removed recordings.
    ///
    /// # Errors
    /// The system's error if the folder cannot be listed.
    pub async fn tidy(&self) -> std::io::Result<usize> {
        self.request(RecorderMessage::Tidy).await
    }

    /// Blocks until everything recorded so far is written to the operating system. Must not be
    /// called on async workers.
    pub fn flush(&self) {
        let (sender, receiver) = mpsc::sync_channel(1);
        if self.sender.send(RecorderMessage::Flush(sender)).is_ok() {
            // An error means that the thread has ended, so there is nothing left to wait for.
            let _ = receiver.recv();
        }
    }
}

#[cfg(test)]
mod tests;
