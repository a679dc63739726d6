use std::collections::BTreeSet;

use async_trait::async_trait;
use proptest::prelude::*;

use super::*;
use crate::Generation;
use crate::{FORMAT, ParsedRecording};
use aetheel_model::agent::{
    AgentEvent, AgentEventKind, AgentFailure, AgentLine, Descriptor, Exit, Exited, FailureKind,
    HttpRequest, HttpResponse, Pipe, Safety, SetTimer, Spawn, Spawned, StartTurn, TextEvent,
    TurnOutcome,
};

/// A backend whose guests count their keys from `first` and do what the lines of their agent
/// request.
struct LineBackend {
    descriptor: Descriptor,
    generation: Generation,
    first: u32,
}

impl LineBackend {
    fn counting_from(first: u32) -> Self {
        let descriptor = Descriptor::parse(
            r#"{"name":"lines","version":"1","sharing":"session","programs":[{"name":"x"}]}"#,
        )
        .unwrap();
        Self { descriptor, generation: Generation { number: 1, digest: "0".repeat(64) }, first }
    }
}

#[async_trait]
impl Backend for LineBackend {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn generation(&self) -> &Generation {
        &self.generation
    }

    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
        Ok(Box::new(LineGuest {
            state: LineGuestState { next: self.first, ..LineGuestState::default() },
        }))
    }
}

#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
struct LineGuestState {
    next: u32,
    turn: Option<u32>,
    process: Option<u32>,
    asked: BTreeSet<u32>,
}

struct LineGuest {
    state: LineGuestState,
}

impl LineGuest {
    fn key(&mut self) -> u32 {
        let key = self.state.next;
        self.state.next += 1;
        self.state.asked.insert(key);
        key
    }

    fn say(&self, text: String) -> Vec<Action> {
        let turn = self.state.turn.unwrap_or_default();
        vec![Action::Event(AgentEvent {
            session: 1,
            turn,
            kind: AgentEventKind::Text(TextEvent { part: 0, text, replace: false, parent: None }),
        })]
    }

    fn end(&mut self, outcome: TurnOutcome) -> Vec<Action> {
        let Some(turn) = self.state.turn.take() else { return Vec::new() };
        vec![Action::TurnDone(TurnDone { session: 1, turn, outcome, text: None, usage: None })]
    }

    fn take(&mut self, input: Input) -> Result<Vec<Action>, GuestFailure> {
        Ok(match input {
            Input::Command(HostCommand::StartTurn(start)) => {
                self.state.turn = Some(start.turn);
                if self.state.process.is_some() {
                    return Ok(Vec::new());
                }
                let proc = self.key();
                self.state.process = Some(proc);
                vec![Action::Spawn(spawn(proc))]
            }
            Input::Line(line) => {
                assert_eq!(
                    Some(line.proc),
                    self.state.process,
                    "it gets inputs only about its own process"
                );
                match line.text.split_once(' ').unwrap_or((&line.text, "")) {
                    ("text", text) => self.say(text.to_owned()),
                    ("timer", _) => {
                        vec![Action::SetTimer(SetTimer { timer: self.key(), after_ms: 1 })]
                    }
                    ("http", _) => vec![Action::Http(request(self.key()))],
                    ("session", id) => {
                        vec![Action::SessionReady(SessionReady {
                            session: 1,
                            native_id: id.to_owned(),
                            model: None,
                            title: None,
                            tools: vec![],
                        })]
                    }
                    ("done", _) => self.end(TurnOutcome::Completed),
                    ("boom", _) => return Err(GuestFailure::Trapped("boom".into())),
                    _ => Vec::new(),
                }
            }
            Input::Timer(timer) => {
                assert!(self.state.asked.contains(&timer), "it set no timer {timer}");
                self.say("tick".into())
            }
            Input::HttpResponse(response) => {
                assert!(
                    self.state.asked.contains(&response.request),
                    "it made no request {}",
                    response.request
                );
                self.say(response.body)
            }
            Input::Exited(_) => {
                self.state.process = None;
                self.end(TurnOutcome::Lost(AgentFailure {
                    kind: FailureKind::Crashed,
                    message: "gone".into(),
                    retry_after_ms: None,
                }))
            }
            _ => Vec::new(),
        })
    }
}

