//! Recorded agents as tests: what an agent printed and how it ended, fed to a backend natively.
//!
//! A fixture is a folder with `argv.json`, `stdout`, `stderr` and `exit` of one run of the real
//! agent; `actions.jsonl` beside them is what the backend made of it, one action a line in the form
//! of recordings. That file is read by people in review: `UPDATE_GOLDEN=1 cargo test` writes it
//! anew.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)] // part of tests: a panic says what is wrong

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::wit::{
    Action, Command, Exit, Exited, Input, Line, Mode, Part, Pipe, Safety, Settings, Spawned,
    StartTurn, TimedInput, TurnRef,
};
use crate::{Backend, actions_json, inputs_json};

/// The turn of [`start`].
pub const TURN: TurnRef = TurnRef { session: 1, turn: 1 };

/// A recorded run of an agent.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// Where it is.
    pub folder: PathBuf,
    /// What was started, program first.
    pub argv: Vec<String>,
    /// Lines of stdout.
    pub stdout: Vec<String>,
    /// Lines of stderr.
    pub stderr: Vec<String>,
    /// How it ended.
    pub exit: Exit,
}

impl Fixture {
    /// Reads a fixture.
    #[must_use]
    pub fn load(folder: &Path) -> Self {
        let read = |name: &str| {
            let path = folder.join(name);
            String::from_utf8_lossy(
                &fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
            )
            .into_owned()
        };
        let lines = |text: String| text.lines().map(str::to_owned).collect();
        let exit = read("exit");
        let exit = match exit.split_whitespace().collect::<Vec<_>>()[..] {
            ["signal", number, ..] => Exit::Signal(number.parse().unwrap()),
            [code] if code.parse::<u32>().is_ok() => Exit::Code(code.parse().unwrap()),
            _ => Exit::Unknown,
        };
        Self {
            folder: folder.to_owned(),
            argv: serde_json::from_str::<serde_json::Value>(&read("argv.json"))
                .unwrap()
                .as_array()
                .unwrap()
                .iter()
                .map(|argument| argument.as_str().unwrap().to_owned())
                .collect(),
            stdout: lines(read("stdout")),
            stderr: lines(read("stderr")),
            exit,
        }
    }

    /// Reads all fixtures in a folder, in the order of their names.
    #[must_use]
    pub fn all(folder: &Path) -> Vec<Self> {
        let mut folders: Vec<PathBuf> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.join("stdout").exists())
            .collect();
        folders.sort();
        assert!(!folders.is_empty(), "no fixtures in {}", folder.display());
        folders.iter().map(|folder| Self::load(folder)).collect()
    }

    /// The name of its folder.
    #[must_use]
    pub fn name(&self) -> &str {
        self.folder.file_name().unwrap().to_str().unwrap()
    }

    /// The argument that followed a flag when the run was recorded.
    #[must_use]
    pub fn value_of(&self, flag: &str) -> Option<&str> {
        let at = self.argv.iter().position(|argument| argument == flag)?;
        self.argv.get(at + 1).map(String::as_str)
    }

    /// What the host would tell a backend after the process was asked for: all of stdout, then
    /// stderr, then the end.
    #[must_use]
    pub fn inputs(&self) -> Vec<Input> {
        let mut inputs = vec![Input::Spawned(Spawned { proc: 1, agent_version: None })];
        inputs.extend(self.stdout.iter().map(|text| line(Pipe::Stdout, text)));
        inputs.extend(self.stderr.iter().map(|text| line(Pipe::Stderr, text)));
        inputs.push(self.exited());
        inputs
    }

    /// The last input about its process.
    #[must_use]
    pub fn exited(&self) -> Input {
        Input::Exited(Exited { proc: 1, how: self.exit, stderr_tail: self.stderr.join("\n") })
    }

    /// Compares actions with `actions.jsonl`, or writes it when `UPDATE_GOLDEN` is set.
    pub fn check(&self, actions: &[Action]) {
        golden(
            &self.folder.join("actions.jsonl"),
            &actions.iter().map(actions_json::json).collect::<Vec<_>>(),
        );
    }

    /// As [`Self::check`], with `inputs.jsonl` beside it: what [`run`] tells a backend, for where
    /// that does not follow from the other files.
    pub fn check_with_inputs(&self, start: StartTurn, inputs: Vec<Input>, actions: &[Action]) {
        check_inputs(&self.folder, &timed(start, inputs));
        self.check(actions);
    }
}

