//! Sessions and their turns: which thread a session has, and how far its turn is.

use aetheel_backend_sdk::Grants;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{
    Action, Delivery, Failure, FailureKind, Outcome, SessionReady, StartTurn, Steer, SteerOutcome, Steered, TurnRef,
};
use serde_json::json;

use super::asks::Grant;
use super::turn::{Stage, Turn};
use super::wire::{self, InForce};
use super::{Agent, Call, Live, refusal};
use crate::native_id::NativeId;
use crate::prompt;

/// A conversation.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) thread: Option<Thread>,
    /// A thread is being opened: the one asked for, none for a new one, and what it will go by.
    opening: Option<(Option<NativeId>, bool, InForce, u64)>,
    pub(crate) turn: Option<Turn>,
    /// The query that had the thread shortened. That is a turn of the agent's own, which another one must not disturb.
    pub(crate) compacting: Option<u32>,
    /// What was allowed for the session.
    pub(crate) grants: Grants<Grant>,
}

/// A thread of the agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Thread {
    pub(crate) id: NativeId,
    /// The id the host was told last.
    pub(crate) reported: String,
    pub(crate) in_force: InForce,
    /// What it has without being told.
    pub(crate) model: Option<String>,
    pub(crate) effort: Option<String>,
}

/// What is so once `turn/start` is answered.
#[derive(Debug)]
pub(crate) struct Begun {
    in_force: InForce,
    told: Option<u64>,
}

impl Session {
    pub(crate) fn with(thread: Thread, grants: Grants<Grant>) -> Self {
        Self { thread: Some(thread), grants, ..Self::default() }
    }

    /// Ends its turn, if there is one.
    pub(crate) fn end(self, outcome: Outcome, out: &mut Vec<Action>) {
        if let Some(turn) = self.turn {
            turn.done(outcome, out);
        }
    }
}

impl Thread {
    /// Tells the host the id when it is not the one it was told last. `model` is the one chosen, if any.
    fn report(&mut self, session: u32, model: Option<String>, title: Option<String>, out: &mut Vec<Action>) {
        let native_id = self.id.to_string();
        if self.reported != native_id {
            self.reported.clone_from(&native_id);
            let model = model.or_else(|| self.model.clone());
            out.push(Action::SessionReady(SessionReady { session, native_id, model, title }));
        }
    }
}

impl Live {
    /// Takes a turn on. It waits for the agent, and for its thread.
    pub(super) fn start(&mut self, start: StartTurn, out: &mut Vec<Action>) {
        let key = (start.session, start.turn);
        let session = self.sessions.entry(start.session).or_default();
        let fault = if session.turn.is_some() {
            Some((FailureKind::Unsupported, "the session has a turn already"))
        } else if start.native_id.as_ref().is_some_and(|id| NativeId::parse(id).is_none()) {
            Some((FailureKind::SessionUnknown, "the session id is not one of Codex"))
        } else {
            None
        };
        let fault = fault.map(|(kind, message)| Failure { kind, message: message.to_owned(), retry_after_ms: None });
        if let Some(failure) = fault.or_else(|| prompt::check(&start.parts).err()) {
            return Turn::new(start).done(Outcome::Failed(failure), out);
        }
        session.grants.begin(&start.settings);
        session.turn = Some(Turn::new(start));
        match self.agent {
            Agent::Down => self.launch(Some(key), out),
            _ => self.advance(key.0, out),
        }
    }

