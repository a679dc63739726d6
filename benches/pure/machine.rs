//! The step viewer with a recording of 64 MiB: opening it, and rendering a turn up to a step.

use std::fs::File;
use std::io::Write as _;

use aetheel_kit::step_viewer::TurnSteps;
use aetheel_model::agent::{Action, AgentEvent, AgentEventKind, AgentLine, Input, Pipe, TextEvent};
use aetheel_model::fold::Transcript;
use aetheel_recording::{EntryKind, FORMAT, Header, RecordingEntry};
use divan::{Bencher, black_box};

/// Bytes of the recording.
const SIZE: usize = 64 << 20;
/// Bytes of one line of the agent.
const LINE: usize = 1_000;

fn recording() -> File {
    let header = Header {
        aetheel_recording: FORMAT,
        link: "ab12".to_owned(),
        backend: "claude".to_owned(),
        backend_version: "1".to_owned(),
        generation: 1,
        digest: "0".repeat(64),
        agent_version: None,
        started: "2026-11-23T10:00:00Z".to_owned(),
    };
    let mut text = serde_json::to_string(&header).unwrap() + "\n";
    let add = |text: &mut String, what: EntryKind| {
        text.push_str(&serde_json::to_string(&RecordingEntry { t: 1.0, kind: what }).unwrap());
        text.push('\n');
    };
    let (turn, lane) = ("ab12".to_owned(), "console".to_owned());
    add(&mut text, EntryKind::Turn { turn: turn.clone(), event: 1, lane, session: 1, key: 1 });
    while text.len() < SIZE {
        let said = format!("{{\"type\":\"text\",\"text\":\"{}\"}}", "x".repeat(LINE));
        let line = AgentLine { proc: 1, pipe: Pipe::Stdout, text: said, truncated: false };
        add(&mut text, EntryKind::In(Input::Line(line)));
        let piece = TextEvent { part: 0, text: "word ".to_owned(), replace: false, parent: None };
        let kind = AgentEventKind::Text(piece);
        add(&mut text, EntryKind::Out(Action::Event(AgentEvent { session: 1, turn: 1, kind })));
    }
    add(&mut text, EntryKind::Ending { turn, how: "completed".to_owned() });
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn machine_opens(bencher: Bencher<'_, '_>) {
    let file = recording();
    bencher.bench_local(|| TurnSteps::open(file.try_clone().unwrap(), "ab12").unwrap().len());
}

#[divan::bench(args = [1, 5_000, 50_000], sample_count = 10, sample_size = 1)]
fn machine_renders_up_to(bencher: Bencher<'_, '_>, step: usize) {
    let film = TurnSteps::open(recording(), "ab12").unwrap();
    bencher.bench_local(|| {
        let mut transcript = Transcript::default();
        film.actions(step, |action| {
            if let Action::Event(event) = action {
                transcript.apply(&event.kind);
            }
        })
        .unwrap();
        black_box(film.read(step.min(film.len() - 1)).unwrap());
        transcript.text().len()
    });
}
