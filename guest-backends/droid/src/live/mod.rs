//! A long-lived `droid exec`, spoken to in JSON-RPC over its stdio: one session, many turns.
//!
//! [`Live::advance`] is the heart: whenever something changed, it does the next thing a waiting turn needs: start Droid,
//! open the session, put the settings, hand over the prompt. The rest is what Droid says while the turn runs ([`notes`])
//! and asks ([`ask`]).

mod ask;
mod notes;
mod open;
mod query;
mod turn;

use std::collections::BTreeMap;

use aetheel_backend_sdk::json::{self, Value as Json};
use aetheel_backend_sdk::rpc::{Calls, Ids, Message};
use aetheel_backend_sdk::text::{one_line, stderr_summary};
use aetheel_backend_sdk::wit::{
    Action, Command, Exit, Exited, FailureKind, Input, Line, Outcome, Pipe, Query, SetTimer, Signal, Spawn, SpawnFailed, StartTurn, Stop,
    TimedInput, TurnDone, TurnRef,
};
use aetheel_backend_sdk::{Backend, Emit};

use self::ask::Ask;
use self::open::Put;
use self::turn::Turn;
use crate::failure::{self, failure};
use crate::plan::{self, Fixed, word};

const ENVELOPE: &str = r#""jsonrpc":"2.0","type":"$kind","factoryApiVersion":"1.0.0""#;
/// Runs while Droid is asked to leave.
const LEAVE: u32 = 1;
/// Milliseconds Droid may take to leave by itself; it takes 200 (a hung one does not at all).
const LEAVE_MS: u32 = 1500;
const STOP_GRACE_MS: u32 = 1000;

/// What a request of ours was for.
#[derive(Debug)]
enum Call {
    /// Make the session, with these settings.
    New(Put),
    /// Load the session with this id, and go on with a copy of it.
    Load {
        id: String,
        fork: bool,
    },
    Fork,
    Settings(Put),
    Prompt,
    Steer(u32),
    Interrupt,
    Close,
    Health(u32),
    Models(u32),
    Rename(u32),
    Compact(u32),
}

/// Where the process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Agent {
    #[default]
    None,
    /// Asked for.
    Starting,
    Up,
    /// Asked to go.
    Leaving,
}

