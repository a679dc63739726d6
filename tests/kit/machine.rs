//! Tests of stepping through recorded turns: recordings of a shipped backend as a gateway writes
//! them, and recordings that are damaged, truncated or contain several turns.

use std::path::Path;
use std::sync::Arc;

use aetheel_kit::step_viewer::{
    STEPS, StepSearch, StepSign, StepViewer, StepViewerError, TurnSteps,
};
use aetheel_model::agent::{
    Action, AgentEvent, AgentEventKind, AgentLine, HostCommand, Input, Pipe, Safety, StartTurn,
    TextEvent, TurnDone, Unrecognised,
};
use aetheel_model::agent::{TurnOutcome, TurnRef};
use aetheel_model::fold::Transcript;
use aetheel_model::limits::ResourceLimits;
use aetheel_model::redact::Redactor;
use aetheel_recording::replay::{Batches, replay};
use aetheel_recording::{EntryKind, FORMAT, Header, Recorder, RecordingEntry, RecordingLimits};
use aetheel_turn::Backends as _;
use aetheel_wasm::{Engine, Registry, RegistryOptions};

use crate::support::built;
use crate::support::recordings::{cases, name};

fn header() -> Header {
    Header {
        aetheel_recording: FORMAT,
        link: "ab12".to_owned(),
        backend: "claude".to_owned(),
        backend_version: "1".to_owned(),
        generation: 1,
        digest: "0".repeat(64),
        agent_version: None,
        started: "2026-11-23T10:00:00Z".to_owned(),
    }
}

fn turn(id: &str, session: u32, key: u32) -> EntryKind {
    EntryKind::Turn { turn: id.to_owned(), event: 1, lane: "channel:7".to_owned(), session, key }
}

fn ending(id: &str) -> EntryKind {
    EntryKind::Ending { turn: id.to_owned(), how: "completed".to_owned() }
}

fn text_of(what: impl IntoIterator<Item = EntryKind>) -> String {
    let mut text = serde_json::to_string(&header()).unwrap();
    for (at, what) in what.into_iter().enumerate() {
        text.push('\n');
        text.push_str(
            &serde_json::to_string(&RecordingEntry { t: at as f64, kind: what }).unwrap(),
        );
    }
    text + "\n"
}

fn film(text: &str, turn: &str) -> Result<TurnSteps, StepViewerError> {
    use std::io::Write as _;
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    TurnSteps::open(file, turn)
}

/// Folds the actions of a turn up to a step.
fn folded(film: &TurnSteps, upto: usize) -> Transcript {
    let (mut told, mut done) = (Transcript::default(), false);
    film.actions(upto, |action| match &action {
        // Actions after the end of the turn are ignored.
        _ if done || film.is_ours(&action) != Some(true) => {}
        Action::Event(event) => told.apply(&event.kind),
        Action::TurnDone(_) => done = true,
        _ => {}
    })
    .unwrap();
    told
}

fn line(text: &str) -> EntryKind {
    let text = text.to_owned();
    EntryKind::In(Input::Line(AgentLine { proc: 1, pipe: Pipe::Stdout, text, truncated: false }))
}

fn start(session: u32, turn: u32) -> EntryKind {
    let start = StartTurn { session, turn, ..StartTurn::plain("hello", Safety::Default) };
    EntryKind::In(Input::Command(HostCommand::StartTurn(start)))
}

fn event(session: u32, turn: u32, kind: AgentEventKind) -> EntryKind {
    EntryKind::Out(Action::Event(AgentEvent { session, turn, kind }))
}

fn say(session: u32, turn: u32, text: &str) -> EntryKind {
    let text = TextEvent { part: 0, text: text.to_owned(), replace: false, parent: None };
    event(session, turn, AgentEventKind::Text(text))
}

