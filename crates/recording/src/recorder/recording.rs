//! The recording of one link, line by line.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Instant;

use serde::Serialize;
use tokio::sync::watch;

use super::Recorder;
use super::folder::RecordingFile;
use super::writer::RecorderMessage;
use crate::checkpoint::{Checkpoint, CheckpointLine, CheckpointRefusal, MAX_STATE_BYTES};
use crate::format::{EntryKind, MASKED, RecordingEntry, SPARSE};
use aetheel_model::agent::{Action, Input, TimedInput};
use aetheel_runtime::figures;

/// Maximum number of lines of all turns that wait for the disk. Lines that are written ahead count,
/// but are never dropped.
const MAX_BACKLOG_LINES: usize = 20_000;
/// Maximum size of the recorded agent events of one turn, in bytes. The inputs are smaller and
/// contain the same information.
pub(super) const MAX_EVENT_BYTES: usize = 8 << 20;
/// Size of a recording, in bytes, after which a long-lived link should be replaced.
const ROTATE_BYTES: u64 = 64 << 20;

/// [`EntryKind::In`] without a copy of the input.
#[derive(Serialize)]
struct InLine<'a> {
    t: f64,
    #[serde(rename = "in")]
    input: &'a Input,
}

/// [`EntryKind::Out`] without a copy of the action.
#[derive(Serialize)]
struct OutLine<'a> {
    t: f64,
    #[serde(rename = "out")]
    action: &'a Action,
}

/// The recording of one link. Dropping it closes the recording.
pub struct Recording {
    recorder: Recorder,
    target: Arc<RecordingFile>,
    opened: Instant,
    lost: u64,
    bytes: u64,
    /// The number of lines that this process sent to the thread.
    sent: u64,
    /// The size of the agent events recorded since the last turn began, in bytes.
    events: usize,
    /// Whether a secret was removed from the last line.
    masked: bool,
    /// Whether the recording contains the line [`MASKED`] after its last checkpoint.
    says_masked: bool,
}

impl Recording {
    /// Begins or continues a recording of a link that was opened at `opened`. The file has `bytes`
    /// bytes.
    pub(super) fn new(
        recorder: &Recorder,
        target: RecordingFile,
        opened: Instant,
        bytes: u64,
    ) -> Self {
        Self {
            recorder: recorder.clone(),
            target: Arc::new(target),
            opened,
            lost: 0,
            bytes,
            sent: 0,
            events: 0,
            masked: false,
            says_masked: false,
        }
    }

    /// Returns the time since the link was opened, in milliseconds.
    #[must_use]
    pub fn now(&self) -> f64 {
        // Whole microseconds are precise enough and short in JSON.
        (self.opened.elapsed().as_micros() as f64) / 1000.0
    }

