//! The thread that writes all recordings.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

use tokio::sync::oneshot;

use super::folder::{RecordingFile, RecordingsFolder};

/// Number of messages after which awaited lines are written even if more messages arrive.
const FLUSH_EVERY: u32 = 256;

pub(super) enum RecorderMessage {
    Line(Arc<RecordingFile>, f64, String),
    /// Continue a cut recording with this checkpoint, before which the link added so many lines.
    Resume(Arc<RecordingFile>, f64, u64, String),
    Close(Arc<RecordingFile>),
    /// Keep the first file under the second name, with everything recorded so far.
    Keep(PathBuf, PathBuf, oneshot::Sender<std::io::Result<()>>),
    Tidy(oneshot::Sender<std::io::Result<usize>>),
    Flush(SyncSender<()>),
}

/// Writes what the senders request, until all of them are dropped.
pub(super) fn write_all(
    receiver: &Receiver<RecorderMessage>,
    backlog: &AtomicUsize,
    mut recordings: RecordingsFolder,
) {
    let (mut failed, mut since_flush) = (false, 0);
    loop {
        let next = match receiver.try_recv() {
            Ok(next) if since_flush < FLUSH_EVERY => Some(next),
            next => {
                since_flush = 0;
                // Waiting links are notified. The error appears again with the next line.
                let _ = recordings.flush_awaited();
                next.ok()
            }
        };
        let Some(message) = next.or_else(|| receiver.recv().ok()) else { return };
        since_flush += 1;
        let result = match message {
            RecorderMessage::Line(target, t, line) => {
                backlog.fetch_sub(1, Ordering::Relaxed);
                recordings.line(&target, t, &line)
            }
            RecorderMessage::Resume(target, t, lines, checkpoint) => {
                recordings.resume_at(&target, t, lines, &checkpoint)
            }
            RecorderMessage::Close(target) => recordings.close(&target),
            RecorderMessage::Keep(from, to, reply_tx) => {
                // The caller may have stopped waiting.
                let _ = reply_tx.send(recordings.keep(&from, &to));
                Ok(())
            }
            RecorderMessage::Tidy(reply_tx) => {
                let _ = reply_tx.send(recordings.tidy());
                Ok(())
            }
            RecorderMessage::Flush(done) => {
                let result = recordings.flush();
                let _ = done.send(());
                result
            }
        };
        match result {
            Ok(()) => failed = false,
            // Logged once until a write succeeds, because every line fails on a full disk.
            Err(error) if !failed => {
                failed = true;
                tracing::warn!(%error, "cannot write recordings; check RECORDINGS_DIR and the disk");
            }
            Err(_) => {}
        }
    }
}