    /// Does what a waiting turn needs next.
    pub(super) fn advance(&mut self, key: u32, out: &mut Vec<Action>) {
        let Agent::Ready(proc) = self.agent else { return };
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let Some(Turn { stage: Stage::Waiting(start), key: turn, .. }) = &mut session.turn else { return };
        if session.compacting.is_some() {
            return;
        }
        let asked = start.native_id.as_deref().and_then(NativeId::parse);
        // A thread that is open is the conversation, unless another one is asked for.
        let open =
            session.thread.as_mut().filter(|thread| !start.fork && asked.as_ref().is_none_or(|asked| asked.thread == thread.id.thread));
        let wanted = InForce::of(&start.settings, &start.cwd);
        if let Some(thread) = open {
            if let Some(known) = &start.native_id
                && *known != thread.reported
            {
                // The host has another one.
                thread.reported.clear();
            }
            let change = prompt::change(&start.settings, thread.id.told);
            let (_, told) = prompt::instructions(&start.settings);
            let told = if change.is_some() { Some(told) } else { thread.id.told };
            let input = wire::input(change.as_deref(), &start.parts);
            let own = (thread.model.as_deref(), thread.effort.as_deref());
            let params = wire::begin(&thread.id.thread, &thread.in_force, &wanted, own, &input);
            let begun = Box::new(Begun { in_force: wanted, told });
            self.calls.request(proc, "turn/start", &params, Call::Begin(key, turn.turn, begun), out);
            wire::fill_blobs(out);
            if let Some(turn) = &mut session.turn {
                turn.stage = Stage::Asked;
            }
        } else if session.opening.is_none() {
            let method = match (&asked, start.fork) {
                (None, _) => "thread/start",
                (Some(_), false) => "thread/resume",
                (Some(_), true) => "thread/fork",
            };
            let params = wire::open(&start.settings, &start.cwd, asked.as_ref().map(|asked| asked.thread.as_str()));
            self.calls.request(proc, method, &params.to_string(), Call::Open(key, turn.turn), out);
            // Said with the first turn only, so that what it goes back to is known.
            let in_force = InForce { model: None, effort: None, plan: asked.as_ref().is_some_and(|asked| asked.plan), ..wanted };
            session.opening = Some((asked, start.fork, in_force, prompt::instructions(&start.settings).1));
            // It continues in the copy.
            start.fork = false;
            start.native_id = None;
            if session.thread.take().is_some() {
                session.grants.clear();
            }
        }
    }