/// Plays the recordings in a folder (`NAME.jsonl`, see `docs/recordings.md` of the gateway) to a
/// backend and compares what it does with `NAME.actions.jsonl` beside it, or writes that when
/// `UPDATE_GOLDEN` is set. The same as `aetheel backend test` does with the component.
pub fn cases<B: Backend>(folder: &Path) {
    let listed =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let is_case = |path: &PathBuf| {
        path.to_string_lossy().ends_with(".jsonl")
            && !path.to_string_lossy().ends_with(".actions.jsonl")
    };
    let mut paths: Vec<PathBuf> =
        listed.map(|entry| entry.unwrap().path()).filter(is_case).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no recordings in {}", folder.display());
    for path in paths {
        let mut backend = B::default();
        let mut out = Vec::new();
        for (number, line) in fs::read_to_string(&path)
            .unwrap()
            .lines()
            .enumerate()
            .filter(|(_, line)| line.contains("\"in\":"))
        {
            let told = backend.handle(input(line), &mut out);
            told.unwrap_or_else(|error| {
                panic!("{}:{}: the backend gives up: {error}", path.display(), number + 1)
            });
        }
        golden(
            &path.with_extension("actions.jsonl"),
            &out.iter().map(actions_json::json).collect::<Vec<_>>(),
        );
    }
}

/// Compares `inputs.jsonl` in a folder, or writes it when `UPDATE_GOLDEN` is set. An input has the
/// form `{"t": milliseconds, "in": …}` of recordings.
pub(crate) fn check_inputs(folder: &Path, inputs: &[TimedInput]) {
    let inputs = inputs
        .iter()
        .map(|input| serde_json::json!({"t": input.at_ms, "in": actions_json::json(&input.input)}));
    golden(&folder.join("inputs.jsonl"), &inputs.collect::<Vec<_>>());
}

/// Reads a line of `inputs.jsonl`.
#[must_use]
pub fn input(line: &str) -> TimedInput {
    let mut entry: serde_json::Value = serde_json::from_str(line).unwrap();
    let input =
        inputs_json::read(entry["in"].take()).unwrap_or_else(|error| panic!("{error}: {line}"));
    TimedInput { at_ms: entry["t"].as_f64().unwrap(), input }
}

/// Compares a file of one JSON value a line, or writes it when `UPDATE_GOLDEN` is set.
pub(crate) fn golden(path: &Path, now: &[serde_json::Value]) {
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, now.iter().map(|value| format!("{value}\n")).collect::<String>()).unwrap();
        return;
    }
    let golden = fs::read_to_string(path).unwrap_or_else(|error| {
        panic!("{}: {error}; write it with UPDATE_GOLDEN=1", path.display())
    });
    for (number, (was, is)) in golden.lines().zip(now).enumerate() {
        let was: serde_json::Value = serde_json::from_str(was)
            .unwrap_or_else(|error| panic!("{}, line {}: {error}", path.display(), number + 1));
        assert_eq!(was, *is, "{}, line {}", path.display(), number + 1);
    }
    assert_eq!(golden.lines().count(), now.len(), "{}: number of lines", path.display());
}

/// One line of output of the process.
#[must_use]
pub fn line(pipe: Pipe, text: &str) -> Input {
    Input::Line(Line { proc: 1, pipe, text: text.to_owned(), truncated: false })
}

/// A turn with everything at its plainest and the highest safety level; change what matters.
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
    }
}

/// Runs a turn on a fresh backend, the inputs one millisecond apart.
#[must_use]
pub fn run<B: Backend>(start: StartTurn, inputs: Vec<Input>) -> Vec<Action> {
    let mut backend = B::default();
    let mut out = Vec::new();
    for input in timed(start, inputs) {
        backend.handle(input, &mut out).expect("a backend does not give up over output");
    }
    out
}

fn timed(start: StartTurn, inputs: Vec<Input>) -> Vec<TimedInput> {
    let inputs = std::iter::once(Input::Command(Command::StartTurn(start))).chain(inputs);
    #[allow(clippy::cast_precision_loss)] // a test has fewer inputs than an f64 has whole numbers
    inputs.enumerate().map(|(at, input)| TimedInput { at_ms: at as f64, input }).collect()
}
