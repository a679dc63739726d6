//! Writes recordings.
//!
//! One thread writes all recordings, so that a slow disk never delays a turn: if the thread falls
//! behind, lines are dropped, and the next line has their number. Recordings that are *written
//! ahead* lose no line: their link waits instead until a line is written, before it acts because of
//! the line. `folder` and `retention` enforce the limits of `RECORDINGS_DIR`.

mod folder;
mod recent;
mod retention;
mod writer;

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::{oneshot, watch};

pub use self::folder::RecordingLimits;
use self::folder::{RecordingFile, RecordingsFolder};
pub use self::recent::RecordedHandOff;
use self::writer::{RecorderMessage, write_all};
use crate::checkpoint::{Checkpoint, CheckpointLine, CheckpointRefusal, MAX_STATE_BYTES};
use crate::format::{EntryKind, Header, MASKED, ReadError, RecordingEntry, SPARSE};
use aetheel_model::agent::{Action, Input, TimedInput};
use aetheel_model::redact::Redactor;
use aetheel_runtime::figures;
use aetheel_runtime::supervisor;

/// Maximum number of lines of all turns that wait for the disk. Lines that are written ahead count,
/// but are never dropped.
const MAX_BACKLOG_LINES: usize = 20_000;
/// Maximum size of the recorded agent events of one turn, in bytes. The inputs are smaller and
/// contain the same information.
const MAX_EVENT_BYTES: usize = 8 << 20;
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

