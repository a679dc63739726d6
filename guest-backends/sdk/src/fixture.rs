//! Tests from recordings: plays the recorded output and exit of an agent to a native backend.
//!
//! A case is a recording `NAME.jsonl` in the gateway's own format (`docs/recordings.md`) and the
//! actions that a backend must return for it, `NAME.actions.jsonl`, one action per line. People
//! read the second file in review; `UPDATE_GOLDEN=1 cargo test` rewrites it. [`cases`] plays such
//! files unchanged. [`Fixture`] is a recorded run of one process that a test can change before it
//! is played. [`done`], [`events`], [`shown`] and similar functions pick results from the actions.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "used in tests, where a panic reports the failure"
)]

use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::{Value, json};

use crate::wit::{
    Action, Ask, Command, EventKind, Exit, Exited, HostTool, Input, Line, Mode, Part, Pipe,
    QueryResult, Safety, SessionReady, Settings, Spawned, StartTurn, Text, TimedInput, ToolEnd,
    ToolStart, ToolStatus, TurnDone, TurnRef, Unrecognised,
};
use crate::{Backend, actions_json, inputs_json};

/// The turn that [`start`] starts.
pub const TURN: TurnRef = TurnRef { session: 1, turn: 1 };

/// A recorded run of an agent.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// Path of the recording without `.jsonl`.
    case: PathBuf,
    /// The command that was started, beginning with the program.
    pub argv: Vec<String>,
    /// The command that started the turn.
    pub start: StartTurn,
    /// Lines of stdout, in order and without line endings.
    pub stdout: Vec<String>,
    /// Lines of stderr, in order and without line endings.
    pub stderr: Vec<String>,
    /// How the process ended.
    pub exit: Exit,
}

impl Fixture {
    /// Reads a recorded run: `case` is the path of its recording without `.jsonl`.
    #[must_use]
    pub fn load(case: &Path) -> Self {
        let mut fixture = Self {
            case: case.to_owned(),
            argv: Vec::new(),
            start: start("recorded"),
            stdout: Vec::new(),
            stderr: Vec::new(),
            exit: Exit::Unknown,
        };
        for mut entry in entries(&beside(case, "jsonl")) {
            if let Some(command) = entry["launch"]["command"].as_array() {
                let word = |word: &Value| word.as_str().unwrap().to_owned();
                fixture.argv = command.iter().map(word).collect();
                continue;
            }
            let Some(input) = entry.get_mut("in") else { continue };
            match inputs_json::read(input.take()).unwrap() {
                Input::Command(Command::StartTurn(start)) => fixture.start = start,
                Input::Line(Line { pipe: Pipe::Stdout, text, .. }) => fixture.stdout.push(text),
                Input::Line(Line { pipe: Pipe::Stderr, text, .. }) => fixture.stderr.push(text),
                Input::Exited(exited) => fixture.exit = exited.how,
                _ => {}
            }
        }
        fixture
    }

    /// Reads all recorded runs in a folder, ordered by name. Skips recordings that were made from a
    /// dialogue.
    #[must_use]
    pub fn all(folder: &Path) -> Vec<Self> {
        let mut cases = cases_in(folder);
        cases.retain(|case| !beside(case, "dialogue").exists());
        cases.iter().map(|case| Self::load(case)).collect()
    }

    /// Returns the name of the recording.
    #[must_use]
    pub fn name(&self) -> &str {
        self.case.file_name().unwrap().to_str().unwrap()
    }

    /// Returns the inputs that the host sends after it started the process: all of stdout, then
    /// stderr, then the exit.
    #[must_use]
    pub fn inputs(&self) -> Vec<Input> {
        let mut inputs = vec![Input::Spawned(Spawned { proc: 1, agent_version: None })];
        inputs.extend(self.stdout.iter().map(|text| line(Pipe::Stdout, text)));
        inputs.extend(self.stderr.iter().map(|text| line(Pipe::Stderr, text)));
        inputs.push(self.exited());
        inputs
    }

    /// Returns the input about the exit of the process.
    #[must_use]
    pub fn exited(&self) -> Input {
        Input::Exited(Exited { proc: 1, how: self.exit, stderr_tail: self.stderr.join("\n") })
    }

    /// Plays the run to a new backend and returns its actions.
    #[must_use]
    pub fn run<B: Backend>(&self) -> Vec<Action> {
        run::<B>(self.start.clone(), self.inputs())
    }

    /// Compares actions with the golden file, or writes it if `UPDATE_GOLDEN` is set.
    pub fn check(&self, actions: &[Action]) {
        check_actions(&self.case, actions);
    }
}

/// Plays the recordings in a folder to a backend and compares its actions with
/// `NAME.actions.jsonl`, or writes that file if `UPDATE_GOLDEN` is set. `aetheel backend test` does
/// the same with the component.
pub fn cases<B: Backend>(folder: &Path) {
    for case in cases_in(folder) {
        let path = beside(&case, "jsonl");
        let mut backend = B::default();
        let mut out = Vec::new();
        for line in fs::read_to_string(&path).unwrap().lines() {
            if let Some(input) = input(line) {
                backend.handle(input, &mut out).unwrap_or_else(|error| {
                    panic!("{}: the backend returned an error: {error}\n{line}", path.display())
                });
            }
        }
        check_actions(&case, &out);
    }
}

