//! Recorded dialogues with long-lived agents as tests: both sides' lines, played through a backend
//! natively.
//!
//! A dialogue is a file `NAME.dialogue`, one object `{"t", "dir", "msg" | "raw"}` a line: `t` seconds since the start; `dir` is `>` host to agent, `<` agent to host, `!`
//! a line of the agent's stderr, `#` a note (`spawn`, `exit`). [`Play`] feeds the agent's half of
//! it to a backend. Backends number their requests themselves, so the id of a recorded response is
//! replaced by that of the request the backend really made: the third `turn/start` of the recording
//! answers the third one written. Requests that the backend never made are not answered.
//!
//! Commands come from the test, between the pieces it lets play. [`Play::check`] writes down the
//! recording (`NAME.jsonl`) and the actions, for the component to be compared with.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "part of tests: a panic says what is wrong"
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

/// The marks of a line that is half of a call.
#[derive(Debug)]
pub struct Half<'a> {
    /// Where its id stands.
    pub id: &'a mut Value,
    /// The method that is called; none: it is an answer.
    pub method: Option<String>,
}

/// Finds the half of a call that a line is, in either direction; none: it is not part of one.
pub type Calls = fn(&mut Value) -> Option<Half<'_>>;

/// JSON-RPC and its dialects: `id` and `method`.
pub fn json_rpc(line: &mut Value) -> Option<Half<'_>> {
    let method = line.get("method").and_then(Value::as_str).map(str::to_owned);
    let id = line.get_mut("id").filter(|id| !id.is_null())?;
    Some(Half { id, method })
}

/// The control protocol of Claude Code: `control_request` and `control_response`.
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
enum Said {
    Host(String),
    Agent(String),
    Stderr(String),
    Exit(Exit),
}

/// A dialogue while it is played through a backend.
#[derive(Debug)]
pub struct Play<B> {
    backend: B,
    /// Where the dialogue is, without the ending `.dialogue`.
    case: PathBuf,
    calls: Calls,
    /// The recorded lines still to come, each with its time in milliseconds.
    rest: VecDeque<(f64, Said)>,
    /// Recorded requests of the host: id to method and how many of the method came before.
    asked: BTreeMap<String, (String, usize)>,
    counts: BTreeMap<String, usize>,
    timers: BTreeMap<u32, f64>,
    /// Processes that run, oldest first: that is the one which speaks.
    procs: VecDeque<u32>,
    stderr: Vec<String>,
    now: f64,
    /// Everything the backend was told.
    pub inputs: Vec<TimedInput>,
    /// Everything the backend did.
    pub actions: Vec<Action>,
    /// Everything it wrote to the agent, one line each; `<base64 of 1>` stands for the bytes of
    /// blob 1.
    pub written: Vec<String>,
    /// Recorded lines left out: they answer what the backend did not ask, or no process runs.
    pub skipped: Vec<String>,
}

impl<B: Backend> Play<B> {
    /// Reads a dialogue: `case` is its path without `.dialogue`. Nothing is played yet.
    #[must_use]
    pub fn load(case: &Path, calls: Calls) -> Self {
        let path = beside(case, "dialogue");
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { case: case.to_owned(), ..Self::of(&text, calls) }
    }