fn done(session: u32, turn: u32) -> EntryKind {
    let (text, usage) = (None, None);
    EntryKind::Out(Action::TurnDone(TurnDone {
        session,
        turn,
        outcome: TurnOutcome::Completed,
        text,
        usage,
    }))
}

async fn registry(folder: &Path) -> Arc<Registry> {
    let engine = Engine::new(&ResourceLimits::default(), None, aetheel_settings::NAMES).unwrap();
    Arc::new(Registry::start(engine, RegistryOptions::new(folder)).await.0)
}

fn machine(recordings: &Path, secret: &str) -> StepViewer {
    let redactor = Redactor::new(&[secret.to_owned().into()]);
    let none = Redactor::default();
    let recorder = Recorder::new(recordings.to_owned(), RecordingLimits::UNLIMITED, none);
    StepViewer::new(recorder, redactor)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recording_ends_like_its_replay() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("claude.wasm"), built("claude.wasm")).unwrap();
    let registry = registry(folder.path()).await;
    let backend = registry.get("claude").unwrap();
    let recordings = tempfile::tempdir().unwrap();
    let machine = machine(recordings.path(), "no secret here");
    let mut seen = 0;
    for (number, case) in cases("claude").into_iter().enumerate() {
        let entries = &case.tape.entries;
        let starts = |entry: &&RecordingEntry| {
            matches!(entry.kind, EntryKind::In(Input::Command(HostCommand::StartTurn(_))))
        };
        let first = entries.iter().find(starts).map(|entry| entry.kind.clone());
        let Some(EntryKind::In(Input::Command(HostCommand::StartTurn(first)))) = first else {
            continue;
        };
        if entries.iter().filter(starts).count() > 1 || number % 3 > 0 {
            continue;
        }
        seen += 1;
        // As in a gateway: several inputs in one call.
        let replayed = replay(&*backend, entries, Batches::Of(3)).await.unwrap();
        let mut all = vec![turn("ab12", first.session, first.turn)];
        let mut steps = replayed.steps.iter().peekable();
        for (at, entry) in entries.iter().enumerate() {
            if let EntryKind::In(_) = &entry.kind {
                all.push(entry.kind.clone());
            }
            while let Some(step) = steps.next_if(|step| step.entry == at) {
                all.extend(step.actions.iter().cloned().map(EntryKind::Out));
            }
        }
        let told = all.iter().filter(|what| matches!(what, EntryKind::In(_))).count();
        all.push(ending("ab12"));
        let case = name("claude", &case);
        let file = recordings.path().join(format!("{case}.jsonl"));
        std::fs::write(&file, text_of(all)).unwrap();
        let film = machine.open(&format!("{case}.jsonl"), "ab12").await.unwrap();
        assert_eq!(film.len(), told, "{case}");
        let last = film.len() - 1;
        let wanted = &replayed.turns.get(&first.turn).cloned().unwrap_or_default().transcript;
        assert_eq!(&folded(&film, last), wanted, "{case}");
    }
    assert!(seen >= 20, "only {seen} recordings");
}

