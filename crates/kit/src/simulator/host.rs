//! The host's side of a link: records the inputs of the guest and its requests, and checks its
//! actions against the rules of the contract.

use std::collections::BTreeSet;

use super::launch::Launches;
use super::open::{OpenConnections, OpenProcesses, OpenTimers, OpenTurns, TurnId};
use super::report::ViolationReport;
use crate::finding::Rule;
use crate::trial::Endings;
use aetheel_model::agent::{
    Action, AgentEventKind, Ask, AskAnswer, Chunk, Descriptor, HostCommand, Input, PutFile,
    SessionId, Spawn,
};
use aetheel_model::plain::shortened;
use aetheel_turn::HOST_ASK;

/// Maximum size of the sample of unrecognised output, in bytes.
const MAX_SAMPLE: usize = 2 << 10;
/// Maximum size of a private file, in bytes.
const MAX_FILE: usize = 1 << 20;
/// Maximum number of private files of a link.
const MAX_FILES: usize = 8;

pub(super) struct SimulatedHost<'a> {
    pub(super) turns: OpenTurns,
    pub(super) processes: OpenProcesses,
    pub(super) timers: OpenTimers,
    connections: OpenConnections,
    asks: BTreeSet<u32>,
    calls: BTreeSet<u32>,
    launches: Launches<'a>,
    /// Whether the agent's output was changed, so that ids in it are not checked.
    forged: bool,
}

impl<'a> SimulatedHost<'a> {
    pub(super) fn of(descriptor: &'a Descriptor, forged: bool) -> Self {
        Self {
            turns: OpenTurns::default(),
            processes: OpenProcesses::default(),
            timers: OpenTimers::default(),
            connections: OpenConnections::default(),
            asks: BTreeSet::new(),
            calls: BTreeSet::new(),
            launches: Launches::of(descriptor),
            forged,
        }
    }

    /// Records in the host's state an input that is sent to the guest.
    pub(super) fn send(&mut self, input: &Input) {
        match input {
            Input::Command(HostCommand::StartTurn(start)) => {
                self.launches.begin(start);
                self.turns.begin((start.session, start.turn));
            }
            Input::Command(HostCommand::Shutdown | HostCommand::CloseSession(_)) => {
                self.turns.shut_down()
            }
            Input::Command(HostCommand::Answer(answer)) => drop(self.asks.remove(&answer.ask)),
            Input::Spawned(spawned) => self.processes.confirm(spawned.proc),
            Input::SpawnFailed(failed) => self.processes.exited(failed.proc),
            Input::Exited(exited) => self.processes.exited(exited.proc),
            Input::HttpResponse(response) => {
                self.connections.requests.remove(&response.request);
            }
            Input::HttpFailed(failed) => drop(self.connections.requests.remove(&failed.request)),
            Input::StreamClosed(closed) => drop(self.connections.streams.remove(&closed.stream)),
            Input::Timer(timer) => self.timers.remove(*timer),
            Input::ToolResult(result) => drop(self.calls.remove(&result.call)),
            _ => {}
        }
    }

    /// Returns the inputs that end everything that is open.
    pub(super) fn endings(&self, endings: &Endings) -> Vec<Input> {
        let mut ends = Vec::new();
        let stay = endings.body.is_some() && !self.connections.is_empty();
        self.processes.endings(endings.exit, stay, &mut ends);
        self.connections.endings(endings.body, &mut ends);
        let answers =
            self.asks.iter().map(|ask| AskAnswer { ask: *ask, decision: endings.decision.clone() });
        ends.extend(answers.map(|answer| Input::Command(HostCommand::Answer(answer))));
        ends
    }

