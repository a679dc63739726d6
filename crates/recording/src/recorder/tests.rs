use std::fs;

use super::recording::MAX_EVENT_BYTES;
use super::*;
use crate::checkpoint::{Checkpoint, CheckpointRefusal, MAX_STATE_BYTES};
use crate::format::{EntryKind, FORMAT, MASKED, ParsedRecording, RecordingEntry};
use crate::tail::RecordingTail;
use aetheel_model::agent::{Action, AgentLine, Input, Pipe, TimedInput};

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
    Input::Line(AgentLine { proc: 1, pipe: Pipe::Stdout, text: text.to_owned(), truncated: false })
}

#[test]
fn a_recording_reads_back_without_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = hiding("sk-canary-value", folder.path());
    let mut recording = recorder.begin(&header("t1"));
    recording
        .input(&TimedInput { at_ms: 1.5, input: from_agent("my key is sk-canary-value\u{1F600}") });
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
    let recorder =
        Recorder::new(folder.path().to_owned(), RecordingLimits::UNLIMITED, Redactor::default());
    let mut recording = recorder.begin(&header("t1"));
    let event = |text: &str| {
        let text = TextEvent { part: 0, text: text.repeat(64 << 10), replace: false, parent: None };
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
    let recorder =
        Recorder::new(folder.path().to_owned(), RecordingLimits::UNLIMITED, Redactor::default());
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
        let checkpoint = Checkpoint::with_state(state).sealed();
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
