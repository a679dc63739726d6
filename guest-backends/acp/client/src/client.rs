//! The client's side of the protocol: the agent's process, its sessions, and what the host commands.

use std::collections::BTreeMap;

use aetheel_backend_sdk::json::Value as Json;
use aetheel_backend_sdk::rpc::{Calls, Ids};
use aetheel_backend_sdk::text::stderr_summary;
use aetheel_backend_sdk::wit::{
    Action, Answer, AskKind, Command, Decision, Delivery, Exit, Exited, Failure, FailureKind, Input, Level, Outcome, Query, QueryAnswer,
    QueryResult, SetTimer, Signal, Spawn, SpawnFailed, StartTurn, Steer, SteerOutcome, Steered, Stop, TimedInput, TurnDone, TurnRef, Value,
    Variable,
};
use aetheel_backend_sdk::{Backend, Emit};
use serde_json::json;

use crate::agent::{Agent, Launch, SystemPrompt};
use crate::config::What;
use crate::permission::{CANCELLED, Options};
use crate::prompt;
use crate::session::{How, Session, Stage};
use crate::turn::Turn;

/// Milliseconds without a word after which a loaded session's history is taken to be told: Gemini CLI 0.61.0 tells it
/// within two.
pub(crate) const SETTLE_MS: u32 = 250;
/// Milliseconds an agent has to leave when its stdin was closed: codex-acp 2.6.0 takes two to seven seconds,
/// codex-acp 0.16.0 never leaves.
const LEAVE_MS: u32 = 2500;
/// Milliseconds between SIGTERM and the end.
const TERMINATE_MS: u32 = 2000;

/// What was asked of the agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    Initialize,
    Authenticate(u32),
    Open(u32, How),
    /// Session, turn, what, and the value chosen.
    Set(u32, u32, What, String),
    /// Session and turn.
    Prompt(u32, u32),
    Steer(u32),
    List(u32),
    Delete(u32),
    /// Nothing depends on the answer.
    Other,
}

/// What the agent said it can do.
#[derive(Debug, Default)]
pub(crate) struct Abilities {
    pub(crate) name: String,
    pub(crate) load: bool,
    pub(crate) resume: bool,
    pub(crate) fork: bool,
    pub(crate) close: bool,
    pub(crate) list: bool,
    pub(crate) delete: bool,
    pub(crate) images: bool,
    pub(crate) system_prompt: bool,
    pub(crate) steering: Steering,
    /// Ways of signing in that need no person: id. And names of all ways.
    pub(crate) key_sign_in: Option<String>,
    pub(crate) sign_ins: Vec<String>,
}

/// Whether a message may be put into a running turn. Without a word about it, it may not: Gemini CLI 0.61.0 then cancels
/// the turn, Droid 0.225.2 garbles it, codex-acp 0.16.0 never answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Steering {
    #[default]
    None,
    /// `_session/steering` (codex-acp 2.6.0).
    Method,
    /// Another prompt (claude-agent-acp 0.49.0).
    Prompt,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Process {
    #[default]
    None,
    /// Not initialized yet.
    Starting(u32),
    Ready(u32),
    /// Its stdin is closed; the timer ends it.
    Leaving(u32, u32),
}

/// A permission request that waits for a person.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The agent's id of the request.
    pub(crate) id: String,
    pub(crate) session: u32,
    pub(crate) tool: String,
    pub(crate) options: Options,
}

/// A link with an agent of the protocol.
#[derive(Debug)]
pub struct Client<A> {
    pub(crate) agent: A,
    pub(crate) process: Process,
    pub(crate) calls: Calls<Call>,
    pub(crate) can: Abilities,
    pub(crate) sessions: BTreeMap<u32, Session>,
    pub(crate) asked: BTreeMap<u32, Asked>,
    /// Questions that wait for the agent to be ready.
    pub(crate) queries: Vec<Query>,
    procs: u32,
    asks: u32,
    timers: u32,
    one_shot: bool,
    /// When the input came that is being taken in.
    pub(crate) now: f64,
}