#[async_trait]
impl Guest for LineGuest {
    async fn handle(&mut self, inputs: Vec<TimedInput>) -> Result<Vec<Action>, GuestFailure> {
        let mut actions = Vec::new();
        for input in inputs {
            actions.extend(self.take(input.input)?);
        }
        Ok(actions)
    }

    async fn save(&mut self) -> Result<Option<String>, GuestFailure> {
        Ok(serde_json::to_string(&self.state).ok())
    }

    async fn load(&mut self, state: &str, _: &str) -> Result<(), GuestFailure> {
        self.state = serde_json::from_str(state)
            .map_err(|error| GuestFailure::Refused(error.to_string()))?;
        Ok(())
    }
}

fn spawn(proc: u32) -> Spawn {
    let (arguments, environment, stdin) = (vec![], vec![], vec![]);
    let (session, turn) = (Some(1), None);
    Spawn {
        proc,
        program: "x".into(),
        arguments,
        environment,
        stdin,
        keep_open: true,
        listens: true,
        basic_auth: None,
        session,
        turn,
    }
}

fn request(request: u32) -> HttpRequest {
    HttpRequest {
        request,
        proc: 1,
        method: "GET".into(),
        path: "/".into(),
        body: None,
        timeout_ms: 1,
    }
}

fn start(turn: u32) -> Input {
    Input::Command(HostCommand::StartTurn(StartTurn {
        turn,
        ..StartTurn::plain("Hi", Safety::Default)
    }))
}

fn line(proc: u32, text: &str) -> Input {
    Input::Line(AgentLine { proc, pipe: Pipe::Stdout, text: text.into(), truncated: false })
}

fn exited(proc: u32) -> Input {
    Input::Exited(Exited { proc, how: Exit::Code(0), stderr_tail: String::new() })
}

fn response(request: u32, body: &str) -> Input {
    Input::HttpResponse(HttpResponse { request, status: 200, body: body.into() })
}

fn input_entries(inputs: &[Input]) -> Vec<RecordingEntry> {
    inputs
        .iter()
        .enumerate()
        .map(|(t, input)| RecordingEntry { t: t as f64, kind: EntryKind::In(input.clone()) })
        .collect()
}

