//! The life of the agent's process: its start, its leaving, its end.

use aetheel_backend_sdk::text::stderr_summary;
use aetheel_backend_sdk::wit::{
    Action, Exit, Exited, Failure, FailureKind, Outcome, QueryResult, SetTimer, Signal, Spawn, SpawnFailed, SteerOutcome, Steered, Stop,
    TurnRef, Value, Variable,
};
use aetheel_backend_sdk::{Emit, failure, last_words};
use serde_json::json;

use crate::agent::{Agent, Launch};
use crate::client::{Abilities, Call, Client, Process, answer, done};
use crate::session::Stage;

/// Milliseconds without a word after which a loaded session's history is taken to be told: Gemini CLI 0.61.0 tells it
/// within two.
const SETTLE_MS: u32 = 250;
/// Milliseconds an agent has to leave when its stdin was closed: codex-acp 2.6.0 takes two to seven seconds,
/// codex-acp 0.16.0 never leaves.
const LEAVE_MS: u32 = 2500;
/// Milliseconds between SIGTERM and the end.
pub(crate) const TERMINATE_MS: u32 = 2000;

impl<A: Agent> Client<A> {
    /// Starts the agent for a turn, or for a question before any turn.
    pub(crate) fn spawn(&mut self, turn: Option<TurnRef>, out: &mut Vec<Action>) {
        let settings = turn.and_then(|turn| self.sessions.get(&turn.session)?.turn.as_ref()).map(|turn| &turn.settings);
        let Launch { program, arguments, environment } = match self.agent.launch(settings) {
            Ok(launch) => launch,
            Err(failure) => {
                self.fail_all(&failure, out);
                return;
            }
        };
        // Of an agent that is still leaving, nothing is waited for and nothing is open any more.
        self.calls.clear();
        self.asked.clear();
        for session in self.sessions.values_mut() {
            session.stage = Stage::Closed;
            session.system = None;
            session.grants.clear();
        }
        self.procs += 1;
        let proc = self.procs;
        self.process = Process::Starting(proc);
        self.can = Abilities::default();
        let mut first = Vec::new();
        let hello = json!({
            "protocolVersion": 1,
            "clientCapabilities": { "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false },
            "clientInfo": { "name": "aetheel", "title": "Aetheel", "version": env!("CARGO_PKG_VERSION") },
        });
        self.calls.request(proc, "initialize", &hello.to_string(), Call::Initialize, &mut first);
        let stdin = first.into_iter().filter_map(|action| if let Action::Write(write) = action { Some(write.body) } else { None });
        out.push(Action::Spawn(Spawn {
            proc,
            program,
            arguments: arguments.into_iter().map(Value::Text).collect(),
            environment: environment.into_iter().map(|(name, value)| Variable { name, value: Value::Text(value) }).collect(),
            stdin: stdin.flatten().collect(),
            keep_open: true,
            listens: false,
            basic_auth: None,
            session: turn.map(|turn| turn.session),
            turn: turn.map(|turn| turn.turn),
        }));
    }

    /// Asks the agent to go: none minds its stdin being closed, and most leave then.
    pub(crate) fn leave(&mut self, out: &mut Vec<Action>) {
        if let Process::Starting(proc) | Process::Ready(proc) = self.process {
            let timer = self.set_timer(LEAVE_MS, out);
            self.process = Process::Leaving(proc, timer);
            out.push(Action::CloseStdin(proc));
        }
    }

    pub(crate) fn timer(&mut self, timer: u32, out: &mut Vec<Action>) {
        if let Process::Leaving(proc, leave) = self.process
            && leave == timer
        {
            out.push(Action::Stop(Stop { proc, signal: Signal::Terminate, grace_ms: TERMINATE_MS }));
            return;
        }
        let settling = self.sessions.iter().find_map(|(key, session)| match session.stage {
            Stage::Settling { timer: this, stirred } if this == timer => Some((*key, stirred)),
            _ => None,
        });
        if let Some((key, stirred)) = settling {
            let stage = if stirred { self.settle(out) } else { Stage::Ready };
            if let Some(session) = self.sessions.get_mut(&key) {
                session.stage = stage;
            }
            self.advance(key, out);
        }
    }

    pub(crate) fn settle(&mut self, out: &mut Vec<Action>) -> Stage {
        Stage::Settling { timer: self.set_timer(SETTLE_MS, out), stirred: false }
    }

    pub(crate) fn set_timer(&mut self, after_ms: u32, out: &mut Vec<Action>) -> u32 {
        self.timers += 1;
        out.push(Action::SetTimer(SetTimer { timer: self.timers, after_ms }));
        self.timers
    }

    pub(crate) fn not_spawned(&mut self, spawn: SpawnFailed, out: &mut Vec<Action>) {
        self.process = Process::None;
        self.calls.clear();
        let kind = if spawn.not_found { FailureKind::NotFound } else { FailureKind::Other };
        self.fail_all(&failure(kind, spawn.message), out);
    }

    pub(crate) fn exited(&mut self, exited: &Exited, out: &mut Vec<Action>) {
        let starting = matches!(self.process, Process::Starting(_));
        self.process = Process::None;
        self.asked.clear();
        let said = stderr_summary(&exited.stderr_tail, 5);
        let told = match exited.how {
            Exit::Code(code) if starting => self.agent.start_failure(code, &said),
            _ => None,
        };
        let lost = failure(FailureKind::Crashed, last_words("the agent", exited));
        for call in self.calls.clear() {
            match call {
                Call::List(query) | Call::Delete(query) => out.push(answer(query, QueryResult::Failed(lost.clone()))),
                Call::Steer(message) => out.push(Action::Steered(Steered { message, outcome: SteerOutcome::NotNow })),
                _ => {}
            }
        }
        for query in std::mem::take(&mut self.queries) {
            out.push(answer(query.query, QueryResult::Failed(told.clone().unwrap_or_else(|| lost.clone()))));
        }
        for (_, session) in std::mem::take(&mut self.sessions) {
            let Some(turn) = session.turn else { continue };
            let (key, stopping) = (turn.key, turn.stopping);
            turn.end(&mut Emit::new(key, out));
            let outcome = match &told {
                _ if stopping => Outcome::Interrupted,
                Some(failure) => Outcome::Failed(failure.clone()),
                None => Outcome::Lost(lost.clone()),
            };
            out.push(done(key, outcome));
        }
    }

    /// Ends everything that waits for the agent.
    pub(crate) fn fail_all(&mut self, failure: &Failure, out: &mut Vec<Action>) {
        let keys: Vec<u32> = self.sessions.keys().copied().collect();
        for key in keys {
            self.fail(key, failure.clone(), out);
        }
        for query in std::mem::take(&mut self.queries) {
            out.push(answer(query.query, QueryResult::Failed(failure.clone())));
        }
    }
}