    /// Applies an action to the host's state, and reports violations of the contract.
    pub(super) fn act(&mut self, action: &Action, report: &mut ViolationReport) {
        match action {
            Action::Spawn(spawn) => self.spawn(spawn, report),
            Action::Write(write) => self.known_process("write", write.proc, report),
            Action::CloseStdin(proc) => self.known_process("close-stdin", *proc, report),
            Action::Stop(stop) => {
                self.known_process("stop", stop.proc, report);
                report.over("stop.grace-ms", stop.grace_ms as usize, 10_000, "at most 10000");
            }
            Action::PutFile(file) => self.put_file(file, report),
            Action::Http(request) => {
                self.known_process("http", request.proc, report);
                path(&request.path, report);
                let timeout = request.timeout_ms as usize;
                report.over("http.timeout-ms", timeout, 600_000, "at most 600000");
                self.connections.requests.insert(request.request);
            }
            Action::OpenStream(open) => {
                self.known_process("open-stream", open.proc, report);
                path(&open.path, report);
                self.connections.streams.insert(open.stream);
            }
            Action::SetTimer(timer) => self.timers.set(timer.timer, timer.after_ms),
            Action::CancelTimer(timer) => self.timers.remove(*timer),
            Action::SessionReady(ready) => {
                if !self.forged && SessionId::new(&ready.native_id).is_err() {
                    let id = shortened(&ready.native_id, 150);
                    report.add(
                        Rule::Limits,
                        format!("session-ready with native-id {id:?}"),
                        "1 to 128 letters, digits, `_`, `.`, `:`, `-`, not beginning with `-`",
                    );
                }
            }
            Action::TurnBegun(turn) => {
                if turn.turn < 0x8000_0000 {
                    let got = format!("turn-begun with key {}", turn.turn);
                    report.add(Rule::Keys, got, "a key from 0x8000_0000 up");
                }
                self.turns.begin((turn.session, turn.turn));
            }
            Action::Event(event) => {
                self.running("an event", (event.session, event.turn), report);
                if let AgentEventKind::Unrecognised(unknown) = &event.kind {
                    let size = unknown.sample.len();
                    report.over("bytes of unrecognised.sample", size, MAX_SAMPLE, "at most 2 KiB");
                }
            }
            Action::Ask(ask) => self.ask(ask, report),
            Action::AskWithdrawn(ask) => drop(self.asks.remove(ask)),
            Action::ToolRequest(request) => {
                self.running("a tool request", (request.session, request.turn), report);
                if !self.calls.insert(request.call) {
                    let got = format!("a tool request with the open call key {}", request.call);
                    report.add(Rule::Keys, got, "a new key for each call");
                }
            }
            Action::TurnDone(done) => self.end_turn((done.session, done.turn), report),
            Action::CloseStream(_)
            | Action::Steered(_)
            | Action::QueryAnswer(_)
            | Action::Diagnostic(_) => {}
        }
    }

    fn spawn(&mut self, spawn: &Spawn, report: &mut ViolationReport) {
        if !self.processes.start(spawn.proc) {
            let got = format!("spawn with process key {} a second time", spawn.proc);
            report.add(Rule::Keys, got, "a fresh key for every process");
        }
        if let Err((got, expected)) = self.launches.check(spawn) {
            report.add(Rule::Plan, got, expected);
        }
    }

    fn ask(&mut self, ask: &Ask, report: &mut ViolationReport) {
        self.running("an ask", (ask.session, ask.turn), report);
        if ask.ask >= HOST_ASK {
            let got = format!("an ask with key {:#x}", ask.ask);
            report.add(Rule::Keys, got, "a key below 0x8000_0000");
        }
        self.asks.insert(ask.ask);
    }

    fn end_turn(&mut self, turn: TurnId, report: &mut ViolationReport) {
        match self.turns.end(turn) {
            Some(2) => report.add(
                Rule::EndsOnce,
                "a second turn-done for the same turn".into(),
                "one turn-done per turn",
            ),
            Some(_) => {}
            None => report.add(
                Rule::Keys,
                format!("turn-done for turn {}", turn.1),
                "a turn that has begun",
            ),
        }
    }

    fn put_file(&mut self, file: &PutFile, report: &mut ViolationReport) {
        let named = (1..=64).contains(&file.name.len())
            && file.name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b))
            && !file.name.starts_with('.');
        if !named {
            report.add(
                Rule::Limits,
                format!("put-file {:?}", file.name),
                "a plain name of letters, digits, `.`, `-`, `_`",
            );
        }
        report.over("bytes of put-file", size(&file.body), MAX_FILE, "at most 1 MiB");
        report.over("files", self.launches.put_file(&file.name), MAX_FILES, "at most 8");
    }

    fn known_process(&self, what: &str, proc: u32, report: &mut ViolationReport) {
        if !self.processes.was_started(proc) {
            let got = format!("{what} for process {proc}");
            report.add(Rule::Keys, got, "a process it started");
        }
    }

    fn running(&self, what: &str, turn: TurnId, report: &mut ViolationReport) {
        match self.turns.ends_of(turn) {
            Some(0) => {}
            Some(_) => report.add(
                Rule::EndsOnce,
                format!("{what} after the turn's end"),
                "nothing about a turn after its turn-done",
            ),
            None => report.add(
                Rule::Keys,
                format!("{what} of turn {} of session {}", turn.1, turn.0),
                "a turn that has begun",
            ),
        }
    }
}

fn path(path: &str, report: &mut ViolationReport) {
    if !path.starts_with('/') {
        let got = format!("a request for {:?}", shortened(path, 100));
        report.add(Rule::Limits, got, "a path that begins with `/`");
    }
}

fn size(body: &[Chunk]) -> usize {
    body.iter().map(|chunk| if let Chunk::Text(text) = chunk { text.len() } else { 0 }).sum()
}
