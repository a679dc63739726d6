//! `codex app-server`: one process, a thread for every session.
//!
//! Owns the life of the process and of its threads ([`session`], [`turn`]), and whom a message of it is for ([`notice`], [`asks`],
//! [`query`]). Newline-delimited JSON-RPC without the `jsonrpc` field; the process leaves when its stdin is closed, and
//! refuses a second `initialize`, so that a newer generation takes its state over ([`saved`]).

mod asks;
mod notice;
mod query;
mod saved;
mod session;
mod turn;
mod wire;

use std::collections::BTreeMap;

use aetheel_backend_sdk::Backend;
use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::one_shot::spawn;
use aetheel_backend_sdk::rpc::{Calls, Ids, Message};
use aetheel_backend_sdk::text::{SAMPLE_BYTES, head, stderr_summary};
use aetheel_backend_sdk::wit::{
    Action, Answer, Command, Diagnostic, Exit, Exited, Failure, FailureKind, Input, Level, Line, Outcome, Pipe, Query, QueryKind, Signal,
    Spawn, Stop, TimedInput, Value as Argument,
};
use serde_json::json;

use crate::failure;
use asks::Asks;
use session::{Begun, Session};

/// Milliseconds an agent that cannot be used may take to leave.
const STOP_GRACE_MS: u32 = 2000;

/// A link with `codex app-server`.
#[derive(Debug)]
pub struct Live {
    agent: Agent,
    calls: Calls<Call>,
    sessions: BTreeMap<u32, Session>,
    asks: Asks,
    /// Asked before the agent was ready.
    waiting: Vec<Query>,
    procs: u32,
}

/// The process.
#[derive(Debug)]
enum Agent {
    Down,
    /// Asked for, or shaking hands.
    Starting(u32),
    Ready(u32),
}

/// What a request of ours was for.
#[derive(Debug)]
enum Call {
    Initialize,
    /// Opens a thread, for this turn of this session.
    Open(u32, u32),
    /// Starts this turn of this session.
    Begin(u32, u32, Box<Begun>),
    /// Steers this message in.
    Steer(u32),
    Query(Query),
    /// Whatever comes of it.
    Note,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            agent: Agent::Down,
            calls: Calls::new("", Ids::Numbers),
            sessions: BTreeMap::new(),
            asks: Asks::default(),
            waiting: Vec::new(),
            procs: 0,
        }
    }
}

impl Backend for Live {
    fn describe() -> String {
        include_str!("../descriptor.json").to_owned()
    }

    fn handle(&mut self, input: TimedInput, out: &mut Vec<Action>) -> Result<(), String> {
        match input.input {
            Input::Command(command) => self.command(command, out),
            Input::Spawned(spawned) if self.is_starting(spawned.proc) => self.initialize(spawned.proc, out),
            Input::SpawnFailed(failed) if self.is_starting(failed.proc) => {
                let kind = if failed.not_found { FailureKind::NotFound } else { FailureKind::Other };
                self.down(&Outcome::Failed(Failure { kind, message: failed.message, retry_after_ms: None }), out);
            }
            Input::Line(line) if self.proc() == Some(line.proc) && line.pipe == Pipe::Stdout => self.line(&line, out),
            Input::Exited(exited) if self.proc() == Some(exited.proc) => {
                let failure = Failure { kind: FailureKind::Crashed, message: last_words(&exited), retry_after_ms: None };
                self.down(&Outcome::Lost(failure), out);
            }
            _ => {}
        }
        Ok(())
    }

    fn save(&self) -> Option<String> {
        self.saved()
    }

    fn load(&mut self, state: &str, saved_by: &str) -> Result<(), String> {
        *self = Self::restored(state).ok_or_else(|| format!("the state saved by version {saved_by} is not one this version reads"))?;
        Ok(())
    }
}

impl Live {
    fn command(&mut self, command: Command, out: &mut Vec<Action>) {
        match command {
            Command::StartTurn(start) => self.start(start, out),
            Command::Steer(steer) => self.steer(&steer, out),
            Command::Interrupt(turn) => self.interrupt(turn, out),
            Command::Answer(Answer { ask, decision }) => self.answered(ask, decision, out),
            Command::CloseSession(session) => self.close(session, out),
            Command::Query(query) => match &self.agent {
                Agent::Ready(_) => self.ask(query, out),
                Agent::Starting(_) => self.waiting.push(query),
                Agent::Down => {
                    self.waiting.push(query);
                    self.launch(None, out);
                }
            },
            // It leaves by itself, and drops what it was doing.
            Command::Shutdown => out.extend(self.proc().map(Action::CloseStdin)),
        }
    }

    fn proc(&self) -> Option<u32> {
        match self.agent {
            Agent::Down => None,
            Agent::Starting(proc) | Agent::Ready(proc) => Some(proc),
        }
    }

    fn is_starting(&self, proc: u32) -> bool {
        matches!(self.agent, Agent::Starting(starting) if starting == proc)
    }

