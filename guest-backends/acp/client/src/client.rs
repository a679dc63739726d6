//! A link with an ACP agent: its state and its event handlers.
//!
//! The SDK manages the process and the open turns. [`opening`](crate::opening) prepares sessions
//! and sends prompts, [`messages`](crate::messages) handles the agent's messages, and
//! [`control`](crate::control) handles user commands during a turn.

use std::collections::BTreeMap;

use aetheel_backend_sdk::TurnResult;
use aetheel_backend_sdk::json::Value as Json;
use aetheel_backend_sdk::live::{self, Asks, LinkContext, Step};
use aetheel_backend_sdk::rpc::{Calls, Ids};
use aetheel_backend_sdk::text::stderr_end;
use aetheel_backend_sdk::wit::{
    Action, Answer, Chunk, Exit, Exited, Failure, Line, Outcome, PutFile, Query, Spawn, StartTurn,
    Steer, SteerOutcome, TurnRef, Value, Variable,
};
use serde_json::json;

use crate::abilities::Abilities;
use crate::agent::{Agent, Launch};
use crate::config::What;
use crate::elicitation::{self, Elicitation};
use crate::permission::{self, Options};
use crate::session::{How, Session};
use crate::turn::Turn;

/// The purpose of a request to the agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    Initialize,
    Authenticate(u32),
    Open(u32, How),
    /// Closes a session so that it can be opened again.
    Close(u32),
    /// Session, turn, setting, and the requested value.
    Set(u32, u32, What, String),
    /// `session/prompt` for a session and a turn.
    Prompt(u32, u32),
    Steer(u32),
    List(u32),
    /// A request whose answer is ignored.
    Other,
}

/// A request that waits for the user's decision.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The id of the agent's request.
    pub(crate) id: String,
    pub(crate) session: u32,
    pub(crate) wants: Wants,
}

/// The subject of a request.
#[derive(Debug)]
pub(crate) enum Wants {
    Permission {
        tool: String,
        options: Options,
        /// Whether it asks for the approval of a plan.
        plan: bool,
    },
    Elicitation(Elicitation),
}

impl Wants {
    /// Returns the answer to a request that no longer waits for a decision.
    pub(crate) fn cancelled(&self) -> &'static str {
        match self {
            Self::Permission { .. } => permission::CANCELLED,
            Self::Elicitation(_) => elicitation::CANCELLED,
        }
    }
}

/// A backend for an ACP agent.
pub type Live<A> = live::Live<Client<A>>;

/// The state of a link with an ACP agent.
#[derive(Debug)]
pub struct Client<A> {
    pub(crate) agent: A,
    pub(crate) calls: Calls<Call>,
    /// Whether the current process has answered `initialize`.
    pub(crate) greeted: bool,
    pub(crate) can: Abilities,
    pub(crate) sessions: BTreeMap<u32, Session>,
    pub(crate) asked: Asks<Asked>,
    /// Whether the agent is shut down after its turn.
    one_shot: bool,
}

impl<A: Default> Default for Client<A> {
    fn default() -> Self {
        Self {
            agent: A::default(),
            calls: Calls::new(r#""jsonrpc":"2.0""#, Ids::Numbers),
            greeted: false,
            can: Abilities::default(),
            sessions: BTreeMap::new(),
            asked: Asks::default(),
            one_shot: false,
        }
    }
}

impl<A: Agent> live::Agent for Client<A> {
    /// codex-acp 2.6.0 takes two to seven seconds to exit, and codex-acp 0.16.0 never exits. All
    /// agents accept that their stdin is closed.
    const LEAVE_MS: u32 = 2500;
    const OVERLAPS: bool = true;

    fn describe() -> String {
        A::describe()
    }

    fn accept(&mut self, start: &StartTurn, _: &mut LinkContext) -> Result<(), Failure> {
        self.one_shot = start.one_shot;
        let session = self.sessions.entry(start.session).or_default();
        session.continues(start.native_id.clone(), start.fork);
        session.cwd.clone_from(&start.cwd);
        session.lowered |= session.grants.begin(&start.settings);
        session.turn = Some(Turn::new(start));
        Ok(())
    }

