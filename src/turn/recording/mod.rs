//! Recordings: everything that went into a guest and came out, one JSON object a line.
//!
//! Owns one writer thread, so that a slow disk never holds a turn up: when the thread falls behind,
//! lines are dropped and the next one says how many. What may lie below `RECORDINGS_DIR` is kept by
//! `folder`, with `retention`. The format is described in `docs/recordings.md` and pinned by
//! `a_recording_reads_back`.

mod folder;
mod format;
mod retention;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::time::Instant;

use serde::Serialize;
use tokio::sync::oneshot;

pub use self::folder::RecordingLimits;
use self::folder::{RecordingFile, RecordingsFolder};
pub(super) use self::format::read_numbered;
pub use self::format::{Entry, FORMAT, Header, What, read};
use crate::agent::{Action, Input, TimedInput};
use crate::figures;
use crate::redact::Redactor;
use crate::vigil;

/// Lines that may wait for the disk over all turns.
const BACKLOG: usize = 20_000;
/// Bytes of agent-events that are written down of one turn. The inputs give them again, and take
/// less room.
const EVENTS: usize = 8 << 20;
/// Bytes of a recording after which a long-lived link is better replaced by a fresh one.
const LONG: u64 = 64 << 20;

/// [`What::In`] without a copy of the input.
#[derive(Serialize)]
struct InLine<'a> {
    t: f64,
    #[serde(rename = "in")]
    input: &'a Input,
}

/// [`What::Out`] without a copy of the action.
#[derive(Serialize)]
struct OutLine<'a> {
    t: f64,
    #[serde(rename = "out")]
    action: &'a Action,
}

enum Message {
    Line(Arc<RecordingFile>, f64, String),
    Close(Arc<RecordingFile>),
    /// Keep the first as the second, with everything recorded so far.
    Keep(PathBuf, PathBuf, oneshot::Sender<std::io::Result<()>>),
    Tidy(oneshot::Sender<std::io::Result<usize>>),
    Flush(SyncSender<()>),
}

/// Writes recordings. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    folder: PathBuf,
    limits: RecordingLimits,
    redactor: Redactor,
    sender: SyncSender<Message>,
}

impl Recorder {
    /// Starts the writer thread. The folder is made on the first recording, readable by the owner
    /// only, and never has more in it than there is room.
    #[must_use]
    pub fn new(folder: PathBuf, limits: RecordingLimits, redactor: Redactor) -> Self {
        let (sender, receiver) = mpsc::sync_channel(BACKLOG);
        let below = folder.clone();
        let spawned = vigil::thread("recordings", move || {
            write_all(&receiver, RecordingsFolder::of(below, limits))
        });
        if let Err(error) = spawned {
            tracing::error!(%error, "cannot start the recordings thread; nothing is recorded");
        }
        Self { folder, limits, redactor, sender }
    }

    /// Begins the recording of a link.
    #[must_use]
    pub fn begin(&self, header: &Header) -> Recording {
        let day = header.started.get(..10).unwrap_or("undated");
        let path = self.folder.join(day).join(format!("{}.jsonl", header.link));
        let target = RecordingFile::at(path);
        let mut recording = Recording {
            recorder: self.clone(),
            target,
            opened: Instant::now(),
            lost: 0,
            bytes: 0,
            events: 0,
        };
        // A lost header is counted like any other line.
        recording.line(0.0, header);
        recording
    }