/// Records a guest that counts its keys from 1. Each step is a word that is an input or a line of
/// the agent. Inputs about things that the guest did not request are left out.
fn recorded(steps: &[String], with_actions: bool) -> Vec<RecordingEntry> {
    let mut guest = LineGuest { state: LineGuestState { next: 1, ..LineGuestState::default() } };
    let (mut entries, mut turns) = (Vec::new(), 0);
    let (mut timers, mut requests) = (Vec::new(), Vec::new());
    for (t, step) in steps.iter().enumerate() {
        let process = guest.state.process;
        let input = match (step.as_str(), process) {
            ("start", _) if guest.state.turn.is_none() => {
                turns += 1;
                start(turns)
            }
            ("start", _) => continue,
            ("exit", Some(proc)) => exited(proc),
            ("tick", _) if !timers.is_empty() => Input::Timer(timers.remove(0)),
            ("answer", _) if !requests.is_empty() => response(requests.remove(0), "answered"),
            (text, Some(proc)) => line(proc, text),
            _ => continue,
        };
        let actions = guest.take(input.clone()).unwrap();
        entries.push(RecordingEntry { t: t as f64, kind: EntryKind::In(input) });
        for action in actions {
            match &action {
                // The later request is answered first, so that the order of use and the order of
                // answers differ.
                Action::SetTimer(timer) => timers.insert(0, timer.timer),
                Action::Http(request) => requests.insert(0, request.request),
                _ => {}
            }
            if with_actions {
                entries.push(RecordingEntry { t: t as f64, kind: EntryKind::Out(action) });
            }
        }
    }
    entries
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn replayed(first: u32, entries: &[RecordingEntry], batches: Batches) -> ReplayResult {
    run(replay(&LineBackend::counting_from(first), entries, batches)).unwrap()
}

#[test]
fn turns_have_separate_texts_sessions_and_ends() {
    let entries = input_entries(&[
        start(1),
        line(1, "session a"),
        line(1, "text one"),
        line(1, "done"),
        start(2),
        line(1, "text two"),
        line(1, "session b"),
        line(1, "done"),
        line(1, "session late"),
        line(1, "text too late"),
    ]);
    let replayed = replayed(1, &entries, Batches::Whole);
    let summary: Vec<_> = replayed
        .turns
        .iter()
        .filter(|(_, told)| told.done.is_some())
        .map(|(turn, told)| (*turn, told.text(), told.session.as_ref().unwrap().native_id.clone()))
        .collect();
    assert_eq!(
        summary,
        [(1, "one".to_owned(), "a".to_owned()), (2, "two".to_owned(), "b".to_owned())]
    );
    assert_eq!(replayed.failure, None);
}

#[test]
fn a_guest_with_other_keys_gets_the_recorded_inputs() {
    let words = ["start", "timer", "timer", "http", "tick", "answer", "done"].map(str::to_owned);
    for with_actions in [true, false] {
        let entries = recorded(&words, with_actions);
        let theirs = replayed(100, &entries, Batches::Single);
        assert_eq!(theirs.turns[&1].text(), "tickanswered", "with actions: {with_actions}");
        assert_eq!(theirs.withheld, [0; 0]);
    }
}

#[test]
fn a_recording_without_actions_keeps_the_keys_a_guest_knows() {
    // Only the second of two timers expires. Counting the inputs would take it for the first.
    let entries = input_entries(&[
        start(1),
        line(1, "timer"),
        line(1, "timer"),
        Input::Timer(3),
        line(1, "done"),
    ]);
    let guest = replayed(1, &entries, Batches::Single);
    assert_eq!(guest.turns[&1].text(), "tick");
}

#[test]
fn inputs_about_things_that_a_guest_never_requested_are_withheld() {
    let mut entries = recorded(&["start", "http", "answer", "done"].map(str::to_owned), true);
    // The replaying guest makes no request.
    for entry in &mut entries {
        if let EntryKind::In(Input::Line(line)) = &mut entry.kind
            && line.text == "http"
        {
            line.text = "nothing".into();
        }
    }
    for batches in [Batches::Single, Batches::Whole] {
        let guest = replayed(5, &entries, batches);
        let names: Vec<_> = guest.withheld.iter().map(|at| &entries[*at].kind).collect();
        assert!(matches!(names[..], [EntryKind::In(Input::HttpResponse(_))]), "{names:?}");
        assert_eq!(guest.turns[&1].done.as_ref().unwrap().outcome, TurnOutcome::Completed);
    }
}

#[test]
fn a_failure_names_its_entry_and_ends_the_replay() {
    let entries =
        input_entries(&[start(1), line(1, "text before"), line(1, "boom"), line(1, "text after")]);
    let single = replayed(1, &entries, Batches::Single);
    assert_eq!(single.failure, Some((2, GuestFailure::Trapped("boom".into()))));
    assert_eq!(single.turns[&1].text(), "before");
    // In a batch only the last input of the call is known.
    assert_eq!(replayed(1, &entries, Batches::Whole).failure.unwrap().0, 3);
}

#[test]
fn after_a_move_a_fresh_guest_continues_with_the_state_and_its_keys() {
    let state =
        LineGuestState { next: 8, turn: None, process: Some(7), asked: BTreeSet::from([7]) };
    let mut entries = input_entries(&[start(1), line(7, "text old"), line(7, "done")]);
    let state = serde_json::to_string(&state).unwrap();
    entries.push(RecordingEntry {
        t: 3.0,
        kind: EntryKind::Moved {
            generation: 2,
            digest: String::new(),
            saved_by: "1".into(),
            state,
        },
    });
    entries.extend(input_entries(&[start(2), line(7, "text new"), line(7, "done")]));
    let moved = replayed(1, &entries, Batches::Whole);
    assert_eq!(
        (moved.turns[&1].text(), moved.turns[&2].text()),
        ("old".to_owned(), "new".to_owned())
    );
    if let EntryKind::Moved { state, .. } = &mut entries[3].kind {
        *state = "{".into();
    }
    assert!(matches!(
        replayed(1, &entries, Batches::Single).failure,
        Some((3, GuestFailure::Refused(_)))
    ));
}

#[test]
fn moving_between_turns_changes_nothing() {
    let words =
        ["start", "timer", "text a", "done", "start", "tick", "text b", "done"].map(str::to_owned);
    let entries = recorded(&words, true);
    let second = entries.iter().position(|entry| matches!(&entry.kind, EntryKind::In(Input::Command(HostCommand::StartTurn(s))) if s.turn == 2));
    for first in [1, 50] {
        let backend = LineBackend::counting_from(first);
        let still = run(replay(&backend, &entries, Batches::Single)).unwrap();
        let moved =
            run(replay_moving(&backend, &entries, second.unwrap())).unwrap().expect("it can move");
        assert!(still.actions().eq(moved.actions()));
    }
}

#[test]
fn a_tape_knows_its_lines_and_turns() {
    let header = format!(
        r#"{{"aetheel-recording":{FORMAT},"link":"l","backend":"b","backend-version":"1","generation":1,"digest":"","agent-version":null,"started":""}}"#
    );
    let text = format!(
        "{header}\n\n{}\n{}\n",
        r#"{"t":1,"turn":{"turn":"abc","event":1,"lane":"x","session":1,"key":4}}"#,
        r#"{"t":2,"in":{"timer":3}}"#
    );
    let tape = ParsedRecording::read(&text).unwrap();
    assert_eq!(tape.lines, [3, 4]);
    assert_eq!((tape.beginning_of("abc"), tape.beginning_of("other")), (Some((4, 1.0)), None));
    let damaged = text.replace(r#"{"timer":3}"#, r#"{"timer":"x"}"#);
    let error = ParsedRecording::read(&damaged).unwrap_err().to_string();
    assert!(error.starts_with("line 4:"), "{error}");
}

proptest! {
    #[test]
    fn batching_never_changes_the_result_of_a_replay(
        steps in proptest::collection::vec("(start|text [a-c]|timer|http|tick|answer|session [xy]|done|exit|other)", 0..40),
        first in 1_u32..20,
        with_actions in any::<bool>(),
        seed in any::<u64>(),
        size in 1_usize..9,
    ) {
        let mut steps = steps;
        steps.insert(0, "start".to_owned());
        let entries = recorded(&steps, with_actions);
        let single = replayed(first, &entries, Batches::Single);
        for batches in [Batches::Of(size), Batches::Seeded(seed), Batches::Whole] {
            let other = replayed(first, &entries, batches);
            prop_assert!(single.actions().eq(other.actions()), "{batches:?}");
            prop_assert_eq!(&single.turns, &other.turns);
            prop_assert_eq!(&single.withheld, &other.withheld);
        }
    }
}

#[test]
fn inputs_about_a_process_follow_its_start() {
    let entries = input_entries(&[
        start(1),
        Input::Spawned(Spawned { proc: 1, agent_version: None }),
        line(1, "text x"),
        exited(1),
    ]);
    let guest = replayed(9, &entries, Batches::Whole);
    assert_eq!(guest.steps.len(), 2, "one call to start, one with everything else");
    assert_eq!(guest.turns[&1].text(), "x");
}