#[test]
fn steps_have_their_input_actions_and_notes_and_can_be_searched() {
    let unknown = Unrecognised {
        what: "hologram".into(),
        path: None,
        sample: "{}".into(),
        ..Unrecognised::default()
    };
    let text = text_of([
        turn("ab12", 1, 1),
        start(1, 1),
        line("first"),
        line("second"),
        say(1, 1, "Hello "),
        EntryKind::Host("kept a file".to_owned()),
        line("third"),
        event(1, 1, AgentEventKind::Unrecognised(unknown)),
        line("fourth"),
        say(1, 1, "there"),
        done(1, 1),
        ending("ab12"),
        line("after it"),
    ]);
    let film = film(&text, "ab12").unwrap();
    assert_eq!(film.len(), 5);
    let (how, took) = film.facts().ended.clone().unwrap();
    assert_eq!((how.as_str(), took), ("completed", 11.0));
    let told = film.read(2).unwrap();
    assert_eq!((told.line, told.t_ms, told.actions.len()), (5, 3, 1));
    assert!(matches!(told.input, Some(Input::Line(AgentLine { text, .. })) if text == "second"));
    assert_eq!(told.notes, ["kept a file"]);
    assert_eq!(film.next_with(0, StepSign::Seen), Some(2));
    assert_eq!(film.next_with(2, StepSign::Unknown), Some(3));
    assert_eq!(film.next_with(4, StepSign::Seen), None);
    let texts: Vec<String> = (0..5).map(|step| folded(&film, step).text()).collect();
    assert_eq!(texts, ["", "", "Hello ", "Hello ", "Hello there"]);
    assert!(film.read(5).is_err() && film.read(usize::MAX).is_err());
    assert_eq!(folded(&film, usize::MAX).text(), "Hello there");
    assert!(
        self::film(&text, "other").unwrap_err().to_string().contains("does not contain this turn")
    );
}

#[test]
fn turns_that_share_an_agent_are_shown_without_the_parts_of_others() {
    let text = text_of([
        turn("ab12", 1, 1),
        start(1, 1),
        line("before"),
        say(1, 1, "a"),
        turn("cd34", 2, 2),
        start(2, 2),
        line("for the other alone"),
        say(2, 2, "x"),
        line("silent while both run"),
        line("mine"),
        say(1, 1, "b"),
        line("mine too"),
        say(1, 1, "!"),
        line("of both, one"),
        line("of both, two"),
        say(1, 1, "c"),
        say(2, 2, "y"),
        EntryKind::In(Input::Command(HostCommand::Interrupt(TurnRef { session: 2, turn: 2 }))),
        ending("cd34"),
        line("alone again"),
        done(1, 1),
        ending("ab12"),
    ]);
    let film = film(&text, "ab12").unwrap();
    let told: Vec<String> = (0..film.len())
        .map(|step| match film.read(step).unwrap().input {
            Some(Input::Line(line)) => line.text,
            Some(_) => "start".to_owned(),
            None => "hidden".to_owned(),
        })
        .collect();
    // If inputs of several turns were processed in one call, it is unknown to which turn each
    // belongs.
    let wanted =
        ["start", "before", "hidden", "hidden", "mine too", "hidden", "hidden", "alone again"];
    assert_eq!(told, wanted);
    assert_eq!(film.facts().of_others, 3, "{told:?}");
    assert_eq!(folded(&film, film.len()).text(), "ab!c");
    let theirs = self::film(&text, "cd34").unwrap();
    assert_eq!(folded(&theirs, theirs.len()).text(), "xy");
    for step in 0..theirs.len() {
        let step = format!("{:?}", theirs.read(step).unwrap());
        assert!(!step.contains("mine") && !step.contains("before"), "{step}");
    }
}

#[test]
fn missing_parts_of_a_recording_are_reported_and_the_rest_is_shown() {
    let whole = [turn("ab12", 1, 1), start(1, 1), line("one"), say(1, 1, "a")];
    let told = |more: Vec<EntryKind>| text_of(whole.clone().into_iter().chain(more));
    let cut = film(&told(vec![EntryKind::Cut("no room".to_owned())]), "ab12").unwrap();
    assert!(cut.facts().fault.as_deref().is_some_and(|why| why.contains("no room")));
    let torn = told(vec![line("two"), ending("ab12")]);
    for (at, _) in torn.char_indices().skip(torn.find('\n').unwrap()) {
        let torn = film(&torn[..at], "ab12");
        assert!(torn.is_ok_and(|film| film.facts().fault.is_some()) || at < 400, "{at}");
    }
    let damaged = told(vec![line("two"), ending("ab12")]).replace("\"two\"", "\"tw");
    let film = film(&damaged, "ab12").unwrap();
    let fault = film.facts().fault.clone().unwrap();
    assert!(fault.starts_with("line 6 of the recording is damaged"), "{fault}");
    assert_eq!((film.len(), folded(&film, 9).text()), (2, "a".to_owned()));
    let lost = self::film(&told(vec![EntryKind::Lost(7), ending("ab12")]), "ab12").unwrap();
    assert_eq!((lost.facts().lost, lost.facts().fault.clone()), (7, None));
    for nothing in ["", "\n", "hello\n", "{}\n", "\0\0\0"] {
        assert!(self::film(nothing, "ab12").is_err(), "{nothing:?}");
    }
}

