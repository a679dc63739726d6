//! Prepares a waiting turn: opens the session, applies the turn's settings one by one, and sends
//! the prompt.

use aetheel_backend_sdk::failure;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::{Agent as _, LinkContext, Step};
use aetheel_backend_sdk::wit::{
    Action, Diagnostic, Failure, FailureKind, Level, Mode, Outcome, StartTurn, TurnRef,
};
use serde_json::json;

use crate::agent::{Agent, SystemPrompt};
use crate::client::{Call, Client};
use crate::config::{Config, What};
use crate::failure;
use crate::host_tools;
use crate::prompt;
use crate::session::{How, Stage};
use crate::spent::Meter;

impl<A: Agent> Client<A> {
    /// Performs the next step of a waiting turn.
    pub(crate) fn advance(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step {
        let key = start.session;
        let Some(session) = self.sessions.get_mut(&key) else { return Step::Wait };
        if std::mem::take(&mut session.lowered) && !self.make_forget(key, context) {
            return Step::Restart;
        }
        let puts = self.calls.open().any(|call| matches!(call, Call::Set(of, ..) if *of == key));
        match self.sessions.get(&key).map(|session| session.stage) {
            Some(Stage::Closed) => self.open(start, context),
            Some(Stage::Ready) if !puts => self.apply(start, context),
            _ => Step::Wait,
        }
    }

    fn open(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step {
        let Some(session) = self.sessions.get_mut(&start.session) else { return Step::Wait };
        let (method, how) = match &session.native {
            None => ("session/new", How::New),
            Some(_) if session.fork && self.can.fork => ("session/fork", How::Fork),
            Some(_) if session.fork => {
                return Step::Fail(failure(
                    FailureKind::Unsupported,
                    "the agent cannot copy a session",
                ));
            }
            Some(_) if self.can.resume => ("session/resume", How::Resume),
            Some(_) if self.can.load => ("session/load", How::Load),
            Some(_) => {
                return Step::Fail(failure(
                    FailureKind::SessionUnknown,
                    "the agent does not save sessions: this conversation starts again",
                ));
            }
        };
        let mut params = json!({ "cwd": start.cwd });
        if let Some(native) = &session.native {
            session.called = if how == How::Load && self.can.spaced {
                format!(" {native}")
            } else {
                native.clone()
            };
            params["sessionId"] = json!(session.called);
        }
        let meta = self.agent.system_prompt();
        let system = start.settings.system_prompt.clone().filter(|text| !text.is_empty());
        if let Some(text) = system.filter(|_| meta != SystemPrompt::None) {
            if self.can.system_prompt {
                params["systemPrompt"] =
                    json!({ "mode": "append", "content": [{ "type": "text", "text": text }] });
                session.system = Some(text);
            } else if meta == SystemPrompt::Meta {
                params["_meta"] = json!({ "systemPrompt": { "append": text } });
                session.system = Some(text);
            }
        }
        session.stage = Stage::Opening;
        let params = if self.can.http_servers && !start.tools.is_empty() {
            host_tools::with_server(&params.to_string())
        } else {
            params["mcpServers"] = json!([]);
            params.to_string()
        };
        self.calls.request(
            context.proc(),
            method,
            &params,
            Call::Open(start.session, how),
            context.out(),
        );
        host_tools::fill_address(start.session, context.out());
        Step::Wait
    }

    /// Applies the next setting of the turn. If all settings are applied, sends the prompt.
    fn apply(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step {
        let (key, settings) = (start.session, &start.settings);
        let Some(session) = self.sessions.get_mut(&key) else { return Step::Wait };
        let (Some(turn), Some(native)) = (session.turn.as_mut(), &session.native) else {
            return Step::Wait;
        };
        if !session.reported {
            session.reported = true;
            context.emit(turn.key).session_ready(native, session.config.model());
        }
        for what in [What::Mode, What::Model, What::Effort] {
            if turn.applied.contains(&what) {
                continue;
            }
            turn.applied.push(what);
            match session.config.wanted(what, settings, self.agent.modes()) {
                Ok(Some(value)) => {
                    let Some((method, params)) =
                        session.config.request(what, &session.called, &value)
                    else {
                        continue;
                    };
                    self.calls.request(
                        context.proc(),
                        method,
                        &params,
                        Call::Set(key, start.turn, what, value),
                        context.out(),
                    );
                    return Step::Wait;
                }
                Ok(None) => {
                    let asked = match what {
                        What::Mode => None,
                        What::Model => settings.model.as_deref(),
                        What::Effort => settings.effort.as_deref(),
                    };
                    if let Some(asked) = asked.filter(|_| !session.config.offers(what)) {
                        warn(
                            format!(
                                "the agent does not offer a choice of its {what}: {asked:?} is ignored"
                            ),
                            context,
                        );
                    }
                }
                Err(failure) => return Step::Fail(failure),
            }
        }
        let wanted = settings
            .system_prompt
            .as_deref()
            .filter(|text| !text.is_empty() && self.agent.system_prompt() != SystemPrompt::None);
        let system =
            wanted.filter(|text| session.system.as_deref() != Some(text)).map(str::to_owned);
        let standing = system.as_deref().map(prompt::standing);
        // An agent in its planning mode needs no instruction.
        let note =
            (settings.mode == Mode::Plan && !session.config.plans()).then_some(prompt::PLAN_ONLY);
        let before: Vec<&str> = standing.as_deref().into_iter().chain(note).collect();
        let blocks = prompt::blocks(&before, &start.parts, self.can.images);
        session.system = system.or(session.system.take());
        session.meter.begin();
        turn.prompts += 1;
        let params = format!(r#"{{"sessionId":{},"prompt":{blocks}}}"#, json!(session.called));
        self.calls.request(
            context.proc(),
            "session/prompt",
            &params,
            Call::Prompt(key, start.turn),
            context.out(),
        );
        prompt::fill_blobs(context.out());
        Step::Prompted
    }

    pub(crate) fn opened(
        &mut self,
        key: u32,
        how: How,
        result: Result<&Value, &Value>,
        context: &mut LinkContext,
    ) {
        let Some(session) =
            self.sessions.get_mut(&key).filter(|session| session.stage == Stage::Opening)
        else {
            return;
        };
        let result = match result {
            Ok(result) => result,
            Err(error) if failure::wants_sign_in(error) => {
                return self.sign_in(key, error, context);
            }
            // The agent announced the ability but lacks the method.
            Err(error)
                if how == How::Resume
                    && self.can.load
                    && error.number("code") == Some(-32601.0) =>
            {
                session.stage = Stage::Closed;
                self.can.resume = false;
                return;
            }
            Err(error) => {
                let failure = if how == How::New {
                    failure::failure(error)
                } else {
                    failure::open_failure(error)
                };
                return self.not_opened(key, failure, context);
            }
        };
        if matches!(how, How::New | How::Fork) {
            session.native = result.text("sessionId").map(str::to_owned);
            session.called = session.native.clone().unwrap_or_default();
            session.fork = false;
            session.reported = false;
        }
        if session.native.is_none() {
            return self.not_opened(
                key,
                failure(FailureKind::Protocol, "the agent opened a session without an id"),
                context,
            );
        }
        session.config = Config::read(result);
        if how == How::New {
            session.meter = Meter::new();
        }
        session.stage = if how == How::Load { Stage::settling(context) } else { Stage::Ready };
    }

    /// Authenticates once, if a method without user interaction is configured. Otherwise the turn
    /// fails with instructions for the user.
    fn sign_in(&mut self, key: u32, error: &Value, context: &mut LinkContext) {
        if let (Some(session), Some(method), true) =
            (self.sessions.get_mut(&key), self.agent.sign_in(), context.is_ready())
            && !session.signed_in
        {
            session.signed_in = true;
            let params = json!({ "methodId": method }).to_string();
            self.calls.request(
                context.proc(),
                "authenticate",
                &params,
                Call::Authenticate(key),
                context.out(),
            );
            return;
        }
        let ways = if self.can.sign_ins.is_empty() {
            String::new()
        } else {
            format!(" (it offers: {})", self.can.sign_ins.join(", "))
        };
        let message = format!(
            "the agent is not signed in: {}; sign in with its own program or set its key{ways}",
            failure::message(error)
        );
        self.not_opened(key, failure(FailureKind::Authentication, message), context);
    }

    /// Lets a session be opened again, after it was closed or the agent was authenticated.
    pub(crate) fn reopen(&mut self, key: u32) {
        if let Some(session) = self.sessions.get_mut(&key) {
            session.stage = Stage::Closed;
        }
    }

    pub(crate) fn not_opened(&mut self, key: u32, failure: Failure, context: &mut LinkContext) {
        if let Some(session) = self.sessions.get_mut(&key) {
            session.stage = Stage::Closed;
            session.native = None;
            session.system = None;
            session.signed_in = false;
        }
        if let Some(turn) = context.turn_of(key) {
            self.finish(turn, Outcome::Failed(failure), context);
        }
    }

    /// Handles the answer to a request that set an option.
    pub(crate) fn set(
        &mut self,
        turn: TurnRef,
        what: What,
        value: &str,
        result: Result<&Value, &Value>,
        context: &mut LinkContext,
    ) {
        let Some(session) = self.sessions.get_mut(&turn.session) else { return };
        let error = match result {
            Ok(result) => {
                session.config.chosen(what, value);
                session.config.update(result.list("configOptions"));
                return;
            }
            Err(error) => error,
        };
        let Some(open) = session.turn.as_ref().filter(|open| open.key == turn) else { return };
        let message =
            format!("the agent does not take {what} {value:?}: {}", failure::message(error));
        // OpenCode 1.18.33 has different efforts for each model. If everything is allowed,
        // permission requests are granted in any mode.
        if what == What::Effort || (what == What::Mode && open.may_everything()) {
            return warn(message, context);
        }
        let kind =
            if what == What::Model { FailureKind::ModelNotFound } else { FailureKind::Unsupported };
        self.finish(turn, Outcome::Failed(failure(kind, message)), context);
    }

    /// Handles the timer of a session whose history was being sent: the history is complete if
    /// nothing arrived since the timer was set.
    pub(crate) fn settled(&mut self, timer: u32, context: &mut LinkContext) {
        for session in self.sessions.values_mut() {
            if let Stage::Settling { timer: this, stirred } = session.stage
                && this == timer
            {
                session.stage = if stirred { Stage::settling(context) } else { Stage::Ready };
            }
        }
    }
}

fn warn(text: String, context: &mut LinkContext) {
    context.action(Action::Diagnostic(Diagnostic { level: Level::Warn, text }));
}