    /// A dialogue that is not in a file.
    #[must_use]
    pub fn of(text: &str, calls: Calls) -> Self {
        Self {
            backend: B::default(),
            case: PathBuf::new(),
            calls,
            rest: text.lines().filter_map(said).collect(),
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

    /// Hands the backend the command that starts a turn.
    pub fn start(&mut self, start: StartTurn) -> &mut Self {
        self.command(Command::StartTurn(start))
    }

    /// Hands the backend a command of the host.
    pub fn command(&mut self, command: Command) -> &mut Self {
        self.input(Input::Command(command))
    }

    /// Gives any input. A process the backend asks for is `spawned` at once.
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
            .expect("a backend does not give up over output");
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

    /// The agent says a line that is not recorded, verbatim.
    pub fn say(&mut self, text: &str) -> &mut Self {
        self.pipe(Pipe::Stdout, text)
    }

    /// The agent ends; what it wrote to stderr so far is the tail.
    pub fn exit(&mut self, how: Exit) -> &mut Self {
        let stderr_tail = self.stderr.join("\n");
        let proc = self.proc();
        self.input(Input::Exited(Exited { proc, how, stderr_tail }))
    }

    /// Lets time pass; timers run out.
    pub fn elapse(&mut self, ms: f64) -> &mut Self {
        self.until_time(microseconds(self.now + ms))
    }

    /// Plays up to and with the line after which an action that fits appears, and returns that
    /// action.
    pub fn until(&mut self, fits: impl Fn(&Action) -> bool) -> Action {
        let mut seen = self.actions.len();
        loop {
            if let Some(action) = self.actions[seen..].iter().find(|action| fits(action)) {
                return action.clone();
            }
            seen = self.actions.len();
            assert!(self.step(), "the dialogue is over and no such action came");
        }
    }

    /// Plays up to the next recorded line of the host that contains a text, for example
    /// `"turn/interrupt"`. That line is passed: what answers it comes next.
    pub fn until_host(&mut self, contains: &str) -> &mut Self {
        loop {
            let here =
                matches!(self.rest.front(), Some((_, Said::Host(text))) if text.contains(contains));
            assert!(self.step(), "no further line of the host contains {contains}");
            if here {
                return self;
            }
        }
    }

    /// Plays up to and with the next recorded line of the agent that contains a text.
    pub fn until_agent(&mut self, contains: &str) -> &mut Self {
        loop {
            let here = matches!(self.rest.front(), Some((_, Said::Agent(text))) if text.contains(contains));
            assert!(self.step(), "no further line of the agent contains {contains}");
            if here {
                return self;
            }
        }
    }

    /// Plays all that is left.
    pub fn finish(&mut self) -> &mut Self {
        while self.step() {}
        self
    }

    /// Forgets what is left, as when the test goes its own way from here.
    pub fn cut(&mut self) -> &mut Self {
        self.rest.clear();
        self
    }

    /// The id, as JSON, of the last request of a method that the backend wrote.
    #[must_use]
    pub fn id_of(&self, method: &str) -> Option<String> {
        self.ids(method).pop().map(|id| id.to_string())
    }

    /// Lines the backend wrote that contain a text, parsed.
    #[must_use]
    pub fn written_with(&self, contains: &str) -> Vec<Value> {
        self.written
            .iter()
            .filter(|line| line.contains(contains))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// How the turns ended, in that order.
    #[must_use]
    pub fn done(&self) -> Vec<&TurnDone> {
        self.actions
            .iter()
            .filter_map(
                |action| if let Action::TurnDone(done) = action { Some(done) } else { None },
            )
            .collect()
    }

    /// How the turns ended, in a word each and in that order.
    #[must_use]
    pub fn outcomes(&self) -> Vec<&Outcome> {
        self.done().into_iter().map(|done| &done.outcome).collect()
    }

    /// The backend, to be saved.
    #[must_use]
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Another instance takes over, as after a reload: what the first one saved is loaded into it.
    pub fn reload(&mut self) -> &mut Self {
        let state = self.backend.save().expect("an idle link can be saved");
        let mut backend = B::default();
        backend.load(&state, "0.0.0").expect("what was saved can be loaded");
        self.backend = backend;
        self
    }

    /// Plays everything again to an instance that is replaced by another whenever it can be saved,
    /// and compares what is done. Returns how often it was.
    pub fn check_moving(&self) -> usize {
        let (mut backend, mut actions, mut moves) = (B::default(), Vec::new(), 0);
        for (number, input) in self.inputs.iter().enumerate() {
            if let Some(state) = backend.save() {
                backend = B::default();
                backend.load(&state, "0.0.0").expect("what was saved can be loaded");
                moves += 1;
            }
            let seen = actions.len();
            backend
                .handle(input.clone(), &mut actions)
                .expect("a backend does not give up over output");
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

    /// Compares the recording and the actions beside the dialogue with what the backend got and did,
    /// or writes them when `UPDATE_GOLDEN` is set.
    pub fn check(&self) {
        check(&self.case, &self.inputs, &self.actions);
    }

    /// Plays one recorded line. Returns false when there is none left.
    fn step(&mut self) -> bool {
        let Some((at, said)) = self.rest.pop_front() else { return false };
        self.until_time(at);
        match said {
            Said::Host(text) => self.host(&text),
            Said::Exit(_) if self.procs.is_empty() => {}
            Said::Agent(text) | Said::Stderr(text) if self.procs.is_empty() => {
                self.skipped.push(text)
            }
            Said::Agent(text) => match self.answering(&text) {
                Some(text) => drop(self.pipe(Pipe::Stdout, &text)),
                None => self.skipped.push(text),
            },
            Said::Stderr(text) => drop(self.pipe(Pipe::Stderr, &text)),
            Said::Exit(how) => drop(self.exit(how)),
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

    /// A line of the agent with the id of the request it answers here; none: it answers nothing
    /// asked here.
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

    /// Ids of the requests of a method that the backend wrote, in order.
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

fn said(line: &str) -> Option<(f64, Said)> {
    let line: Value = serde_json::from_str(line).unwrap();
    let at = microseconds(line["t"].as_f64().unwrap() * 1000.0);
    let text = || line["raw"].as_str().map_or_else(|| line["msg"].to_string(), str::to_owned);
    let said = match line["dir"].as_str().unwrap() {
        ">" => Said::Host(text()),
        "<" => Said::Agent(text()),
        "!" => Said::Stderr(text()),
        _ => match line["msg"].get("exit")?.as_i64() {
            Some(code @ 0..) => Said::Exit(Exit::Code(u32::try_from(code).unwrap())),
            Some(signal) => Said::Exit(Exit::Signal(u32::try_from(-signal).unwrap())),
            None => Said::Exit(Exit::Unknown),
        },
    };
    Some((at, said))
}

/// Milliseconds to three decimals: as short a number reads back as it was written, whatever reads
/// it.
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
        })
        .collect()
}

#[cfg(test)]
#[path = "dialogue_tests.rs"]
mod tests;