#[test]
fn the_number_of_steps_of_an_endless_recording_is_limited() {
    let began = std::time::Instant::now();
    let steps = (0..STEPS + 500).flat_map(|step| [line("x"), say(1, 1, &format!("{step} "))]);
    let all = [turn("ab12", 1, 1), start(1, 1)].into_iter().chain(steps).chain([ending("ab12")]);
    let text = text_of(all);
    let (made, began) = (began.elapsed(), std::time::Instant::now());
    let film = film(&text, "ab12").unwrap();
    let (opened, began) = (began.elapsed(), std::time::Instant::now());
    assert_eq!((film.len(), film.facts().left_out), (STEPS, 501));
    assert!(film.facts().ended.is_some());
    assert!(folded(&film, 1).text().starts_with('0'));
    let (first, began) = (began.elapsed(), std::time::Instant::now());
    assert!(folded(&film, 5_000).text().ends_with("4999 "));
    let (later, began) = (began.elapsed(), std::time::Instant::now());
    folded(&film, STEPS);
    eprintln!(
        "{} MiB: made in {made:?}, opened in {opened:?}, step 1 {first:?}, step 5,000 {later:?}, the last {:?}",
        text.len() >> 20,
        began.elapsed()
    );
}

#[tokio::test]
async fn a_name_cannot_leave_the_folder_and_a_search_does_not_find_secrets() {
    let all = tempfile::tempdir().unwrap();
    let recordings = all.path().join("recordings");
    std::fs::create_dir_all(recordings.join("2026-11-23")).unwrap();
    let text = text_of([
        turn("ab12", 1, 1),
        start(1, 1),
        line(r#"{"key":"hunter22","n":1}"#),
        line(r#"{"say":"Needle one"}"#),
        say(1, 1, "in a \"haystack\""),
        done(1, 1),
        ending("ab12"),
    ]);
    std::fs::write(recordings.join("2026-11-23/ab12.jsonl"), &text).unwrap();
    std::fs::write(all.path().join("outside.jsonl"), &text).unwrap();
    std::os::unix::fs::symlink(all.path().join("outside.jsonl"), recordings.join("link.jsonl"))
        .unwrap();
    std::fs::create_dir(recordings.join("folder.jsonl")).unwrap();
    let machine = machine(&recordings, "hunter22");
    let outside = all.path().join("outside.jsonl").display().to_string();
    for name in
        ["../outside.jsonl", &outside, "link.jsonl", "folder.jsonl", "2026-11-23", "", "no.jsonl"]
    {
        let why = machine.open(name, "ab12").await.unwrap_err().to_string();
        assert!(why.contains("names no recording") || why.contains("no longer exists"), "{why}");
    }
    let film = machine.open("2026-11-23/ab12.jsonl", "ab12").await.unwrap();
    let found = async |after, words| machine.search(&film, after, words).await.unwrap();
    assert_eq!(found(0, "needle HAYSTACK").await, StepSearch::At(2));
    assert_eq!(found(0, "a \"haystack\"").await, StepSearch::At(2));
    assert_eq!(found(2, "needle").await, StepSearch::Nothing);
    assert_eq!(found(0, "hunter22").await, StepSearch::Nothing, "the word is a secret by now");
    assert_eq!(found(0, "\"key\":\"***\"").await, StepSearch::At(1));
}