    /// A thread was opened, or was not.
    pub(super) fn opened(&mut self, key: u32, for_turn: u32, result: Result<&Value, &Value>, out: &mut Vec<Action>) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let Some((asked, forked, in_force, told)) = session.opening.take() else { return };
        let found = result.ok().and_then(|result| result["thread"].text("id")).filter(|id| NativeId::parse(id).is_some());
        match (found, result) {
            (Some(found), Ok(result)) => {
                let own = |key: &str| result.text(key).map(str::to_owned);
                let id = match &asked {
                    None => NativeId { told: Some(told), ..NativeId::bare(found) },
                    Some(asked) => NativeId { told: asked.told, plan: asked.plan, ..NativeId::bare(found) },
                };
                let mut thread = Thread { id, reported: String::new(), in_force, model: own("model"), effort: own("reasoningEffort") };
                if let Some(Turn { stage: Stage::Waiting(start), .. }) = &session.turn {
                    thread.report(key, start.settings.model.clone(), result["thread"].text("name").map(str::to_owned), out);
                }
                session.thread = Some(thread);
                if let (Some(turn), Some(asked), false) = (&session.turn, asked, forked)
                    && asked.thread != found
                {
                    turn.emit(out).notice("Codex could not continue the conversation and began a new one.");
                    if let Some(thread) = &mut session.thread {
                        (thread.id.told, thread.id.plan, thread.in_force.plan) = (None, false, false);
                    }
                }
            }
            (_, result) => {
                let failure = match result {
                    Err(error) => refusal(error),
                    Ok(_) => Failure { kind: FailureKind::Protocol, message: "Codex named no thread".to_owned(), retry_after_ms: None },
                };
                if let Some(turn) = session.turn.take_if(|turn| turn.key.turn == for_turn) {
                    turn.done(Outcome::Failed(failure), out);
                }
            }
        }
        self.advance(key, out);
    }

    /// A turn began, or did not.
    pub(super) fn begun(&mut self, key: u32, turn: u32, begun: Begun, result: Result<&Value, &Value>, out: &mut Vec<Action>) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        match result {
            Ok(result) => {
                if let Some(thread) = &mut session.thread {
                    thread.id.plan = begun.in_force.plan;
                    thread.id.told = begun.told;
                    thread.in_force = begun.in_force;
                    thread.report(key, thread.in_force.model.clone(), None, out);
                }
                if let Some(id) = result["turn"].text("id") {
                    self.running(key, Some(turn), id, out);
                }
            }
            Err(error) => {
                let failure = refusal(error);
                if failure.kind == FailureKind::SessionUnknown {
                    session.thread = None;
                }
                if let Some(turn) = session.turn.take_if(|open| open.key.turn == turn) {
                    turn.done(Outcome::Failed(failure), out);
                    self.asks.forget(key);
                }
            }
        }
    }

    /// The agent's id of a turn that was asked for is known.
    pub(super) fn running(&mut self, key: u32, turn: Option<u32>, id: &str, out: &mut Vec<Action>) {
        let Some(open) = self.sessions.get_mut(&key).and_then(|session| session.turn.as_mut()) else { return };
        if matches!(open.stage, Stage::Asked) && turn.is_none_or(|turn| turn == open.key.turn) {
            open.stage = Stage::Running(id.to_owned());
            if open.interrupted {
                self.stop(key, out);
            }
        }
    }

    pub(super) fn interrupt(&mut self, turn: TurnRef, out: &mut Vec<Action>) {
        let Some(session) = self.sessions.get_mut(&turn.session) else { return };
        let Some(open) = session.turn.as_mut().filter(|open| open.key == turn) else { return };
        open.interrupted = true;
        match open.stage {
            Stage::Waiting(_) => std::mem::take(&mut session.turn).into_iter().for_each(|turn| turn.done(Outcome::Interrupted, out)),
            // As soon as it has an id.
            Stage::Asked => {}
            Stage::Running(_) => self.stop(turn.session, out),
        }
    }

    /// Asks the agent to stop the running turn of a session.
    pub(super) fn stop(&mut self, key: u32, out: &mut Vec<Action>) {
        if let (Agent::Ready(proc), Some((thread, turn))) = (&self.agent, self.running_turn(key)) {
            let params = json!({ "threadId": thread, "turnId": turn }).to_string();
            self.calls.request(*proc, "turn/interrupt", &params, Call::Note, out);
        }
    }

    pub(super) fn steer(&mut self, steer: &Steer, out: &mut Vec<Action>) {
        let open = self.sessions.get(&steer.session).and_then(|session| session.turn.as_ref());
        let fits = steer.delivery == Delivery::Steer && open.is_some_and(|turn| turn.key.turn == steer.turn);
        if !(fits && self.tell(steer.session, &wire::input(None, &steer.parts), Call::Steer(steer.message), out)) {
            steered(steer.message, false, out);
        }
    }

    /// Hands further input to the running turn of a session. Returns false when there is none.
    pub(super) fn tell(&mut self, key: u32, input: &str, call: Call, out: &mut Vec<Action>) -> bool {
        let (Agent::Ready(proc), Some((thread, turn))) = (&self.agent, self.running_turn(key)) else { return false };
        let params = format!("{{\"threadId\":{},\"expectedTurnId\":{},\"input\":{input}}}", json!(thread), json!(turn));
        self.calls.request(*proc, "turn/steer", &params, call, out);
        wire::fill_blobs(out);
        true
    }

    /// The agent keeps the thread on disk and forgets it otherwise.
    pub(super) fn close(&mut self, key: u32, out: &mut Vec<Action>) {
        if self.sessions.get(&key).is_none_or(|session| session.turn.is_some()) {
            return;
        }
        if let (Some(Session { thread: Some(thread), .. }), Agent::Ready(proc)) = (self.sessions.remove(&key), &self.agent) {
            let params = json!({ "threadId": thread.id.thread }).to_string();
            self.calls.request(*proc, "thread/unsubscribe", &params, Call::Note, out);
        }
    }

    fn running_turn(&self, key: u32) -> Option<(String, String)> {
        let session = self.sessions.get(&key)?;
        match &session.turn.as_ref()?.stage {
            Stage::Running(turn) => Some((session.thread.as_ref()?.id.thread.clone(), turn.clone())),
            _ => None,
        }
    }
}

/// Says what became of a message. What the agent refuses, because the turn is just over, is prompted again later.
pub(super) fn steered(message: u32, injected: bool, out: &mut Vec<Action>) {
    let outcome = if injected { SteerOutcome::Injected } else { SteerOutcome::NotNow };
    out.push(Action::Steered(Steered { message, outcome }));
}