    fn launch(
        &mut self,
        start: Option<&StartTurn>,
        context: &mut LinkContext,
    ) -> Result<Spawn, Failure> {
        let Launch { program, arguments, environment, files } = self.agent.launch(start)?;
        self.greeted = false;
        let mut arguments: Vec<Value> = arguments.into_iter().map(Value::Text).collect();
        for (flag, name, text) in files {
            context.action(Action::PutFile(PutFile {
                name: name.to_owned(),
                body: vec![Chunk::Text(text)],
            }));
            arguments.extend([Value::Text(flag.to_owned()), Value::File(name.to_owned())]);
        }
        let hello = json!({
            "protocolVersion": 1,
            "clientCapabilities": {
                "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false,
                "elicitation": { "form": {}, "url": {} },
            },
            "clientInfo": { "name": "aetheel", "title": "Aetheel", "version": env!("CARGO_PKG_VERSION") },
        });
        let mut first = Vec::new();
        self.calls.request(
            context.proc(),
            "initialize",
            &hello.to_string(),
            Call::Initialize,
            &mut first,
        );
        let stdin = first.into_iter().filter_map(|action| {
            if let Action::Write(write) = action { Some(write.body) } else { None }
        });
        Ok(Spawn {
            stdin: stdin.flatten().collect(),
            environment: environment
                .into_iter()
                .map(|(name, value)| Variable { name, value: Value::Text(value) })
                .collect(),
            ..live::spawn(&program, arguments)
        })
    }

    /// Does nothing, because `initialize` is sent with the start of the process.
    fn spawned(&mut self, _: Option<String>, _: &mut LinkContext) {}

    fn prompt(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step {
        if !self.agent.fits(start) {
            context.restart();
            return Step::Wait;
        }
        self.advance(start, context)
    }

    fn line(&mut self, line: Line, context: &mut LinkContext) {
        self.said(&line, context);
    }

    fn finish(&mut self, turn: TurnRef, outcome: Outcome, context: &mut LinkContext) {
        let session = self.sessions.get_mut(&turn.session);
        let ended = session.and_then(|session| {
            Some((session.turn.take_if(|open| open.key == turn)?, session.meter))
        });
        let left_behind = ended.as_ref().is_some_and(|(open, _)| open.leaves_a_command());
        let result = match ended {
            Some((open, meter)) => open.end(outcome, meter, &mut context.emit(turn)),
            None => TurnResult { outcome, text: None, usage: None },
        };
        self.withdraw(turn.session, context);
        context.end(turn, result);
        if left_behind {
            self.end_commands(turn.session, context);
        }
        if self.one_shot {
            context.leave();
        }
    }

    fn interrupt(&mut self, turn: TurnRef, context: &mut LinkContext) {
        self.cancel(turn.session, context);
        for ask in self.withdraw(turn.session, context) {
            context.action(Action::AskWithdrawn(ask));
        }
    }

    fn steer(&mut self, steer: Steer, context: &mut LinkContext) {
        self.steered(&steer, context);
    }

    fn answer(&mut self, answer: Answer, context: &mut LinkContext) {
        self.answered(answer, context);
    }

    fn query(&mut self, query: Query, context: &mut LinkContext) {
        self.queried(query, context);
    }

    fn close(&mut self, session: u32, context: &mut LinkContext) {
        if let Some(Session { native: Some(_), called, .. }) = self.sessions.remove(&session)
            && self.can.close
            && context.is_ready()
        {
            self.calls.request(
                context.proc(),
                "session/close",
                &json!({ "sessionId": called }).to_string(),
                Call::Other,
                context.out(),
            );
        }
    }

    fn forget(&mut self, why: &Failure, context: &mut LinkContext) {
        self.asked.clear();
        for call in self.calls.clear() {
            match call {
                Call::List(query) => context.refuse(query, why.clone()),
                Call::Steer(message) => context.steered(message, SteerOutcome::NotNow),
                _ => {}
            }
        }
        self.sessions.retain(|_, session| session.turn.is_some());
        self.sessions.values_mut().for_each(Session::forget);
    }

    fn lost(&mut self, exited: &Exited, _: bool, why: Failure) -> Outcome {
        let reported = match exited.how {
            Exit::Code(code) if !self.greeted => {
                self.agent.start_failure(code, &stderr_end(&exited.stderr_tail, 5))
            }
            _ => None,
        };
        reported.map_or(Outcome::Lost(why), Outcome::Failed)
    }

    fn timer(&mut self, timer: u32, context: &mut LinkContext) {
        self.settled(timer, context);
    }
}

impl<A> Client<A> {
    /// Returns the session that a message with `sessionId` belongs to.
    pub(crate) fn key_of(&self, params: &Json) -> Option<u32> {
        let native = params.text("sessionId")?.trim_start();
        self.sessions
            .iter()
            .find(|(_, session)| session.native.as_deref() == Some(native))
            .map(|(key, _)| *key)
    }
}