/// Returns the recordings in a folder, sorted, without their extension.
pub(crate) fn cases_in(folder: &Path) -> Vec<PathBuf> {
    let listed =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let case = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(".jsonl")?;
        (!name.ends_with(".actions")).then(|| path.with_file_name(name))
    };
    let mut cases: Vec<PathBuf> = listed.filter_map(|entry| case(entry.unwrap().path())).collect();
    cases.sort();
    assert!(!cases.is_empty(), "no recordings in {}", folder.display());
    cases
}

/// Returns the path of a file of a case, given its extension.
pub(crate) fn beside(case: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}.{ending}", case.display()))
}

/// Reads the lines of a recording after its header.
fn entries(path: &Path) -> Vec<Value> {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Reads a line of a recording. Returns `None` if the line is not an input.
#[must_use]
pub fn input(line: &str) -> Option<TimedInput> {
    let mut entry: Value = serde_json::from_str(line).unwrap();
    let input = entry.get_mut("in")?.take();
    let input = inputs_json::read(input).unwrap_or_else(|error| panic!("{error}: {line}"));
    Some(TimedInput { at_ms: entry["t"].as_f64().unwrap(), input })
}

/// Compares a backend's inputs and actions with the golden files of a case, or writes them if
/// `UPDATE_GOLDEN` is set.
pub fn check(case: &Path, inputs: &[TimedInput], actions: &[Action]) {
    let header = json!({
        "aetheel-recording": 1, "link": "fixture", "backend": "fixture", "backend-version": "1",
        "generation": 1, "digest": "", "agent-version": agent_version(case),
        "started": "2026-01-02T03:04:05Z",
    });
    let entry =
        |input: &TimedInput| json!({"t": input.at_ms, "in": actions_json::json(&input.input)});
    let recording: Vec<Value> = std::iter::once(header).chain(inputs.iter().map(entry)).collect();
    golden(&beside(case, "jsonl"), &recording);
    check_actions(case, actions);
}

/// Returns the version of the agent that an existing recording names. A person enters it, because
/// not every agent prints it.
fn agent_version(case: &Path) -> Value {
    let text = fs::read_to_string(beside(case, "jsonl")).unwrap_or_default();
    let header = text.lines().next().and_then(|line| serde_json::from_str::<Value>(line).ok());
    header.map_or(Value::Null, |header| header["agent-version"].clone())
}

fn check_actions(case: &Path, actions: &[Action]) {
    let actions: Vec<Value> = actions.iter().map(actions_json::json).collect();
    golden(&beside(case, "actions.jsonl"), &actions);
}

/// Compares a file of one JSON value per line, or writes it if `UPDATE_GOLDEN` is set.
fn golden(path: &Path, now: &[Value]) {
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, now.iter().map(|value| format!("{value}\n")).collect::<String>()).unwrap();
        return;
    }
    let golden = fs::read_to_string(path).unwrap_or_else(|error| {
        panic!("{}: {error}; write it with UPDATE_GOLDEN=1", path.display())
    });
    for (number, (was, is)) in golden.lines().zip(now).enumerate() {
        let was: Value = serde_json::from_str(was)
            .unwrap_or_else(|error| panic!("{}, line {}: {error}", path.display(), number + 1));
        assert_eq!(was, *is, "{}, line {}", path.display(), number + 1);
    }
    assert_eq!(golden.lines().count(), now.len(), "{}: number of lines", path.display());
}

/// Returns one line of output of process 1.
#[must_use]
pub fn line(pipe: Pipe, text: &str) -> Input {
    Input::Line(Line { proc: 1, pipe, text: text.to_owned(), truncated: false })
}

/// Returns a tool of the host.
#[must_use]
pub fn host_tool(name: &str) -> HostTool {
    HostTool { name: name.to_owned(), description: String::new(), input_schema: "{}".to_owned() }
}

/// Returns a turn with default settings and the highest safety level, for tests to change.
#[must_use]
pub fn start(prompt: &str) -> StartTurn {
    StartTurn {
        session: TURN.session,
        turn: TURN.turn,
        cwd: "/srv/proj".to_owned(),
        native_id: None,
        fork: false,
        fresh_id: "7c1f7e52-2f0b-4bd1-9f57-3f1d4a6f0c11".to_owned(),
        one_shot: true,
        settings: Settings {
            model: None,
            safety: Safety::Danger,
            mode: Mode::Build,
            effort: None,
            system_prompt: None,
            allowed_tools: Vec::new(),
            max_turns: None,
            options: "{}".to_owned(),
        },
        parts: vec![Part::Text(prompt.to_owned())],
        agent_version: None,
        tools: Vec::new(),
    }
}

/// Runs a turn on a new backend, with inputs one millisecond apart.
#[must_use]
pub fn run<B: Backend>(start: StartTurn, inputs: Vec<Input>) -> Vec<Action> {
    let mut backend = B::default();
    let mut out = Vec::new();
    for input in timed(start, inputs) {
        backend.handle(input, &mut out).expect("a backend accepts any output of its agent");
    }
    out
}

