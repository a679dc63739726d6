//! `codex app-server`: one process with a thread per session.
//!
//! Tracks the thread and the progress of each turn ([`session`], [`turn`]) and routes messages
//! ([`notice`], [`asks`], [`host_tools`], [`query`]); the SDK manages the process. The protocol is
//! newline-delimited JSON-RPC without the `jsonrpc` field. The process exits when its stdin is
//! closed and refuses a second `initialize`, so another version of the backend restores the saved
//! state ([`saved`]).

mod asks;
mod host_tools;
mod notice;
mod query;
mod quota;
mod saved;
mod session;
mod turn;
mod wire;

use std::collections::BTreeMap;

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::{self, Agent, Asks, LinkContext, Step};
use aetheel_backend_sdk::rpc::{Calls, Ids, Message};
use aetheel_backend_sdk::wit::{
    Action, Answer, Failure, FailureKind, Line, Outcome, Query, QueryKind, Spawn, StartTurn, Steer,
    ToolResult, TurnRef, Value as Argument,
};
use aetheel_backend_sdk::{TurnResult, failure};
use serde_json::json;

use crate::failure;
use crate::native_id::NativeId;
use crate::prompt;
use asks::Open;
use host_tools::HostCall;
use session::{Begun, Session};
use turn::Turn;

/// The backend with one process for all conversations.
pub type Live = live::Live<Codex>;

pub(crate) use wire::OWN_TEMPORARY_FOLDER;

/// A link with `codex app-server`.
#[derive(Debug)]
pub struct Codex {
    calls: Calls<Call>,
    sessions: BTreeMap<u32, Session>,
    asks: Asks<Open>,
    /// Calls of tools of the host, by their keys.
    host_calls: BTreeMap<u32, HostCall>,
}

/// The purpose of a request to the agent.
#[derive(Debug)]
enum Call {
    Initialize,
    /// Opens a thread for this turn of this session.
    Open(u32, u32),
    /// Starts this turn of this session.
    Begin(u32, u32, Box<Begun>),
    /// Steers this message into a turn.
    Steer(u32),
    Query(Query),
    /// A request whose answer is ignored.
    Note,
}

impl Default for Codex {
    fn default() -> Self {
        Self {
            calls: Calls::new("", Ids::Numbers),
            sessions: BTreeMap::new(),
            asks: Asks::default(),
            host_calls: BTreeMap::new(),
        }
    }
}

impl Agent for Codex {
    fn describe() -> String {
        include_str!("../descriptor.json").to_owned()
    }

    fn accept(&mut self, start: &StartTurn, _: &mut LinkContext) -> Result<(), Failure> {
        if start.native_id.as_ref().is_some_and(|id| NativeId::parse(id).is_none()) {
            return Err(failure(FailureKind::SessionUnknown, "the session id is not one of Codex"));
        }
        prompt::check(&start.parts)?;
        let session = self.sessions.entry(start.session).or_default();
        session.grants.begin(&start.settings);
        session.turn = Some(Turn::new(start));
        Ok(())
    }

    fn launch(&mut self, _: Option<&StartTurn>, _: &mut LinkContext) -> Result<Spawn, Failure> {
        Ok(live::spawn("codex", [Argument::Text("app-server".to_owned())]))
    }

    fn spawned(&mut self, _: Option<String>, context: &mut LinkContext) {
        let client =
            json!({ "name": "aetheel", "title": "Aetheel", "version": env!("CARGO_PKG_VERSION") });
        // Planning mode and its questions belong to the experimental API.
        let params = json!({ "clientInfo": client, "capabilities": { "experimentalApi": true, "requestAttestation": false } });
        self.calls.request(
            context.proc(),
            "initialize",
            &params.to_string(),
            Call::Initialize,
            context.out(),
        );
    }