    /// The folder of all recordings.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps the recording of a turn that was lost beyond the ordinary pruning. Returns where,
    /// below the folder of recordings, once everything recorded so far is there; what follows comes
    /// there too.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub async fn keep(&self, recording: &Path, turn: &str) -> std::io::Result<PathBuf> {
        let name = Path::new(retention::FOLDER).join(format!("{turn}.jsonl"));
        let (reply_tx, done) = oneshot::channel();
        let (sender, message) = (
            self.sender.clone(),
            Message::Keep(recording.to_owned(), self.folder.join(&name), reply_tx),
        );
        let gone = |_| std::io::Error::other("the recordings thread is gone");
        // It waits while the disk is slow.
        tokio::task::spawn_blocking(move || sender.send(message))
            .await
            .map_err(std::io::Error::other)?
            .map_err(|_| gone(()))?;
        done.await.map_err(|_| gone(()))??;
        Ok(name)
    }

    /// Removes what is older than it may be; what lies in the folder is counted anew. Returns how
    /// many recordings went.
    ///
    /// # Errors
    /// When the folder cannot be looked through.
    pub async fn tidy(&self) -> std::io::Result<usize> {
        let (reply_tx, done) = oneshot::channel();
        let (sender, gone) =
            (self.sender.clone(), || std::io::Error::other("the recordings thread is gone"));
        // It waits while the disk is slow.
        tokio::task::spawn_blocking(move || sender.send(Message::Tidy(reply_tx)))
            .await
            .map_err(std::io::Error::other)?
            .map_err(|_| gone())?;
        done.await.map_err(|_| gone())?
    }

    /// Blocks until everything recorded so far is with the operating system. Not for async workers.
    pub fn flush(&self) {
        let (sender, receiver) = mpsc::sync_channel(1);
        if self.sender.send(Message::Flush(sender)).is_ok() {
            // An error means that the thread is gone; there is nothing left to wait for.
            let _ = receiver.recv();
        }
    }
}

/// The recording of one link; closed when dropped.
pub struct Recording {
    recorder: Recorder,
    target: Arc<RecordingFile>,
    opened: Instant,
    lost: u64,
    bytes: u64,
    /// Bytes of agent-events written down since the last turn began.
    events: usize,
}

impl Recording {
    /// Milliseconds since the link was opened.
    #[must_use]
    pub fn now(&self) -> f64 {
        // Whole microseconds: enough, and short in JSON.
        (self.opened.elapsed().as_micros() as f64) / 1000.0
    }