impl<A: Default> Default for Client<A> {
    fn default() -> Self {
        Self {
            agent: A::default(),
            process: Process::None,
            calls: Calls::new(r#""jsonrpc":"2.0""#, Ids::Numbers),
            can: Abilities::default(),
            sessions: BTreeMap::new(),
            asked: BTreeMap::new(),
            queries: Vec::new(),
            procs: 0,
            asks: 0,
            timers: 0,
            one_shot: false,
            now: 0.0,
        }
    }
}

impl<A: Agent> Backend for Client<A> {
    fn describe() -> String {
        A::describe()
    }

    fn handle(&mut self, input: TimedInput, out: &mut Vec<Action>) -> Result<(), String> {
        self.now = input.at_ms;
        match input.input {
            Input::Command(command) => self.command(command, out),
            Input::Line(line) if self.proc() == Some(line.proc) => self.line(&line, out),
            Input::SpawnFailed(failed) if self.proc() == Some(failed.proc) => self.not_spawned(failed, out),
            Input::Exited(exited) if self.proc() == Some(exited.proc) => self.exited(&exited, out),
            Input::Timer(timer) => self.timer(timer, out),
            _ => {}
        }
        Ok(())
    }
}

impl<A: Agent> Client<A> {
    fn command(&mut self, command: Command, out: &mut Vec<Action>) {
        match command {
            Command::StartTurn(start) => self.start(start, out),
            Command::Steer(steer) => self.steer(steer, out),
            Command::Interrupt(turn) => self.interrupt(turn, out),
            Command::Answer(answer) => self.answer(answer, out),
            Command::CloseSession(session) => self.close(session, out),
            Command::Query(query) => self.query(query, out),
            Command::Shutdown => self.leave(out),
        }
    }

    fn start(&mut self, start: StartTurn, out: &mut Vec<Action>) {
        let (key, turn) = (start.session, TurnRef { session: start.session, turn: start.turn });
        self.one_shot = start.one_shot;
        let session = self.sessions.entry(key).or_default();
        if session.turn.is_some() {
            let failure = failed(FailureKind::Unsupported, "the session's last turn is not over yet");
            out.push(done(turn, Outcome::Failed(failure)));
            return;
        }
        session.continues(start.native_id.clone(), start.fork);
        session.cwd.clone_from(&start.cwd);
        session.turn = Some(Turn::new(start));
        match self.process {
            Process::None | Process::Leaving(..) => self.spawn(Some(turn), out),
            Process::Starting(_) => {}
            Process::Ready(_) => self.advance(key, out),
        }
    }

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

    /// Takes a turn one step further towards its prompt.
    pub(crate) fn advance(&mut self, key: u32, out: &mut Vec<Action>) {
        let Some(session) = self.sessions.get(&key) else { return };
        if !matches!(self.process, Process::Ready(_)) || session.turn.as_ref().is_none_or(|turn| turn.prompted) {
            return;
        }
        match session.stage {
            Stage::Closed => self.open(key, out),
            Stage::Opening | Stage::Settling { .. } => {}
            Stage::Ready => self.apply(key, out),
        }
    }