    /// Removes these words from all later lines.
    pub fn hide<'a>(&mut self, words: impl IntoIterator<Item = &'a String>) {
        self.recorder.redactor = self.recorder.redactor.with_words(words);
    }

    /// Adds an input.
    pub fn input(&mut self, input: &TimedInput) {
        self.line(input.at_ms, &InLine { t: input.at_ms, input: &input.input });
        if self.masked && self.is_ahead() && !std::mem::replace(&mut self.says_masked, true) {
            self.host(EntryKind::Host(MASKED.to_owned()));
        }
    }

    /// Returns whether lines are written before the link acts because of them.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.target.written.is_some()
    }

    /// Returns the number of lines that this process added, to compare with
    /// [`Recording::progress`].
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of these lines that are written to the system, if the recording is
    /// written ahead. It is `u64::MAX` once the recording is cut.
    #[must_use]
    pub fn progress(&self) -> Option<watch::Receiver<u64>> {
        self.target.written.as_ref().map(watch::Sender::subscribe)
    }

    /// Waits until everything added so far is written to the system, if the recording is written
    /// ahead.
    pub async fn wait_written(&self) {
        let Some(mut written) = self.progress() else { return };
        let sent = self.sent;
        // The sender is not dropped before `self`.
        let _ = written.wait_for(|written| *written >= sent).await;
    }

    /// Adds an action and returns its size in bytes. Beyond [`MAX_EVENT_BYTES`], agent events of a
    /// turn are only measured.
    pub fn action(&mut self, action: &Action) -> usize {
        let t = self.now();
        let line = OutLine { t, action };
        if !matches!(action, Action::Event(_)) {
            return self.line(t, &line);
        }
        if self.events > MAX_EVENT_BYTES {
            return serde_json::to_string(&line).map_or(0, |text| text.len());
        }
        let size = self.line(t, &line);
        self.events += size;
        if self.events > MAX_EVENT_BYTES {
            self.line(t, &RecordingEntry { t, kind: EntryKind::Host(SPARSE.to_owned()) });
        }
        size
    }

    /// Adds a line about the host.
    pub fn host(&mut self, what: EntryKind) {
        let t = self.now();
        if matches!(what, EntryKind::Turn { .. }) {
            self.events = 0;
        }
        self.line(t, &RecordingEntry { t, kind: what });
    }

    /// Adds a checkpoint and returns its size in bytes.
    ///
    /// # Errors
    /// [`CheckpointRefusal`], and nothing is added.
    pub fn checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<usize, CheckpointRefusal> {
        let size = checkpoint.guest.state.len();
        if size > MAX_STATE_BYTES {
            return Err(CheckpointRefusal::TooLarge(size));
        }
        let t = self.now();
        let Ok(text) = serde_json::to_string(&CheckpointLine::new(t, checkpoint)) else {
            return Err(CheckpointRefusal::Full);
        };
        // Beyond that size, the link ends anyway.
        let most = self.recorder.limits.max_recording_bytes() / 2;
        let is_full = most > 0 && self.bytes + text.len() as u64 > most;
        if self.target.full.load(Ordering::Relaxed) || is_full {
            return Err(CheckpointRefusal::Full);
        }
        let before = text.as_ptr();
        let text = self.recorder.redactor.redact(text);
        if text.as_ptr() != before {
            return Err(CheckpointRefusal::Secret);
        }
        let size = text.len();
        if self.target.cut.load(Ordering::Relaxed) {
            // The disk may have space again.
            let target = Arc::clone(&self.target);
            let message = RecorderMessage::Resume(target, t, self.sent, text);
            self.sent += 1;
            let _ = self.recorder.sender.send(message);
        } else {
            self.push(t, text);
        }
        self.bytes += size as u64;
        self.says_masked = false;
        Ok(size)
    }

    /// Returns the size of the recording so far, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a line, or counts it as lost if the disk is too slow. Returns its size in bytes.
    pub(super) fn line(&mut self, t: f64, line: &impl Serialize) -> usize {
        if self.lost > 0
            && self.send(t, &RecordingEntry { t, kind: EntryKind::Lost(self.lost) }).is_ok()
        {
            self.lost = 0;
        }
        let size = self.send(t, line).unwrap_or_else(|size| {
            self.lost += 1;
            figures::recording_dropped(size as u64);
            size
        });
        self.bytes += size as u64;
        size
    }

    /// Returns whether later turns should use another recording, because this one is long or was
    /// cut for lack of space.
    #[must_use]
    pub fn should_rotate(&self) -> bool {
        let most = self.recorder.limits.max_recording_bytes() / 2;
        self.target.full.load(Ordering::Relaxed)
            || (most > 0 && self.bytes > ROTATE_BYTES.min(most))
    }

    /// Returns the path of the recording.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.target.path
    }

    /// Makes the thread write what was added so far, so that a kill does not lose it. Does not wait.
    pub fn write_soon(&self) {
        if !self.is_ahead() {
            // Nothing waits for the thread, and if it is gone, nothing is recorded.
            let _ = self.recorder.sender.send(RecorderMessage::Flush(mpsc::sync_channel(1).0));
        }
    }

    /// Sends a line to the thread. Returns its size in bytes, as an error if it was dropped.
    fn send(&mut self, t: f64, line: &impl Serialize) -> Result<usize, usize> {
        let Ok(text) = serde_json::to_string(line) else { return Err(0) };
        let (size, before) = (text.len(), text.as_ptr());
        if !self.is_ahead() && self.recorder.backlog.load(Ordering::Relaxed) >= MAX_BACKLOG_LINES {
            return Err(size);
        }
        let text = self.recorder.redactor.redact(text);
        // The redactor returns the same allocation if it removed nothing.
        self.masked = text.as_ptr() != before;
        self.push(t, text);
        Ok(size)
    }

    /// Sends a line without secrets to the thread.
    fn push(&mut self, t: f64, text: String) {
        self.recorder.backlog.fetch_add(1, Ordering::Relaxed);
        self.sent += 1;
        let line = RecorderMessage::Line(Arc::clone(&self.target), t, text);
        if self.recorder.sender.send(line).is_err() {
            // Without the thread nothing is recorded; the start reported that.
            self.target.end();
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.recorder.sender.send(RecorderMessage::Close(Arc::clone(&self.target)));
    }
}