/// The time of any line.
#[derive(Deserialize)]
struct RecordingTime {
    t: f64,
}

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
        let mut recording = self.recording(target, Instant::now());
        // A lost header is counted like any other line.
        recording.line(0.0, header);
        recording
    }

    /// Continues a recording that a previous gateway process wrote ahead, and returns its header and
    /// its text. An incomplete last line is removed. The lines between the header and the last one
    /// are not parsed ([`RecordingTail::parse`](crate::RecordingTail::parse)). Blocks.
    ///
    /// # Errors
    /// [`ResumeError`] if the file cannot be read or changed, or is not a recording.
    pub fn resume(&self, path: &Path) -> Result<(Recording, Header, String), ResumeError> {
        let bytes = std::fs::read(path)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < bytes.len() {
            std::fs::OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
        }
        // Damaged lines before a checkpoint are not needed.
        let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
        let header = Header::parse(text.lines().next().ok_or(ReadError::Empty)?.as_bytes())?;
        let last = text.lines().skip(1).last().map(serde_json::from_str::<RecordingTime>);
        let last = last.and_then(Result::ok).map_or(0.0, |last| last.t.max(0.0));
        let started: jiff::Timestamp = header.started.parse().map_err(|_| ResumeError::Undated)?;
        // The link's time never goes backwards, even if the system clock did.
        let since = jiff::Timestamp::now().duration_since(started).as_secs_f64();
        let since = Duration::try_from_secs_f64(since.max(last / 1000.0)).unwrap_or_default();
        let opened = Instant::now().checked_sub(since).ok_or(ResumeError::Undated)?;
        let target = RecordingFile::at(path.to_owned()).written_ahead().continued();
        let mut recording = self.recording(target, opened);
        recording.bytes = whole as u64;
        Ok((recording, header, text))
    }

    fn path(&self, header: &Header) -> PathBuf {
        let day = header.started.get(..10).unwrap_or("undated");
        self.folder.join(day).join(format!("{}.jsonl", header.link))
    }

    fn recording(&self, target: RecordingFile, opened: Instant) -> Recording {
        Recording {
            recorder: self.clone(),
            target: Arc::new(target),
            opened,
            lost: 0,
            bytes: 0,
            sent: 0,
            events: 0,
            masked: false,
            says_masked: false,
        }
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

/// Returns the recordings of a folder that were written to last, the newest first, without those of
/// lost turns. Blocks.
///
/// # Errors
/// The system's error if the folder cannot be listed.
pub fn newest(folder: &Path, most: usize) -> std::io::Result<Vec<PathBuf>> {
    let mut found = retention::recordings(folder, std::time::SystemTime::now())?;
    found.sort_by(|(one, _, first), (other, _, second)| (other, second).cmp(&(one, first)));
    Ok(found.into_iter().take(most).map(|(_, _, path)| path).collect())
}

/// Returns the name of the kept recording of a lost turn in the folder of recordings.
#[must_use]
pub fn kept_name(turn: &str) -> String {
    format!("{}/{turn}.jsonl", retention::LOST_FOLDER)
}

/// Returns the path of a recording in a folder, or `None` if the name is not valid for a recording
/// or leads out of the folder. The recording may not exist. Blocks briefly.
#[must_use]
pub fn path_in(folder: &Path, name: &str) -> Option<PathBuf> {
    let relative = Path::new(name);
    let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    let is_named = relative.extension().is_some_and(|extension| extension == "jsonl");
    if !plain || !is_named || name.contains('\0') {
        return None;
    }
    let path = folder.join(relative);
    // A symbolic link must not lead out of the folder. A missing file cannot.
    match (path.canonicalize(), folder.canonicalize()) {
        (Ok(real), Ok(folder)) if !real.starts_with(&folder) => None,
        _ => Some(path),
    }
}

/// The reason why a recording cannot be continued.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The system's error.
    #[error("its recording cannot be read or written")]
    Io(#[from] std::io::Error),
    /// A line cannot be parsed.
    #[error("its recording is damaged")]
    Unreadable(#[from] ReadError),
    /// Its start time is missing, or before the machine started.
    #[error("its recording has no valid start time")]
    Undated,
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
        let size = checkpoint.state.len();
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
    fn line(&mut self, t: f64, line: &impl Serialize) -> usize {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::format::{FORMAT, ParsedRecording};
    use crate::tail::RecordingTail;
    use aetheel_model::agent::{AgentLine, Pipe};

    fn header(link: &str) -> Header {
        Header {
            aetheel_recording: FORMAT,
            link: link.into(),
            backend: "demo".into(),
            backend_version: "1".into(),
            generation: 1,
            digest: "00".into(),
            agent_version: None,
            started: "2026-01-02T03:04:05Z".into(),
        }
    }

    fn read(path: &Path) -> ParsedRecording {
        ParsedRecording::read(&fs::read_to_string(path).unwrap()).unwrap()
    }

    fn ending() -> EntryKind {
        EntryKind::Ending { turn: "t1".into(), how: "completed".into() }
    }

    fn hiding(secret: &str, folder: &Path) -> Recorder {
        let redactor = Redactor::new([&secret.to_owned().into()]);
        Recorder::new(folder.to_owned(), RecordingLimits::UNLIMITED, redactor)
    }

    fn from_agent(text: &str) -> Input {
        Input::Line(AgentLine {
            proc: 1,
            pipe: Pipe::Stdout,
            text: text.to_owned(),
            truncated: false,
        })
    }

    #[test]
    fn a_recording_reads_back_without_its_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = hiding("sk-canary-value", folder.path());
        let mut recording = recorder.begin(&header("t1"));
        recording.input(&TimedInput {
            at_ms: 1.5,
            input: from_agent("my key is sk-canary-value\u{1F600}"),
        });
        recording.action(&Action::CloseStdin(1));
        recording.host(ending());
        let path = recording.path().to_owned();
        drop(recording);
        recorder.flush();
        let ParsedRecording { header: read_header, entries, .. } = read(&path);
        assert_eq!(read_header, header("t1"));
        assert_eq!(
            entries[0],
            RecordingEntry { t: 1.5, kind: EntryKind::In(from_agent("my key is ***\u{1F600}")) }
        );
        assert_eq!(entries[1].kind, EntryKind::Out(Action::CloseStdin(1)));
        assert_eq!(entries[2].kind, ending());
    }

    #[test]
    fn a_damaged_recording_names_its_line() {
        let error = |text: &str| ParsedRecording::read(text).unwrap_err().to_string();
        assert!(error("").contains("empty"));
        assert!(error("{}").contains("line 1"));
        let good = serde_json::to_string(&header("t")).unwrap();
        assert!(error(&format!("{good}\n{{\"t\":1,\"nonsense\":2}}")).starts_with("line 2"));
        let newer = good.replace("\"aetheel-recording\":1", "\"aetheel-recording\":9");
        assert!(error(&newer).contains("format 9"));
    }

    #[test]
    fn a_flood_of_events_is_recorded_in_part_with_a_note() {
        use aetheel_model::agent::{AgentEvent, AgentEventKind, TextEvent};
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(
            folder.path().to_owned(),
            RecordingLimits::UNLIMITED,
            Redactor::default(),
        );
        let mut recording = recorder.begin(&header("t1"));
        let event = |text: &str| {
            let text =
                TextEvent { part: 0, text: text.repeat(64 << 10), replace: false, parent: None };
            Action::Event(AgentEvent { session: 1, turn: 1, kind: AgentEventKind::Text(text) })
        };
        let turn = || EntryKind::Turn {
            turn: "t1".into(),
            event: 1,
            lane: "console".into(),
            session: 1,
            key: 1,
        };
        recording.host(turn());
        for _ in 0..1_000 {
            assert!(recording.action(&event("x")) > 64 << 10, "unrecorded events count too");
        }
        recording.action(&Action::CloseStdin(1));
        recording.host(turn());
        recording.action(&event("y"));
        let path = recording.path().to_owned();
        drop(recording);
        recorder.flush();
        let bytes = fs::metadata(&path).unwrap().len() as usize;
        assert!(bytes < MAX_EVENT_BYTES * 11 / 10, "{bytes}");
        let ParsedRecording { entries, .. } = read(&path);
        assert_eq!(entries.iter().filter(|entry| matches!(&entry.kind, EntryKind::Host(what) if what.starts_with("events are not"))).count(), 1);
        let [.., close, _, last] = &entries[..] else { panic!("{} entries", entries.len()) };
        assert_eq!(close.kind, EntryKind::Out(Action::CloseStdin(1)));
        assert_eq!(last.kind, EntryKind::Out(event("y")), "the next turn has its own limit");
    }

    #[tokio::test]
    async fn a_recording_written_ahead_reports_its_progress_and_can_be_continued() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(
            folder.path().to_owned(),
            RecordingLimits::UNLIMITED,
            Redactor::default(),
        );
        let now = jiff::Timestamp::now().to_string();
        let mut recording = recorder.begin_ahead(&Header { started: now, ..header("t1") });
        let path = recording.path().to_owned();
        for count in 1..=600_u32 {
            recording.host(EntryKind::Host(format!("line {count}")));
            if count % 100 == 0 {
                recording.wait_written().await;
                let text = fs::read_to_string(&path).unwrap();
                assert_eq!(text.lines().count(), count as usize + 1);
            }
        }
        let last = recording.now();
        drop(recording);
        recorder.flush();
        // The gateway was killed in the middle of a line.
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str(r#"{"t":1,"ho"#);
        fs::write(&path, &text).unwrap();
        let (mut recording, header, text) = recorder.resume(&path).unwrap();
        assert_eq!((header.link.as_str(), text.lines().count()), ("t1", 601));
        assert!(recording.now() >= last, "its time continues");
        recording.host(EntryKind::Host("further".to_owned()));
        recording.wait_written().await;
        let ParsedRecording { entries, .. } = read(&path);
        assert_eq!(entries.last().unwrap().kind, EntryKind::Host("further".to_owned()));
        assert_eq!(entries.len(), 601);
    }

    #[tokio::test]
    async fn with_recordings_disabled_a_link_does_not_wait_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let none = RecordingLimits { bytes: 0, ..RecordingLimits::UNLIMITED };
        let recorder = Recorder::new(folder.path().to_owned(), none, Redactor::default());
        let mut recording = recorder.begin_ahead(&header("t1"));
        recording.host(ending());
        recording.wait_written().await;
        assert_eq!(*recording.progress().unwrap().borrow(), u64::MAX);
        assert!(recorder.resume(recording.path()).is_err());
    }

    #[test]
    fn a_checkpoint_with_a_secret_or_a_large_state_is_not_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let mut recording = hiding("sk-canary-value", folder.path()).begin_ahead(&header("t1"));
        let mut add = |state: String| {
            let checkpoint = Checkpoint { state, ..Checkpoint::default() }.sealed();
            recording.checkpoint(&checkpoint)
        };
        let secret = add("its key is sk-canary-value".to_owned());
        assert!(matches!(secret, Err(CheckpointRefusal::Secret)));
        let large = add("x".repeat(MAX_STATE_BYTES + 1));
        assert!(matches!(large, Err(CheckpointRefusal::TooLarge(_))));
        assert!(add("plain".to_owned()).is_ok());
    }

    #[test]
    fn a_masked_input_after_a_checkpoint_is_marked_again() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = hiding("sk-canary-value", folder.path());
        let mut recording = recorder.begin_ahead(&header("t1"));
        let masked = TimedInput { at_ms: 1.0, input: from_agent("with sk-canary-value") };
        recording.input(&masked);
        recording.checkpoint(&Checkpoint::default().sealed()).unwrap();
        recording.input(&masked);
        let path = recording.path().to_owned();
        drop(recording);
        recorder.flush();
        let text = fs::read_to_string(&path).unwrap();
        let marks = |text: &str| text.lines().filter(|line| line.contains(MASKED)).count();
        assert_eq!(marks(&text), 2);
        assert_eq!(marks(&text[RecordingTail::positions(&text)[0]..]), 1);
    }

    #[test]
    fn an_input_with_a_secret_marks_a_recording_that_is_written_ahead() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = hiding("sk-canary-value", folder.path());
        let mut recording = recorder.begin_ahead(&header("t1"));
        recording.host(EntryKind::Host("sk-canary-value in what the host did".to_owned()));
        for text in ["plain", "with sk-canary-value", "plain", "again sk-canary-value"] {
            recording.input(&TimedInput { at_ms: 1.0, input: from_agent(text) });
        }
        let path = recording.path().to_owned();
        drop(recording);
        recorder.flush();
        let ParsedRecording { entries, .. } = read(&path);
        let marks = entries.iter().filter(|entry| entry.kind == EntryKind::Host(MASKED.to_owned()));
        assert_eq!(marks.count(), 1);
    }
}
