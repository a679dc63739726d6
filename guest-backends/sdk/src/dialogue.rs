//! Tests from recorded dialogues with long-lived agents: plays both sides' lines to a native
//! backend.
//!
//! A dialogue is a file `NAME.dialogue` with one object `{"t", "dir", "msg" | "raw"}` per line. `t`
//! is the time in seconds; `dir` is `>` for a line from host to agent, `<` from agent to host, `!`
//! on the agent's stderr, and `#` for a note (`spawn`, `exit`). [`Play`] passes the agent's lines
//! to a backend. Backends number their requests themselves, so the id in a recorded response is
//! replaced by that of the backend's matching request: the response to the third `turn/start` of
//! the recording answers the third one that the backend wrote. Responses to requests that the
//! backend did not make are skipped.
//!
//! The test sends commands between the parts of the dialogue that it plays. [`Play::check`]
//! compares the resulting recording (`NAME.jsonl`) and actions, which are also used to test the
//! component.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "used in tests, where a panic reports the failure"
)]

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Backend;
use crate::fixture::{beside, check};
use crate::wit::{
    Action, Chunk, Command, Exit, Exited, Input, Line, Outcome, Pipe, SpawnFailed, Spawned,
    StartTurn, TimedInput, TurnDone,
};

/// The id and method of a line that is a request or a response.
#[derive(Debug)]
pub struct Half<'a> {
    /// The id.
    pub id: &'a mut Value,
    /// The method of a request, or `None` for a response.
    pub method: Option<String>,
}

/// Finds the id and method of a line in either direction. Returns `None` if the line is neither a
/// request nor a response.
pub type Calls = fn(&mut Value) -> Option<Half<'_>>;

/// Reads JSON-RPC and its dialects: `id` and `method`.
pub fn json_rpc(line: &mut Value) -> Option<Half<'_>> {
    let method = line.get("method").and_then(Value::as_str).map(str::to_owned);
    let id = line.get_mut("id").filter(|id| !id.is_null())?;
    Some(Half { id, method })
}

/// Reads the control protocol of Claude Code: `control_request` and `control_response`.
pub fn control(line: &mut Value) -> Option<Half<'_>> {
    match line.get("type")?.as_str()? {
        "control_request" => {
            let method = line["request"]["subtype"].as_str().unwrap_or_default().to_owned();
            Some(Half { id: line.get_mut("request_id")?, method: Some(method) })
        }
        "control_response" => {
            Some(Half { id: line.get_mut("response")?.get_mut("request_id")?, method: None })
        }
        _ => None,
    }
}

#[derive(Debug)]
enum RecordedLine {
    Host(String),
    Agent(String),
    Stderr(String),
    Exit(Exit),
}

/// A dialogue that is being played to a backend.
#[derive(Debug)]
pub struct Play<B> {
    backend: B,
    /// Path of the dialogue without `.dialogue`.
    case: PathBuf,
    calls: Calls,
    /// The recorded lines that remain, each with its time in milliseconds.
    rest: VecDeque<(f64, RecordedLine)>,
    /// Recorded requests of the host: id to method and the number of earlier requests with this
    /// method.
    asked: BTreeMap<String, (String, usize)>,
    counts: BTreeMap<String, usize>,
    timers: BTreeMap<u32, f64>,
    /// Running processes, oldest first. Recorded output comes from the oldest.
    procs: VecDeque<u32>,
    stderr: Vec<String>,
    now: f64,
    /// All inputs to the backend so far.
    pub inputs: Vec<TimedInput>,
    /// All actions of the backend so far.
    pub actions: Vec<Action>,
    /// All lines the backend wrote to the agent; `<base64 of 1>` stands for the bytes of blob 1.
    pub written: Vec<String>,
    /// Recorded lines that were skipped: responses to requests that the backend did not make, and
    /// output while no process runs.
    pub skipped: Vec<String>,
}