    fn prompt(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step {
        self.advance(start, context)
    }

    fn line(&mut self, line: Line, context: &mut LinkContext) {
        let Some(message) = context.object(&line) else { return };
        match self.calls.sort(&message) {
            Message::Response(call, result) => self.response(call, result, context),
            Message::Request(id, method, params) => {
                self.request(id, method, params, &line.text, context)
            }
            Message::Notification(method, params) => {
                self.notification(method, params, &line.text, context)
            }
            Message::Stray(_) => context.unrecognised("answer without a request", None, &line.text),
            Message::Other => context.unrecognised("message without a method", None, &line.text),
        }
    }

    fn finish(&mut self, turn: TurnRef, outcome: Outcome, context: &mut LinkContext) {
        self.asks.close(turn.session);
        self.end_calls(turn.session, context);
        let open = self
            .sessions
            .get_mut(&turn.session)
            .and_then(|session| session.turn.take_if(|open| open.key == turn));
        let result = match open {
            Some(open) => open.result(outcome, context.out()),
            None => TurnResult { outcome, text: None, usage: None },
        };
        context.end(turn, result);
    }

    fn interrupt(&mut self, turn: TurnRef, context: &mut LinkContext) {
        // If the turn has no id yet, it is stopped when it gets one.
        self.stop(turn.session, context);
    }

    fn steer(&mut self, steer: Steer, context: &mut LinkContext) {
        self.steered(&steer, context);
    }

    fn answer(&mut self, Answer { ask, decision }: Answer, context: &mut LinkContext) {
        self.answered(ask, decision, context);
    }

    fn tool_result(&mut self, result: ToolResult, context: &mut LinkContext) {
        self.send_result(&result, context);
    }

    fn query(&mut self, query: Query, context: &mut LinkContext) {
        if context.is_ready() { self.ask(query, context) } else { context.later(query) }
    }

    fn close(&mut self, session: u32, context: &mut LinkContext) {
        self.unsubscribe(session, context);
    }

    /// Codex exits when its stdin is closed and drops its work.
    fn shutdown(&mut self, context: &mut LinkContext) {
        let process = context.process();
        context.out().extend(process.map(Action::CloseStdin));
    }

    fn forget(&mut self, why: &Failure, context: &mut LinkContext) {
        self.asks.clear();
        self.host_calls.clear();
        for session in std::mem::take(&mut self.sessions).into_values() {
            if let Some(query) = session.compacting {
                context.refuse(query, why.clone());
            }
            if let Some(turn) = session.turn {
                self.sessions
                    .insert(turn.key.session, Session { turn: Some(turn), ..Session::default() });
            }
        }
        for call in self.calls.clear() {
            match call {
                Call::Steer(message) => session::steered(message, false, context),
                // Queries to compact a thread were answered above.
                Call::Query(query) if query.kind != QueryKind::Compact => {
                    context.refuse(query.query, why.clone())
                }
                _ => {}
            }
        }
    }

    fn save(&self, proc: u32) -> Option<String> {
        self.saved(proc)
    }

    fn load(&mut self, state: &str, saved_by: &str) -> Result<u32, String> {
        let restored = Self::restored(state).ok_or_else(|| {
            format!("the state saved by version {saved_by} has an unknown format")
        })?;
        let proc;
        (*self, proc) = restored;
        Ok(proc)
    }
}

impl Codex {
    fn response(&mut self, call: Call, result: Result<&Value, &Value>, context: &mut LinkContext) {
        match call {
            Call::Initialize => match result {
                Ok(_) => {
                    context.ready();
                    self.calls.notify(context.proc(), "initialized", "{}", context.out());
                }
                Err(error) => {
                    context.give_up(Failure { kind: FailureKind::Protocol, ..refusal(error) })
                }
            },
            Call::Open(session, turn) => self.opened(session, turn, result, context),
            Call::Begin(session, turn, begun) => self.begun(session, turn, *begun, result, context),
            Call::Steer(message) => session::steered(message, result.is_ok(), context),
            Call::Query(query) => self.query_answered(query, result, context),
            Call::Note => {}
        }
    }

    /// Reports unknown output: in its turn, in any other open turn, or in the log.
    fn strange(&self, what: &str, params: &Value, output: &str, context: &mut LinkContext) {
        match self.session_of(params).and_then(|key| self.sessions.get(&key)?.turn.as_ref()) {
            Some(turn) => turn.emit(context.out()).unrecognised(what, None, output),
            None => context.unrecognised(what, None, output),
        }
    }
}

/// Returns the failure of an `error` object.
fn refusal(error: &Value) -> Failure {
    failure::failure(
        error.text("message").unwrap_or("the request was refused"),
        &error["data"]["codexErrorInfo"],
    )
}