    fn launch(&mut self, turn: Option<(u32, u32)>, out: &mut Vec<Action>) {
        self.procs += 1;
        self.agent = Agent::Starting(self.procs);
        out.push(Action::Spawn(Spawn {
            proc: self.procs,
            keep_open: true,
            session: turn.map(|(session, _)| session),
            turn: turn.map(|(_, turn)| turn),
            ..spawn("codex", [Argument::Text("app-server".to_owned())], Vec::new())
        }));
    }

    fn initialize(&mut self, proc: u32, out: &mut Vec<Action>) {
        let client = json!({ "name": "aetheel", "title": "Aetheel", "version": env!("CARGO_PKG_VERSION") });
        // The mode `plan` and its questions are of the experimental ones.
        let params = json!({ "clientInfo": client, "capabilities": { "experimentalApi": true, "requestAttestation": false } });
        self.calls.request(proc, "initialize", &params.to_string(), Call::Initialize, out);
    }

    fn line(&mut self, line: &Line, out: &mut Vec<Action>) {
        if line.text.trim().is_empty() {
            return;
        }
        let Some(said) = json::parse(&line.text).ok().filter(|said| said.as_object().is_some()) else {
            let what = if line.truncated { "line longer than the limit" } else { "line that is not a JSON object" };
            return self.strange(what, &Value::Null, &line.text, out);
        };
        match self.calls.sort(&said) {
            Message::Response(call, result) => self.response(call, result, out),
            Message::Request(id, method, params) => self.request(id, method, params, &line.text, out),
            Message::Notification(method, params) => self.notification(method, params, &line.text, out),
            Message::Stray(_) => self.strange("answer to nothing that was asked", &Value::Null, &line.text, out),
            Message::Other => self.strange("message without a method", &Value::Null, &line.text, out),
        }
    }

    fn response(&mut self, call: Call, result: Result<&Value, &Value>, out: &mut Vec<Action>) {
        match call {
            Call::Initialize => match (result, self.proc()) {
                (Ok(_), Some(proc)) => {
                    self.agent = Agent::Ready(proc);
                    self.calls.notify(proc, "initialized", "{}", out);
                    for query in std::mem::take(&mut self.waiting) {
                        self.ask(query, out);
                    }
                    let sessions: Vec<u32> = self.sessions.keys().copied().collect();
                    for session in sessions {
                        self.advance(session, out);
                    }
                }
                (Ok(_), None) => {}
                (Err(error), proc) => {
                    let failure = refusal(error);
                    self.down(&Outcome::Failed(Failure { kind: FailureKind::Protocol, ..failure }), out);
                    out.extend(proc.map(|proc| Action::Stop(Stop { proc, signal: Signal::Terminate, grace_ms: STOP_GRACE_MS })));
                }
            },
            Call::Open(session, turn) => self.opened(session, turn, result, out),
            Call::Begin(session, turn, begun) => self.begun(session, turn, *begun, result, out),
            Call::Steer(message) => session::steered(message, result.is_ok(), out),
            Call::Query(query) => self.query_answered(query, result, out),
            Call::Note => {}
        }
    }

    /// The process is not there any more: everything that waits for it ends.
    fn down(&mut self, outcome: &Outcome, out: &mut Vec<Action>) {
        self.agent = Agent::Down;
        self.asks.clear();
        let (Outcome::Failed(failure) | Outcome::Lost(failure)) = outcome else { return };
        for session in std::mem::take(&mut self.sessions).into_values() {
            if let Some(query) = session.compacting {
                query::fail(query, failure.clone(), out);
            }
            session.end(outcome.clone(), out);
        }
        for call in self.calls.clear() {
            match call {
                Call::Steer(message) => session::steered(message, false, out),
                // Of a thread that is being shortened it was said above.
                Call::Query(query) if query.kind != QueryKind::Compact => query::fail(query.query, failure.clone(), out),
                _ => {}
            }
        }
        for query in std::mem::take(&mut self.waiting) {
            query::fail(query.query, failure.clone(), out);
        }
    }

    /// Tells of output this parser does not know: in the turn it belongs to, else in any that is open, else in the log.
    fn strange(&self, what: &str, params: &Value, output: &str, out: &mut Vec<Action>) {
        let own = self.session_of(params).and_then(|key| self.sessions.get(&key)?.turn.as_ref());
        let turn = own.or_else(|| self.sessions.values().find_map(|session| session.turn.as_ref()));
        match turn {
            Some(turn) => turn.emit(out).unrecognised(what, None, output),
            None => {
                let text = format!("unrecognised outside a turn: {what}: {}", head(output, SAMPLE_BYTES / 8));
                out.push(Action::Diagnostic(Diagnostic { level: Level::Warn, text }));
            }
        }
    }
}

/// Returns what an `error` object says.
fn refusal(error: &Value) -> Failure {
    failure::failure(error.text("message").unwrap_or("the request was refused"), &error["data"]["codexErrorInfo"])
}

fn last_words(exited: &Exited) -> String {
    let how = match exited.how {
        Exit::Code(code) => format!("the agent ended (exit code {code})"),
        Exit::Signal(signal) => format!("the agent was ended by signal {signal}"),
        Exit::Unknown => "the agent ended".to_owned(),
    };
    match stderr_summary(&exited.stderr_tail, 5) {
        said if said.is_empty() => how,
        said => format!("{how}: {said}"),
    }
}