    fn open(&mut self, key: u32, out: &mut Vec<Action>) {
        let (Some(proc), Some(session)) = (self.proc(), self.sessions.get_mut(&key)) else { return };
        let how = match &session.native {
            None => How::New,
            Some(_) if session.fork && self.can.fork => How::Fork,
            Some(_) if session.fork => {
                self.fail(key, failed(FailureKind::Unsupported, "the agent cannot copy a session"), out);
                return;
            }
            Some(_) if self.can.resume => How::Resume,
            Some(_) if self.can.load => How::Load,
            Some(_) => {
                self.fail(key, failed(FailureKind::SessionUnknown, "the agent keeps no sessions: this conversation begins anew"), out);
                return;
            }
        };
        let method = match how {
            How::New => "session/new",
            How::Load => "session/load",
            How::Resume => "session/resume",
            How::Fork => "session/fork",
        };
        let mut params = json!({ "cwd": session.cwd, "mcpServers": [] });
        if let Some(native) = &session.native {
            params["sessionId"] = json!(native);
        }
        let meta = self.agent.system_prompt();
        let system = session.turn.as_ref().and_then(|turn| turn.settings.system_prompt.clone()).filter(|text| !text.is_empty());
        if let Some(text) = system.filter(|_| meta != SystemPrompt::None) {
            if self.can.system_prompt {
                params["systemPrompt"] = json!({ "mode": "append", "content": [{ "type": "text", "text": text }] });
                session.system = Some(text);
            } else if meta == SystemPrompt::Meta {
                params["_meta"] = json!({ "systemPrompt": { "append": text } });
                session.system = Some(text);
            }
        }
        session.stage = Stage::Opening;
        self.calls.request(proc, method, &params.to_string(), Call::Open(key, how), out);
    }