    /// Hides these words in everything from now on.
    pub fn hide<'a>(&mut self, words: impl IntoIterator<Item = &'a String>) {
        self.recorder.redactor = self.recorder.redactor.and(words);
    }

    /// Adds an input.
    pub fn input(&mut self, input: &TimedInput) {
        self.line(input.at_ms, &InLine { t: input.at_ms, input: &input.input });
    }

    /// Adds an action; returns how many bytes it has when written down. Of a turn's agent-events
    /// only so many are.
    pub fn action(&mut self, action: &Action) -> usize {
        let t = self.now();
        let line = OutLine { t, action };
        if !matches!(action, Action::Event(_)) {
            return self.line(t, &line);
        }
        if self.events > EVENTS {
            return serde_json::to_string(&line).map_or(0, |text| text.len());
        }
        let size = self.line(t, &line);
        self.events += size;
        if self.events > EVENTS {
            let what = format!(
                "events are not written down any more: {} MiB of them were; the inputs give them again",
                EVENTS >> 20
            );
            self.line(t, &Entry { t, what: What::Host(what) });
        }
        size
    }

    /// Adds what the host did.
    pub fn host(&mut self, what: What) {
        let t = self.now();
        if matches!(what, What::Turn { .. }) {
            self.events = 0;
        }
        self.line(t, &Entry { t, what });
    }

    /// Adds a line, or counts it as lost when the disk is too slow; returns its bytes.
    fn line(&mut self, t: f64, line: &impl Serialize) -> usize {
        if self.lost > 0 && self.send(t, &Entry { t, what: What::Lost(self.lost) }).is_ok() {
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

    /// Whether what comes next had better stand in a recording of its own: this one is long, or had
    /// no room for more.
    #[must_use]
    pub fn is_long(&self) -> bool {
        let most = self.recorder.limits.of_one() / 2;
        self.target.full.load(Ordering::Relaxed) || (most > 0 && self.bytes > LONG.min(most))
    }

    /// Where it is written.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.target.path
    }

    /// The line's bytes, as an error when it was not taken.
    fn send(&mut self, t: f64, line: &impl Serialize) -> Result<usize, usize> {
        let Ok(text) = serde_json::to_string(line) else { return Err(0) };
        let size = text.len();
        let message =
            Message::Line(Arc::clone(&self.target), t, self.recorder.redactor.clean(text));
        if matches!(self.recorder.sender.try_send(message), Err(TrySendError::Full(_))) {
            Err(size)
        } else {
            Ok(size)
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // When even this does not fit, it is closed when the folder is tidied.
        let _ = self.recorder.sender.try_send(Message::Close(Arc::clone(&self.target)));
    }
}

fn write_all(receiver: &mpsc::Receiver<Message>, mut recordings: RecordingsFolder) {
    let mut failed = false;
    while let Ok(message) = receiver.recv() {
        let result = match message {
            Message::Line(target, t, line) => recordings.line(&target, t, &line),
            Message::Close(target) => recordings.close(&target),
            Message::Keep(from, to, reply_tx) => {
                // The caller may be gone.
                let _ = reply_tx.send(recordings.keep(&from, &to));
                Ok(())
            }
            Message::Tidy(reply_tx) => {
                let _ = reply_tx.send(recordings.tidy());
                Ok(())
            }
            Message::Flush(done) => {
                let result = recordings.flush();
                let _ = done.send(());
                result
            }
        };
        match result {
            Ok(()) => failed = false,
            // Said once a disturbance: a full disk fails every line.
            Err(error) if !failed => {
                failed = true;
                tracing::warn!(%error, "cannot write recordings; check RECORDINGS_DIR and the disk");
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::agent::{Line, Pipe};

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

    fn ending() -> What {
        What::Ending { turn: "t1".into(), how: "completed".into() }
    }

    #[test]
    fn a_recording_reads_back_without_its_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let secret = "sk-canary-value".to_owned().into();
        let recorder = Recorder::new(
            folder.path().to_owned(),
            RecordingLimits::ENDLESS,
            Redactor::new([&secret]),
        );
        let mut recording = recorder.begin(&header("t1"));
        let line = |text: &str| {
            Input::Line(Line { proc: 1, pipe: Pipe::Stdout, text: text.into(), truncated: false })
        };
        recording
            .input(&TimedInput { at_ms: 1.5, input: line("my key is sk-canary-value\u{1F600}") });
        recording.action(&Action::CloseStdin(1));
        recording.host(ending());
        let path = recording.path().to_owned();
        drop(recording);
        recorder.flush();
        let (read_header, entries) = read(&fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(read_header, header("t1"));
        assert_eq!(entries[0], Entry { t: 1.5, what: What::In(line("my key is ***\u{1F600}")) });
        assert_eq!(entries[1].what, What::Out(Action::CloseStdin(1)));
        assert_eq!(entries[2].what, ending());
    }

    #[test]
    fn a_damaged_recording_names_its_line() {
        assert!(read("").unwrap_err().contains("empty"));
        assert!(read("{}").unwrap_err().contains("line 1"));
        let good = serde_json::to_string(&header("t")).unwrap();
        assert!(
            read(&format!("{good}\n{{\"t\":1,\"nonsense\":2}}")).unwrap_err().starts_with("line 2")
        );
        assert!(
            read(&good.replace("\"aetheel-recording\":1", "\"aetheel-recording\":9"))
                .unwrap_err()
                .contains("format 9")
        );
    }

    #[test]
    fn a_flood_of_events_is_written_down_in_part_and_says_so() {
        use crate::agent::{AgentEvent, EventKind, Text};
        let folder = tempfile::tempdir().unwrap();
        let recorder =
            Recorder::new(folder.path().to_owned(), RecordingLimits::ENDLESS, Redactor::default());
        let mut recording = recorder.begin(&header("t1"));
        let event = |text: &str| {
            let text = Text { part: 0, text: text.repeat(64 << 10), replace: false, parent: None };
            Action::Event(AgentEvent { session: 1, turn: 1, kind: EventKind::Text(text) })
        };
        let turn = || What::Turn {
            turn: "t1".into(),
            event: 1,
            lane: "console".into(),
            session: 1,
            key: 1,
        };
        recording.host(turn());
        for _ in 0..1_000 {
            assert!(recording.action(&event("x")) > 64 << 10, "it counts all the same");
        }
        recording.action(&Action::CloseStdin(1));
        recording.host(turn());
        recording.action(&event("y"));
        let path = recording.path().to_owned();
        drop(recording);
        recorder.flush();
        let text = fs::read_to_string(path).unwrap();
        assert!(text.len() < EVENTS * 11 / 10, "{}", text.len());
        let (_, entries) = read(&text).unwrap();
        assert_eq!(entries.iter().filter(|entry| matches!(&entry.what, What::Host(what) if what.starts_with("events are not"))).count(), 1);
        let [.., close, _, last] = &entries[..] else { panic!("{} entries", entries.len()) };
        assert_eq!(close.what, What::Out(Action::CloseStdin(1)));
        assert_eq!(last.what, What::Out(event("y")), "the next turn begins anew");
    }
}