impl<B: Backend> Play<B> {
    /// Reads a dialogue without playing it; `case` is its path without `.dialogue`.
    #[must_use]
    pub fn load(case: &Path, calls: Calls) -> Self {
        let path = beside(case, "dialogue");
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { case: case.to_owned(), ..Self::of(&text, calls) }
    }

    /// Creates a dialogue from text.
    #[must_use]
    pub fn of(text: &str, calls: Calls) -> Self {
        Self {
            backend: B::default(),
            case: PathBuf::new(),
            calls,
            rest: text.lines().filter_map(parse_line).collect(),
            asked: BTreeMap::new(),
            counts: BTreeMap::new(),
            timers: BTreeMap::new(),
            procs: VecDeque::new(),
            stderr: Vec::new(),
            now: 0.0,
            inputs: Vec::new(),
            actions: Vec::new(),
            written: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Sends the command that starts a turn.
    pub fn start(&mut self, start: StartTurn) -> &mut Self {
        self.command(Command::StartTurn(start))
    }

    /// Sends a command of the host.
    pub fn command(&mut self, command: Command) -> &mut Self {
        self.input(Input::Command(command))
    }

    /// Passes any input. If the backend starts a process, the input `spawned` follows at once.
    pub fn input(&mut self, input: Input) -> &mut Self {
        if let Input::Exited(Exited { proc, .. }) | Input::SpawnFailed(SpawnFailed { proc, .. }) =
            &input
        {
            self.procs.retain(|running| running != proc);
        }
        let seen = self.actions.len();
        let input = TimedInput { at_ms: self.now, input };
        self.inputs.push(input.clone());
        self.backend
            .handle(input, &mut self.actions)
            .expect("a backend accepts any output of its agent");
        let mut spawned = Vec::new();
        for action in &self.actions[seen..] {
            match action {
                Action::Spawn(spawn) => {
                    self.procs.push_back(spawn.proc);
                    spawned.push(Input::Spawned(Spawned { proc: spawn.proc, agent_version: None }));
                    self.written.extend(text(&spawn.stdin).lines().map(str::to_owned));
                }
                Action::Write(write) => {
                    self.written.extend(text(&write.body).lines().map(str::to_owned))
                }
                Action::SetTimer(timer) => drop(
                    self.timers
                        .insert(timer.timer, microseconds(self.now + f64::from(timer.after_ms))),
                ),
                Action::CancelTimer(timer) => drop(self.timers.remove(timer)),
                _ => {}
            }
        }
        for input in spawned {
            self.input(input);
        }
        self
    }

    /// Passes a line of stdout that is not recorded.
    pub fn say(&mut self, text: &str) -> &mut Self {
        self.pipe(Pipe::Stdout, text)
    }

    /// Ends the agent's process, with everything it wrote to stderr so far as the tail.
    pub fn exit(&mut self, how: Exit) -> &mut Self {
        let stderr_tail = self.stderr.join("\n");
        let proc = self.proc();
        self.input(Input::Exited(Exited { proc, how, stderr_tail }))
    }

    /// Advances the time; timers expire.
    pub fn elapse(&mut self, ms: f64) -> &mut Self {
        self.until_time(microseconds(self.now + ms))
    }

    /// Plays until an action fits, and returns that action.
    pub fn until(&mut self, fits: impl Fn(&Action) -> bool) -> Action {
        let mut seen = self.actions.len();
        loop {
            if let Some(action) = self.actions[seen..].iter().find(|action| fits(action)) {
                return action.clone();
            }
            seen = self.actions.len();
            assert!(self.step(), "the dialogue ended without such an action");
        }
    }

    /// Plays up to the next recorded line of the host that contains a text, for example
    /// `"turn/interrupt"`, and skips that line. The agent's answer to it is played next.
    pub fn until_host(&mut self, contains: &str) -> &mut Self {
        loop {
            let here = matches!(self.rest.front(), Some((_, RecordedLine::Host(text))) if text.contains(contains));
            assert!(self.step(), "no further line of the host contains {contains}");
            if here {
                return self;
            }
        }
    }

    /// Plays up to and including the next recorded line of the agent that contains a text.
    pub fn until_agent(&mut self, contains: &str) -> &mut Self {
        loop {
            let here = matches!(self.rest.front(), Some((_, RecordedLine::Agent(text))) if text.contains(contains));
            assert!(self.step(), "no further line of the agent contains {contains}");
            if here {
                return self;
            }
        }
    }

    /// Plays all remaining lines.
    pub fn finish(&mut self) -> &mut Self {
        while self.step() {}
        self
    }

    /// Discards the remaining lines.
    pub fn cut(&mut self) -> &mut Self {
        self.rest.clear();
        self
    }

    /// Returns the id, as JSON, of the last request of a method that the backend wrote.
    #[must_use]
    pub fn id_of(&self, method: &str) -> Option<String> {
        self.ids(method).pop().map(|id| id.to_string())
    }

    /// Returns the lines that the backend wrote and that contain a text, parsed.
    #[must_use]
    pub fn written_with(&self, contains: &str) -> Vec<Value> {
        self.written
            .iter()
            .filter(|line| line.contains(contains))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Returns the ends of turns, in order.
    #[must_use]
    pub fn done(&self) -> Vec<&TurnDone> {
        self.actions
            .iter()
            .filter_map(
                |action| if let Action::TurnDone(done) = action { Some(done) } else { None },
            )
            .collect()
    }

    /// Returns the outcomes of turns, in order.
    #[must_use]
    pub fn outcomes(&self) -> Vec<&Outcome> {
        self.done().into_iter().map(|done| &done.outcome).collect()
    }

    /// Returns the backend.
    #[must_use]
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Replaces the backend by a new instance that loads its saved state, as after a reload.
    pub fn reload(&mut self) -> &mut Self {
        let state = self.backend.save().expect("an idle link can be saved");
        let mut backend = B::default();
        backend.load(&state, "0.0.0").expect("a saved state can be loaded");
        self.backend = backend;
        self
    }

    /// Plays all inputs again, replaces the instance whenever it can be saved, and compares the
    /// actions. Returns the number of replacements.
    pub fn check_moving(&self) -> usize {
        let (mut backend, mut actions, mut moves) = (B::default(), Vec::new(), 0);
        for (number, input) in self.inputs.iter().enumerate() {
            if let Some(state) = backend.save() {
                backend = B::default();
                backend.load(&state, "0.0.0").expect("a saved state can be loaded");
                moves += 1;
            }
            let seen = actions.len();
            backend
                .handle(input.clone(), &mut actions)
                .expect("a backend accepts any output of its agent");
            let done =
                &self.actions[seen.min(self.actions.len())..actions.len().min(self.actions.len())];
            assert_eq!(
                &actions[seen..],
                done,
                "input {} after {moves} moves: {input:?}",
                number + 1
            );
        }
        assert_eq!(actions.len(), self.actions.len());
        moves
    }

    /// Compares inputs and actions with the golden files next to the dialogue, or writes them if
    /// `UPDATE_GOLDEN` is set.
    pub fn check(&self) {
        check(&self.case, &self.inputs, &self.actions);
    }

    /// Plays one recorded line. Returns `false` at the end.
    fn step(&mut self) -> bool {
        let Some((at, event)) = self.rest.pop_front() else { return false };
        self.until_time(at);
        match event {
            RecordedLine::Host(text) => self.host(&text),
            RecordedLine::Exit(_) if self.procs.is_empty() => {}
            RecordedLine::Agent(text) | RecordedLine::Stderr(text) if self.procs.is_empty() => {
                self.skipped.push(text)
            }
            RecordedLine::Agent(text) => match self.answering(&text) {
                Some(text) => drop(self.pipe(Pipe::Stdout, &text)),
                None => self.skipped.push(text),
            },
            RecordedLine::Stderr(text) => drop(self.pipe(Pipe::Stderr, &text)),
            RecordedLine::Exit(how) => drop(self.exit(how)),
        }
        true
    }

    fn until_time(&mut self, at: f64) -> &mut Self {
        while let Some((&timer, &due)) = self.timers.iter().min_by(|(_, a), (_, b)| a.total_cmp(b))
            && due <= at
        {
            self.timers.remove(&timer);
            self.now = self.now.max(due);
            self.input(Input::Timer(timer));
        }
        self.now = self.now.max(at);
        self
    }

    fn host(&mut self, text: &str) {
        let mut line = serde_json::from_str(text).unwrap_or_default();
        let Some(Half { id, method: Some(method) }) = (self.calls)(&mut line) else { return };
        let count = self.counts.entry(method.clone()).or_default();
        self.asked.insert(id.to_string(), (method, *count));
        *count += 1;
    }

    /// Returns a line of the agent with the id of the backend's matching request, or `None` if the
    /// line responds to a request that the backend did not make.
    fn answering(&self, text: &str) -> Option<String> {
        let mut line: Value = match serde_json::from_str(text) {
            Ok(line) => line,
            Err(_) => return Some(text.to_owned()),
        };
        let Some(Half { id, method: None }) = (self.calls)(&mut line) else {
            return Some(text.to_owned());
        };
        if let Some((method, number)) = self.asked.get(&id.to_string()) {
            *id = self.ids(method).into_iter().nth(*number)?;
            return Some(line.to_string());
        }
        Some(text.to_owned())
    }

    /// Returns the ids of the backend's requests with this method, in order.
    fn ids(&self, method: &str) -> Vec<Value> {
        let id = |line: &String| {
            let mut line = serde_json::from_str(line).ok()?;
            let half = (self.calls)(&mut line)?;
            (half.method.as_deref() == Some(method)).then(|| half.id.clone())
        };
        self.written.iter().filter_map(id).collect()
    }

    fn pipe(&mut self, pipe: Pipe, text: &str) -> &mut Self {
        if pipe == Pipe::Stderr {
            self.stderr.push(text.to_owned());
        }
        let proc = self.proc();
        self.input(Input::Line(Line { proc, pipe, text: text.to_owned(), truncated: false }))
    }

    fn proc(&self) -> u32 {
        *self.procs.front().expect("the backend has a process")
    }
}

fn parse_line(line: &str) -> Option<(f64, RecordedLine)> {
    let line: Value = serde_json::from_str(line).unwrap();
    let at = microseconds(line["t"].as_f64().unwrap() * 1000.0);
    let text = || line["raw"].as_str().map_or_else(|| line["msg"].to_string(), str::to_owned);
    let event = match line["dir"].as_str().unwrap() {
        ">" => RecordedLine::Host(text()),
        "<" => RecordedLine::Agent(text()),
        "!" => RecordedLine::Stderr(text()),
        _ => match line["msg"].get("exit")?.as_i64() {
            Some(code @ 0..) => RecordedLine::Exit(Exit::Code(u32::try_from(code).unwrap())),
            Some(signal) => RecordedLine::Exit(Exit::Signal(u32::try_from(-signal).unwrap())),
            None => RecordedLine::Exit(Exit::Unknown),
        },
    };
    Some((at, event))
}

/// Rounds milliseconds to three decimals, so that the number survives a round trip as text.
#[must_use]
pub fn microseconds(ms: f64) -> f64 {
    (ms * 1000.0).round() / 1000.0
}

fn text(body: &[Chunk]) -> String {
    body.iter()
        .map(|chunk| match chunk {
            Chunk::Text(text) => text.clone(),
            Chunk::Base64(blob) => format!("<base64 of {blob}>"),
            Chunk::Secret(name) => format!("<secret {name}>"),
            Chunk::ToolServer(session) => format!("<tool server of session {session}>"),
        })
        .collect()
}

#[cfg(test)]
#[path = "dialogue_tests.rs"]
mod tests;