fn timed(start: StartTurn, inputs: Vec<Input>) -> Vec<TimedInput> {
    let inputs = std::iter::once(Input::Command(Command::StartTurn(start))).chain(inputs);
    #[allow(
        clippy::cast_precision_loss,
        reason = "a test has fewer inputs than an f64 has integers"
    )]
    inputs.enumerate().map(|(at, input)| TimedInput { at_ms: at as f64, input }).collect()
}

/// Returns the end of the only turn. Panics unless there is exactly one.
pub fn done(actions: &[Action]) -> &TurnDone {
    let mut done = picked(actions, |action| match action {
        Action::TurnDone(done) => Some(done),
        _ => None,
    })
    .into_iter();
    let first = done.next().expect("no turn-done");
    assert_eq!(done.next(), None, "a second turn-done");
    first
}

/// Returns whether an action ends a turn.
#[must_use]
pub fn is_done(action: &Action) -> bool {
    matches!(action, Action::TurnDone(_))
}

/// Returns the events of all turns.
pub fn events(actions: &[Action]) -> impl Iterator<Item = &EventKind> {
    actions.iter().filter_map(|action| match action {
        Action::Event(event) => Some(&event.kind),
        _ => None,
    })
}

/// Returns the final text of every part, without those that were withdrawn.
#[must_use]
pub fn shown(actions: &[Action]) -> Vec<String> {
    joined(actions, |event| match event {
        EventKind::Text(text) => Some(text),
        _ => None,
    })
}

/// Returns the final text of every part of the thinking, as [`shown`] does for the answer.
#[must_use]
pub fn thoughts(actions: &[Action]) -> Vec<String> {
    joined(actions, |event| match event {
        EventKind::Thinking(text) => Some(text),
        _ => None,
    })
}

fn joined(actions: &[Action], pick: impl Fn(&EventKind) -> Option<&Text>) -> Vec<String> {
    let mut parts: Vec<((u32, u32, u32), String)> = Vec::new();
    for action in actions {
        let Action::Event(event) = action else { continue };
        let Some(text) = pick(&event.kind) else { continue };
        let key = (event.session, event.turn, text.part);
        match parts.iter_mut().find(|(part, _)| *part == key) {
            Some((_, joined)) if text.replace => text.text.clone_into(joined),
            Some((_, joined)) => joined.push_str(&text.text),
            None => parts.push((key, text.text.clone())),
        }
    }
    parts.into_iter().map(|(_, text)| text).filter(|text| !text.is_empty()).collect()
}

/// Returns the notices to users.
#[must_use]
pub fn notices(actions: &[Action]) -> Vec<&str> {
    events(actions)
        .filter_map(|event| match event {
            EventKind::Notice(notice) => Some(notice.text.as_str()),
            _ => None,
        })
        .collect()
}

/// Returns the starts of tool uses.
#[must_use]
pub fn tool_starts(actions: &[Action]) -> Vec<&ToolStart> {
    events(actions)
        .filter_map(|event| match event {
            EventKind::ToolStart(start) => Some(start),
            _ => None,
        })
        .collect()
}

/// Returns the ends of tool uses.
#[must_use]
pub fn tool_ends(actions: &[Action]) -> Vec<&ToolEnd> {
    events(actions)
        .filter_map(|event| match event {
            EventKind::ToolEnd(end) => Some(end),
            _ => None,
        })
        .collect()
}

/// Returns how uses of tools ended, with their output and exit code.
#[must_use]
pub fn ends(actions: &[Action]) -> Vec<(ToolStatus, &str, Option<u32>)> {
    tool_ends(actions)
        .into_iter()
        .map(|end| (end.status, end.output.as_deref().unwrap_or_default(), end.exit_code))
        .collect()
}

/// Returns the reports of unrecognised output.
#[must_use]
pub fn unrecognised(actions: &[Action]) -> Vec<&Unrecognised> {
    events(actions)
        .filter_map(|event| match event {
            EventKind::Unrecognised(unknown) => Some(unknown),
            _ => None,
        })
        .collect()
}

/// Returns the reports of the agent's session.
#[must_use]
pub fn ready(actions: &[Action]) -> Vec<&SessionReady> {
    picked(actions, |action| match action {
        Action::SessionReady(ready) => Some(ready),
        _ => None,
    })
}

/// Returns the questions to users.
#[must_use]
pub fn asks(actions: &[Action]) -> Vec<&Ask> {
    picked(actions, |action| match action {
        Action::Ask(ask) => Some(ask),
        _ => None,
    })
}

/// Returns the answers to queries.
#[must_use]
pub fn answers(actions: &[Action]) -> Vec<&QueryResult> {
    picked(actions, |action| match action {
        Action::QueryAnswer(answer) => Some(&answer.answer),
        _ => None,
    })
}

fn picked<'a, T>(actions: &'a [Action], pick: impl Fn(&'a Action) -> Option<&'a T>) -> Vec<&'a T> {
    actions.iter().filter_map(pick).collect()
}
