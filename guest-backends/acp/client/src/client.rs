//! The client's side of the protocol: a turn from the command that begins it to its prompt, and its end.

use std::collections::BTreeMap;

use aetheel_backend_sdk::json::Value as Json;
use aetheel_backend_sdk::live::Asks;
use aetheel_backend_sdk::rpc::{Calls, Ids};
use aetheel_backend_sdk::wit::{
    Action, Command, Failure, FailureKind, Input, Level, Outcome, Query, QueryAnswer, QueryResult, StartTurn, TimedInput, TurnDone, TurnRef,
};
use aetheel_backend_sdk::{Backend, Emit, failure};
use serde_json::json;

use crate::agent::{Agent, SystemPrompt};
use crate::config::What;
use crate::permission::Options;
use crate::prompt;
use crate::session::{How, Session, Stage};
use crate::turn::Turn;

/// What was asked of the agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    Initialize,
    Authenticate(u32),
    Open(u32, How),
    /// Closes a session that is opened anew then.
    Close(u32),
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
    /// Sessions are loaded by their id with a blank before it.
    ///
    /// Gemini CLI 0.61.0 begins the file of a session that it loads before it reads it, by a name made of the minute and the
    /// id. In the minute the session was made in that is the session's own file, and what was said in it is gone for good.
    /// The blank is no part of the id when it looks for the session, but of the file's name.
    pub(crate) spaced: bool,
    pub(crate) steering: Steering,
    /// Names of the ways of signing in.
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
    pub(crate) asked: Asks<Asked>,
    /// Questions that wait for the agent to be ready.
    pub(crate) queries: Vec<Query>,
    pub(crate) procs: u32,
    pub(crate) timers: u32,
    pub(crate) one_shot: bool,
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
            asked: Asks::default(),
            queries: Vec::new(),
            procs: 0,
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
            let failure = failure(FailureKind::Unsupported, "the session's last turn is not over yet");
            out.push(done(turn, Outcome::Failed(failure)));
            return;
        }
        session.continues(start.native_id.clone(), start.fork);
        session.cwd.clone_from(&start.cwd);
        let lowered = session.grants.begin(&start.settings);
        session.turn = Some(Turn::new(start));
        if lowered {
            self.make_forget(key, out);
        }
        match self.process {
            Process::None | Process::Leaving(..) => self.spawn(Some(turn), out),
            Process::Starting(_) => {}
            Process::Ready(_) => self.advance(key, out),
        }
    }

    /// Takes a turn one step further towards its prompt.
    pub(crate) fn advance(&mut self, key: u32, out: &mut Vec<Action>) {
        let Some(session) = self.sessions.get(&key) else { return };
        if !matches!(self.process, Process::Ready(_)) || session.turn.as_ref().is_none_or(|turn| turn.prompted) {
            return;
        }
        match session.stage {
            Stage::Closed => self.open(key, out),
            Stage::Closing | Stage::Opening | Stage::Settling { .. } => {}
            Stage::Ready => self.apply(key, out),
        }
    }

    fn open(&mut self, key: u32, out: &mut Vec<Action>) {
        let (Some(proc), Some(session)) = (self.proc(), self.sessions.get_mut(&key)) else { return };
        let how = match &session.native {
            None => How::New,
            Some(_) if session.fork && self.can.fork => How::Fork,
            Some(_) if session.fork => {
                self.fail(key, failure(FailureKind::Unsupported, "the agent cannot copy a session"), out);
                return;
            }
            Some(_) if self.can.resume => How::Resume,
            Some(_) if self.can.load => How::Load,
            Some(_) => {
                self.fail(key, failure(FailureKind::SessionUnknown, "the agent keeps no sessions: this conversation begins anew"), out);
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
            session.called = if how == How::Load && self.can.spaced { format!(" {native}") } else { native.clone() };
            params["sessionId"] = json!(session.called);
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
                    let Some((method, params)) = session.config.request(what, &session.called, &value) else { continue };
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
                        let text = format!("the agent lets nobody choose its {what}: {asked:?} is ignored");
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
        self.calls.request(proc, "session/prompt", &format!(r#"{{"sessionId":{},"prompt":{blocks}}}"#, json!(session.called)), call, out);
        prompt::fill_blobs(out);
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

    /// The process there is.
    pub(crate) fn proc(&self) -> Option<u32> {
        match self.process {
            Process::None => None,
            Process::Starting(proc) | Process::Ready(proc) | Process::Leaving(proc, _) => Some(proc),
        }
    }

    /// The session with an id of the agent's.
    pub(crate) fn key_of(&self, params: &Json) -> Option<u32> {
        let native = params.text("sessionId")?.trim_start();
        self.sessions.iter().find(|(_, session)| session.native.as_deref() == Some(native)).map(|(key, _)| *key)
    }
}

pub(crate) fn answer(query: u32, answer: QueryResult) -> Action {
    Action::QueryAnswer(QueryAnswer { query, answer })
}

pub(crate) fn done(turn: TurnRef, outcome: Outcome) -> Action {
    Action::TurnDone(TurnDone { session: turn.session, turn: turn.turn, outcome, text: None, usage: None })
}