    /// Applies what the turn's settings ask for, one request after the other, then hands over the prompt.
    fn apply(&mut self, key: u32, out: &mut Vec<Action>) {
        let (Some(proc), Some(session)) = (self.proc(), self.sessions.get_mut(&key)) else { return };
        let (Some(turn), Some(native)) = (session.turn.as_mut(), session.native.clone()) else { return };
        let mut emit = Emit::new(turn.key, out);
        if !session.told {
            session.told = true;
            emit.session_ready(&native, session.config.model());
        }
        for what in [What::Mode, What::Model, What::Effort] {
            if turn.applied.contains(&what) {
                continue;
            }
            turn.applied.push(what);
            match session.config.wanted(what, &turn.settings, self.agent.modes()) {
                Ok(Some(value)) => {
                    let Some((method, params)) = session.config.request(what, &native, &value) else { continue };
                    self.calls.request(proc, method, &params, Call::Set(key, turn.key.turn, what, value), out);
                    return;
                }
                Ok(None) => {
                    let asked = match what {
                        What::Mode => None,
                        What::Model => turn.settings.model.as_deref(),
                        What::Effort => turn.settings.effort.as_deref(),
                    };
                    if let Some(asked) = asked.filter(|_| !session.config.offers(what)) {
                        let text = format!("the agent lets nobody choose its {what:?}: {asked:?} is ignored");
                        Emit::new(turn.key, out).diagnostic(Level::Warn, text);
                    }
                }
                Err(failure) => {
                    self.fail(key, failure, out);
                    return;
                }
            }
        }
        let wanted =
            turn.settings.system_prompt.as_deref().filter(|text| !text.is_empty() && self.agent.system_prompt() != SystemPrompt::None);
        let system = wanted.filter(|text| session.system.as_deref() != Some(text)).map(str::to_owned);
        let blocks = prompt::blocks(system.as_deref(), &std::mem::take(&mut turn.parts), self.can.images);
        session.system = system.or(session.system.take());
        session.meter.begin();
        turn.prompted = true;
        turn.prompts += 1;
        let call = Call::Prompt(key, turn.key.turn);
        self.calls.request(proc, "session/prompt", &format!(r#"{{"sessionId":{},"prompt":{blocks}}}"#, json!(native)), call, out);
        prompt::fill_blobs(out);
    }

    fn steer(&mut self, steer: Steer, out: &mut Vec<Action>) {
        let not_now = Action::Steered(Steered { message: steer.message, outcome: SteerOutcome::NotNow });
        let (Process::Ready(proc), Some(session)) = (self.process, self.sessions.get_mut(&steer.session)) else {
            out.push(not_now);
            return;
        };
        let turn = session.turn.as_mut().filter(|turn| turn.key.turn == steer.turn && turn.prompts > 0 && !turn.stopping);
        let (Some(turn), Some(native), Delivery::Steer) = (turn, &session.native, steer.delivery) else {
            out.push(not_now);
            return;
        };
        let params = format!(r#"{{"sessionId":{},"prompt":{}"#, json!(native), prompt::blocks(None, &steer.parts, self.can.images));
        match self.can.steering {
            Steering::None => out.push(not_now),
            Steering::Method => {
                let params = format!(r#"{params},"_meta":{{"steering":{{"idleBehavior":"promptRequired"}}}}}}"#);
                self.calls.request(proc, "_session/steering", &params, Call::Steer(steer.message), out);
                prompt::fill_blobs(out);
            }
            Steering::Prompt => {
                turn.prompts += 1;
                self.calls.request(proc, "session/prompt", &format!("{params}}}"), Call::Prompt(steer.session, steer.turn), out);
                prompt::fill_blobs(out);
                out.push(Action::Steered(Steered { message: steer.message, outcome: SteerOutcome::Injected }));
            }
        }
    }

    fn interrupt(&mut self, key: TurnRef, out: &mut Vec<Action>) {
        let Some(session) = self.sessions.get_mut(&key.session) else { return };
        let Some(turn) = session.turn.as_mut().filter(|turn| turn.key.turn == key.turn) else { return };
        turn.stopping = true;
        if turn.prompted {
            self.cancel(key.session, out);
            for ask in self.withdraw(key.session, out) {
                out.push(Action::AskWithdrawn(ask));
            }
        } else {
            // The agent goes on starting; it is not waited for.
            self.finish(key.session, out);
        }
    }

    fn cancel(&mut self, key: u32, out: &mut Vec<Action>) {
        if let (Process::Ready(proc), Some(native)) = (self.process, self.sessions.get(&key).and_then(|session| session.native.as_ref())) {
            self.calls.notify(proc, "session/cancel", &format!(r#"{{"sessionId":{}}}"#, json!(native)), out);
        }
    }

    /// Answers what the agent still asks in a session, in nobody's name, and returns the keys.
    fn withdraw(&mut self, key: u32, out: &mut Vec<Action>) -> Vec<u32> {
        let open: Vec<u32> = self.asked.iter().filter(|(_, asked)| asked.session == key).map(|(ask, _)| *ask).collect();
        for ask in &open {
            if let (Some(asked), Process::Ready(proc)) = (self.asked.remove(ask), self.process) {
                self.calls.result(proc, &asked.id, CANCELLED, out);
            }
        }
        open
    }

    fn answer(&mut self, answer: Answer, out: &mut Vec<Action>) {
        let (Some(asked), Process::Ready(proc)) = (self.asked.remove(&answer.ask), self.process) else { return };
        let allowed = matches!(answer.decision, Decision::AllowOnce | Decision::AllowAlways);
        if !allowed && let Some(turn) = self.sessions.get_mut(&asked.session).and_then(|session| session.turn.as_mut()) {
            turn.denied(&asked.tool);
            turn.stopping |= answer.decision == Decision::DenyAndStop;
        }
        if answer.decision == Decision::DenyAndStop {
            self.cancel(asked.session, out);
        }
        self.calls.result(proc, &asked.id, &asked.options.result(&answer.decision), out);
    }

    /// Asks a person.
    pub(crate) fn ask(&mut self, turn: TurnRef, title: String, kind: AskKind, asked: Asked, out: &mut Vec<Action>) {
        self.asks += 1;
        let always_label = asked.options.always();
        self.asked.insert(self.asks, asked);
        let ask = aetheel_backend_sdk::wit::Ask { ask: self.asks, session: turn.session, turn: turn.turn, title, kind, always_label };
        out.push(Action::Ask(ask));
    }

    fn close(&mut self, key: u32, out: &mut Vec<Action>) {
        if let (Some(Session { native: Some(native), .. }), Process::Ready(proc)) = (self.sessions.remove(&key), self.process)
            && self.can.close
        {
            self.calls.request(proc, "session/close", &json!({ "sessionId": native }).to_string(), Call::Other, out);
        }
    }

    /// Asks the agent to go: none minds its stdin being closed, and most leave then.
    fn leave(&mut self, out: &mut Vec<Action>) {
        if let Process::Starting(proc) | Process::Ready(proc) = self.process {
            let timer = self.set_timer(LEAVE_MS, out);
            self.process = Process::Leaving(proc, timer);
            out.push(Action::CloseStdin(proc));
        }
    }

    fn timer(&mut self, timer: u32, out: &mut Vec<Action>) {
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

    fn set_timer(&mut self, after_ms: u32, out: &mut Vec<Action>) -> u32 {
        self.timers += 1;
        out.push(Action::SetTimer(SetTimer { timer: self.timers, after_ms }));
        self.timers
    }

    fn not_spawned(&mut self, spawn: SpawnFailed, out: &mut Vec<Action>) {
        self.process = Process::None;
        self.calls.clear();
        let kind = if spawn.not_found { FailureKind::NotFound } else { FailureKind::Other };
        self.fail_all(&failed(kind, spawn.message), out);
    }

    fn exited(&mut self, exited: &Exited, out: &mut Vec<Action>) {
        let starting = matches!(self.process, Process::Starting(_));
        self.process = Process::None;
        self.asked.clear();
        let said = stderr_summary(&exited.stderr_tail, 5);
        let how = match exited.how {
            Exit::Code(code) => format!("the agent ended (exit code {code})"),
            Exit::Signal(signal) => format!("the agent was ended by signal {signal}"),
            Exit::Unknown => "the agent ended".to_owned(),
        };
        let told = match exited.how {
            Exit::Code(code) if starting => self.agent.start_failure(code, &said),
            _ => None,
        };
        let message = if said.is_empty() { how } else { format!("{how}: {said}") };
        let lost = failed(FailureKind::Crashed, message);
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

    /// Ends the turn of a session.
    pub(crate) fn finish(&mut self, key: u32, out: &mut Vec<Action>) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let Some(turn) = session.turn.take() else { return };
        let ended = turn.key;
        let (outcome, text, spent) = turn.end(&mut Emit::new(ended, out));
        let usage = session.meter.usage(spent);
        self.withdraw(key, out);
        out.push(Action::TurnDone(TurnDone { session: key, turn: ended.turn, outcome, text, usage }));
        if self.one_shot {
            self.leave(out);
        }
    }

    /// Ends the turn of a session that could not be run.
    pub(crate) fn fail(&mut self, key: u32, failure: Failure, out: &mut Vec<Action>) {
        let Some(turn) = self.sessions.get_mut(&key).and_then(|session| session.turn.take()) else { return };
        let outcome = if turn.stopping { Outcome::Interrupted } else { Outcome::Failed(failure) };
        out.push(done(turn.key, outcome));
        if self.one_shot {
            self.leave(out);
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

    /// The process there is.
    pub(crate) fn proc(&self) -> Option<u32> {
        match self.process {
            Process::None => None,
            Process::Starting(proc) | Process::Ready(proc) | Process::Leaving(proc, _) => Some(proc),
        }
    }

    /// The session with an id of the agent's.
    pub(crate) fn key_of(&self, params: &Json) -> Option<u32> {
        let native = params.text("sessionId")?;
        self.sessions.iter().find(|(_, session)| session.native.as_deref() == Some(native)).map(|(key, _)| *key)
    }
}

pub(crate) fn failed(kind: FailureKind, message: impl Into<String>) -> Failure {
    Failure { kind, message: message.into(), retry_after_ms: None }
}

pub(crate) fn answer(query: u32, answer: QueryResult) -> Action {
    Action::QueryAnswer(QueryAnswer { query, answer })
}

fn done(turn: TurnRef, outcome: Outcome) -> Action {
    Action::TurnDone(TurnDone { session: turn.session, turn: turn.turn, outcome, text: None, usage: None })
}