/// One session with a long-lived Droid.
#[derive(Debug)]
pub struct Live {
    calls: Calls<Call>,
    agent: Agent,
    /// Key of the last process.
    proc: u32,
    /// What that process was started with.
    fixed: Fixed,
    /// The session to load before the next prompt, and whether a copy of it.
    resume: Option<(String, bool)>,
    /// The session that is open in the process.
    native: Option<String>,
    /// What is in force in the session; none: not known.
    put: Option<Put>,
    /// What the session had before anybody chose.
    defaults: Put,
    /// The host's key of the session.
    session: u32,
    turn: Option<Turn>,
    asks: BTreeMap<u32, Ask>,
    last_ask: u32,
    /// Questions of the host that wait for Droid.
    queries: Vec<Query>,
    /// The host wants Droid to go for good.
    closing: bool,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            calls: Calls::new(ENVELOPE, Ids::Strings),
            agent: Agent::None,
            proc: 0,
            fixed: Fixed::default(),
            resume: None,
            native: None,
            put: None,
            defaults: Put::default(),
            session: 0,
            turn: None,
            asks: BTreeMap::new(),
            last_ask: 0,
            queries: Vec::new(),
            closing: false,
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
            Input::Spawned(spawned) if spawned.proc == self.proc && self.agent == Agent::Starting => {
                self.agent = Agent::Up;
                self.advance(out);
            }
            Input::SpawnFailed(failed) if failed.proc == self.proc => self.spawn_failed(failed, out),
            Input::Line(line) if line.proc == self.proc && line.pipe == Pipe::Stdout => self.line(&line, out),
            Input::Exited(exited) if exited.proc == self.proc => self.exited(&exited, out),
            Input::Timer(LEAVE) if self.agent == Agent::Leaving => {
                out.push(Action::Stop(Stop { proc: self.proc, signal: Signal::Terminate, grace_ms: STOP_GRACE_MS }));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Live {
    fn command(&mut self, command: Command, out: &mut Vec<Action>) {
        match command {
            Command::StartTurn(start) => self.start(start, out),
            Command::Steer(steer) => self.steer(steer, out),
            Command::Interrupt(turn) => self.interrupt(turn, out),
            Command::Answer(answer) => self.answer(answer, out),
            Command::Query(query) => self.query(query, out),
            Command::CloseSession(_) | Command::Shutdown => {
                self.closing = true;
                self.leave(out);
            }
        }
    }

    fn start(&mut self, start: StartTurn, out: &mut Vec<Action>) {
        let key = TurnRef { session: start.session, turn: start.turn };
        let refuse = |kind, message: &str, out: &mut Vec<Action>| {
            out.push(done(key, Outcome::Failed(failure(kind, message))));
        };
        if self.turn.is_some() {
            return refuse(FailureKind::Unsupported, "one turn at a time", out);
        }
        if start.parts.is_empty() || (plan::prompt(&start.parts, false)).trim().is_empty() {
            return refuse(FailureKind::BadRequest, "the prompt is empty", out);
        }
        if let Err(failure) = plan::check_tools(&start.settings, &mut Emit::new(key, out)) {
            out.push(done(key, Outcome::Failed(failure)));
            return;
        }
        // A session that is known here goes on, whatever the host remembers.
        if self.native.is_none()
            && self.resume.is_none()
            && !self.calls.open().any(|call| matches!(call, Call::New(_) | Call::Load { .. } | Call::Fork))
        {
            self.resume = start.native_id.clone().map(|id| (id, start.fork));
        }
        self.session = start.session;
        self.closing = false;
        self.turn = Some(Turn::new(start));
        self.advance(out);
    }

    /// Does the next thing a turn or a question that waits needs, if it can be done now.
    fn advance(&mut self, out: &mut Vec<Action>) {
        match self.agent {
            Agent::None if self.turn.is_some() || !self.queries.is_empty() => return self.spawn(out),
            Agent::Up => {}
            Agent::None | Agent::Starting | Agent::Leaving => return,
        }
        for query in std::mem::take(&mut self.queries) {
            self.ask_droid(query, out);
        }
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.waits()) else { return };
        if self
            .calls
            .open()
            .any(|call| matches!(call, Call::New(_) | Call::Load { .. } | Call::Fork | Call::Settings(_) | Call::Compact(_)))
        {
            return;
        }
        if self.fixed != Fixed::of(&turn.settings) {
            return self.leave(out);
        }
        let wanted = Put::of(&turn.settings, &mut Emit::new(turn.key, out));
        let Some(native) = self.native.clone() else { return self.open(wanted, out) };
        let wanted = wanted.or(&self.defaults, self.put.as_ref());
        if let Some(params) = wanted.change_from(self.put.as_ref()) {
            return self.calls.request(self.proc, "droid.update_session_settings", &params, Call::Settings(wanted), out);
        }
        if let Some(put) = &mut self.put {
            put.safety = wanted.safety;
        }
        if !turn.told_session {
            turn.told_session = true;
            let model = self.put.as_ref().and_then(|put| put.model.clone());
            Emit::new(turn.key, out).session_ready(native, model);
        }
        let turn = self.turn.as_mut().expect("looked at above");
        turn.prompt(&mut self.calls, self.proc, out);
    }

    fn spawn(&mut self, out: &mut Vec<Action>) {
        self.fixed = self.turn.as_ref().map(|turn| Fixed::of(&turn.settings)).unwrap_or_default();
        let mut arguments = ["exec", "--input-format", "stream-jsonrpc", "--output-format", "stream-jsonrpc"].map(word).to_vec();
        self.fixed.flags(&mut arguments, out);
        self.proc += 1;
        self.agent = Agent::Starting;
        let turn = self.turn.as_ref().map(|turn| turn.key);
        out.push(Action::Spawn(Spawn {
            proc: self.proc,
            program: "droid".to_owned(),
            arguments,
            environment: Vec::new(),
            stdin: Vec::new(),
            keep_open: true,
            listens: false,
            basic_auth: None,
            session: turn.map(|turn| turn.session).or(self.queries.iter().find_map(|query| query.session)),
            turn: turn.map(|turn| turn.turn),
        }));
    }

    /// Asks Droid to go; it is stopped when it does not.
    fn leave(&mut self, out: &mut Vec<Action>) {
        match self.agent {
            Agent::Up => {
                self.calls.request(self.proc, "droid.interrupt_session", "{}", Call::Interrupt, out);
                self.calls.request(self.proc, "droid.close_session", "{}", Call::Close, out);
                out.push(Action::CloseStdin(self.proc));
                out.push(Action::SetTimer(SetTimer { timer: LEAVE, after_ms: LEAVE_MS }));
            }
            // There is no stdin to close yet.
            Agent::Starting => out.push(Action::Stop(Stop { proc: self.proc, signal: Signal::Terminate, grace_ms: STOP_GRACE_MS })),
            Agent::None | Agent::Leaving => return,
        }
        self.agent = Agent::Leaving;
    }

    fn line(&mut self, line: &Line, out: &mut Vec<Action>) {
        if line.text.trim().is_empty() {
            return;
        }
        if line.truncated {
            return self.unrecognised("line longer than the limit", None, &line.text, out);
        }
        let value = match json::parse(&line.text) {
            Ok(value) if value.as_object().is_some() => value,
            _ => return self.unrecognised("line that is not a JSON object", None, &line.text, out),
        };
        match self.calls.sort(&value) {
            Message::Response(call, result) => self.response(call, result, out),
            Message::Stray(stray) => self.stray(stray, out),
            Message::Request(id, method, params) => self.asked(&id, method, params, &line.text, out),
            Message::Notification("droid.session_notification", params) => self.notified(params, &line.text, out),
            Message::Notification(method, _) => {
                self.unrecognised(format!("notification {method:?}"), Some("method"), &line.text, out);
            }
            Message::Other => self.unrecognised("line that is no message", None, &line.text, out),
        }
    }

    /// An answer to nothing, or a second one: Droid first takes some requests and then finds that it cannot, and says so
    /// under the same id.
    fn stray(&mut self, stray: &Json, out: &mut Vec<Action>) {
        let Some(message) = stray["error"].text("message") else { return };
        match self.turn.as_mut() {
            Some(turn) if turn.prompted && !turn.heard => {
                let outcome = Outcome::Failed(failure(FailureKind::Protocol, message));
                self.end(outcome, None, out);
            }
            turn => {
                let key = turn.map_or(TurnRef { session: self.session, turn: 0 }, |turn| turn.key);
                let text = format!("Droid refused a message of ours: {}", one_line(message, 300));
                Emit::new(key, out).diagnostic(aetheel_backend_sdk::wit::Level::Warn, text);
            }
        }
    }

    fn spawn_failed(&mut self, failed: SpawnFailed, out: &mut Vec<Action>) {
        self.agent = Agent::None;
        let kind = if failed.not_found { FailureKind::NotFound } else { FailureKind::Other };
        self.fail_queries(&failure(kind, failed.message.clone()), out);
        if self.turn.is_some() {
            self.end(Outcome::Failed(failure(kind, failed.message)), None, out);
        }
    }

    fn exited(&mut self, exited: &Exited, out: &mut Vec<Action>) {
        let asked_to = self.agent == Agent::Leaving;
        if asked_to {
            out.push(Action::CancelTimer(LEAVE));
        }
        self.agent = Agent::None;
        // It is on disk, and loaded by the next process.
        self.resume = self.native.take().map(|id| (id, false)).or(self.resume.take());
        self.put = None;
        let said = stderr_summary(&exited.stderr_tail, 5);
        let how = match exited.how {
            Exit::Signal(signal) => format!("Droid was ended by signal {signal}"),
            Exit::Code(code) => format!("Droid ended (exit code {code})"),
            Exit::Unknown => "Droid ended".to_owned(),
        };
        let mut gone = failure(FailureKind::Crashed, if said.is_empty() { how } else { format!("{how}: {said}") });
        let calls = self.calls.clear();
        let waiting: Vec<u32> = calls.iter().filter_map(query::of_call).collect();
        for query in waiting {
            query::answer_failed(query, gone.clone(), out);
        }
        if asked_to && !self.closing && self.turn.as_ref().is_some_and(Turn::waits) {
            // Left to come back with other flags.
            return self.advance(out);
        }
        self.fail_queries(&gone, out);
        let Some(turn) = &self.turn else { return };
        let outcome = match turn {
            turn if turn.interrupted => Outcome::Interrupted,
            turn if turn.waits() && !said.is_empty() => {
                gone.kind = Some(failure::of_model(&said).kind).filter(|kind| *kind != FailureKind::Other).unwrap_or(gone.kind);
                Outcome::Failed(gone)
            }
            _ => Outcome::Lost(gone),
        };
        self.end(outcome, None, out);
    }

    /// Ends the open turn.
    fn end(&mut self, outcome: Outcome, text: Option<String>, out: &mut Vec<Action>) {
        let Some(turn) = self.turn.take() else { return };
        self.asks.clear();
        let (key, usage) = (turn.key, turn.usage);
        for message in turn.steered() {
            out.push(turn::steered(message, aetheel_backend_sdk::wit::SteerOutcome::Dropped));
        }
        out.push(Action::TurnDone(TurnDone { session: key.session, turn: key.turn, outcome, text, usage }));
    }

    fn unrecognised(&self, what: impl Into<String>, path: Option<&str>, raw: &str, out: &mut Vec<Action>) {
        if let Some(turn) = &self.turn {
            Emit::new(turn.key, out).unrecognised(what, path.map(str::to_owned), raw);
        }
    }
}

fn done(turn: TurnRef, outcome: Outcome) -> Action {
    Action::TurnDone(TurnDone { session: turn.session, turn: turn.turn, outcome, text: None, usage: None })
}
