//! Sessions, their threads, and the progress of their turns.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::{Agent as _, LinkContext, Step};
use aetheel_backend_sdk::wit::{
    Action, Failure, FailureKind, Outcome, SessionReady, StartTurn, Steer, SteerOutcome,
};
use aetheel_backend_sdk::{Grants, failure};
use serde_json::json;

use super::asks::Grant;
use super::turn::{Stage, Turn};
use super::wire::{self, InForce};
use super::{Call, Codex, host_tools, refusal};
use crate::native_id::NativeId;
use crate::prompt;

/// A conversation of the host, and Codex's thread for it.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) thread: Option<Thread>,
    /// A thread that is being opened: the requested id (`None` for a new thread) and its settings.
    pub(crate) opening: Option<(Option<NativeId>, bool, InForce, u64)>,
    pub(crate) turn: Option<Turn>,
    /// The query that compacts the thread. Codex runs it as a turn, which another turn must not
    /// disturb.
    pub(crate) compacting: Option<u32>,
    /// Permissions granted for the session.
    pub(crate) grants: Grants<Grant>,
}

/// A thread of Codex.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Thread {
    pub(crate) id: NativeId,
    /// The id last reported to the host.
    pub(crate) reported: String,
    pub(crate) in_force: InForce,
    /// The thread's default model and effort.
    pub(crate) model: Option<String>,
    pub(crate) effort: Option<String>,
}

/// The settings of a thread once `turn/start` is answered.
#[derive(Debug)]
pub(crate) struct Begun {
    in_force: InForce,
    prompt_hash: Option<u64>,
}

impl Session {
    pub(crate) fn with(thread: Thread, grants: Grants<Grant>) -> Self {
        Self { thread: Some(thread), grants, ..Self::default() }
    }
}

impl Thread {
    /// Reports the session's id if it has changed. `model` is the chosen one, if any.
    fn report(
        &mut self,
        session: u32,
        model: Option<String>,
        title: Option<String>,
        out: &mut Vec<Action>,
    ) {
        let native_id = self.id.to_string();
        if self.reported != native_id {
            self.reported.clone_from(&native_id);
            let model = model.or_else(|| self.model.clone());
            out.push(Action::SessionReady(SessionReady {
                session,
                native_id,
                model,
                title,
                tools: Vec::new(),
            }));
        }
    }
}

impl Codex {
    /// Performs the next step of a waiting turn.
    pub(super) fn advance(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step {
        let (key, proc) = (start.session, context.proc());
        let Some(session) =
            self.sessions.get_mut(&key).filter(|session| session.compacting.is_none())
        else {
            return Step::Wait;
        };
        let Some(turn) = &mut session.turn else { return Step::Wait };
        let requested = turn.requested.clone();
        // An open thread continues unless another one is requested.
        let open = session.thread.as_mut().filter(|thread| {
            !turn.fork
                && requested.as_ref().is_none_or(|requested| requested.thread == thread.id.thread)
        });
        let wanted = InForce::of(&start.settings, &start.cwd);
        if let Some(thread) = open {
            if thread.in_force.limits != wanted.limits {
                let message = "the allowed tools have changed, and Codex cannot change the tools of a conversation; begin another one";
                return Step::Fail(failure(FailureKind::Unsupported, message));
            }
            if let Some(known) = &turn.known
                && *known != thread.reported
            {
                // The host knows another id.
                thread.reported.clear();
            }
            let change = prompt::change(&start.settings, thread.id.prompt_hash);
            let (_, prompt_hash) = prompt::instructions(&start.settings);
            let prompt_hash =
                if change.is_some() { Some(prompt_hash) } else { thread.id.prompt_hash };
            let input = wire::input(change.as_deref(), &start.parts);
            let own = (thread.model.as_deref(), thread.effort.as_deref());
            let params = wire::begin(&thread.id.thread, &thread.in_force, &wanted, own, &input);
            let begun = Box::new(Begun { in_force: wanted, prompt_hash });
            self.calls.request(
                proc,
                "turn/start",
                &params,
                Call::Begin(key, start.turn, begun),
                context.out(),
            );
            wire::fill_blobs(context.out());
            turn.stage = Stage::Asked;
            return Step::Prompted;
        }
        if session.opening.is_none() {
            let method = match (&requested, turn.fork) {
                (None, _) => "thread/start",
                (Some(_), false) => "thread/resume",
                (Some(_), true) => "thread/fork",
            };
            let mut params = wire::open(
                &start.settings,
                &start.cwd,
                requested.as_ref().map(|requested| requested.thread.as_str()),
            );
            if requested.is_none() && !start.tools.is_empty() {
                params["dynamicTools"] = host_tools::dynamic(&start.tools);
            }
            self.calls.request(
                proc,
                method,
                &params.to_string(),
                Call::Open(key, start.turn),
                context.out(),
            );
            // Set by the first turn only, so that the defaults are known.
            let in_force = InForce {
                model: None,
                effort: None,
                plan: requested.as_ref().is_some_and(|requested| requested.plan),
                ..wanted
            };
            session.opening =
                Some((requested, turn.fork, in_force, prompt::instructions(&start.settings).1));
            // The next turn continues the copy.
            (turn.fork, turn.requested, turn.known) = (false, None, None);
            if session.thread.take().is_some() {
                session.grants.clear();
            }
        }
        Step::Wait
    }

    /// Handles the answer to opening a thread.
    pub(super) fn opened(
        &mut self,
        key: u32,
        for_turn: u32,
        result: Result<&Value, &Value>,
        context: &mut LinkContext,
    ) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let Some((requested, forked, in_force, prompt_hash)) = session.opening.take() else {
            return;
        };
        let found = result
            .ok()
            .and_then(|result| result["thread"].text("id"))
            .filter(|id| NativeId::parse(id).is_some());
        match (found, result) {
            (Some(found), Ok(result)) => {
                let own = |key: &str| result.text(key).map(str::to_owned);
                let id = match &requested {
                    None => NativeId { prompt_hash: Some(prompt_hash), ..NativeId::bare(found) },
                    Some(requested) => NativeId {
                        prompt_hash: requested.prompt_hash,
                        plan: requested.plan,
                        ..NativeId::bare(found)
                    },
                };
                let mut thread = Thread {
                    id,
                    reported: String::new(),
                    in_force,
                    model: own("model"),
                    effort: own("reasoningEffort"),
                };
                if let Some(turn) =
                    session.turn.as_ref().filter(|turn| matches!(turn.stage, Stage::Waiting))
                {
                    thread.report(
                        key,
                        turn.model.clone(),
                        result["thread"].text("name").map(str::to_owned),
                        context.out(),
                    );
                }
                session.thread = Some(thread);
                if let (Some(turn), Some(requested), false) = (&session.turn, requested, forked)
                    && requested.thread != found
                {
                    turn.emit(context.out())
                        .notice("Codex could not continue the conversation and began a new one.");
                    if let Some(thread) = &mut session.thread {
                        (thread.id.prompt_hash, thread.id.plan, thread.in_force.plan) =
                            (None, false, false);
                    }
                }
            }
            (_, result) => {
                let failure = match result {
                    Err(error) => refusal(error),
                    Ok(_) => Failure {
                        kind: FailureKind::Protocol,
                        message: "Codex did not report a thread".to_owned(),
                        retry_after_ms: None,
                    },
                };
                if let Some(turn) = context.turn_of(key).filter(|turn| turn.turn == for_turn) {
                    self.finish(turn, Outcome::Failed(failure), context);
                }
            }
        }
    }

    /// Handles the answer to starting a turn.
    pub(super) fn begun(
        &mut self,
        key: u32,
        turn: u32,
        begun: Begun,
        result: Result<&Value, &Value>,
        context: &mut LinkContext,
    ) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        match result {
            Ok(result) => {
                if let Some(thread) = &mut session.thread {
                    thread.id.plan = begun.in_force.plan;
                    thread.id.prompt_hash = begun.prompt_hash;
                    thread.in_force = begun.in_force;
                    thread.report(key, thread.in_force.model.clone(), None, context.out());
                }
                if let Some(id) = result["turn"].text("id") {
                    self.running(key, Some(turn), id, context);
                }
            }
            Err(error) => {
                let failure = refusal(error);
                if failure.kind == FailureKind::SessionUnknown {
                    session.thread = None;
                }
                if let Some(turn) = context.turn_of(key).filter(|open| open.turn == turn) {
                    self.finish(turn, Outcome::Failed(failure), context);
                }
            }
        }
    }

    /// Records the agent's id of a turn.
    pub(super) fn running(
        &mut self,
        key: u32,
        turn: Option<u32>,
        id: &str,
        context: &mut LinkContext,
    ) {
        let Some(open) = self.sessions.get_mut(&key).and_then(|session| session.turn.as_mut())
        else {
            return;
        };
        if matches!(open.stage, Stage::Asked) && turn.is_none_or(|turn| turn == open.key.turn) {
            open.stage = Stage::Running(id.to_owned());
            if context.is_interrupted(key) {
                self.stop(key, context);
            }
        }
    }

    /// Asks the agent to stop the running turn of a session.
    pub(super) fn stop(&mut self, key: u32, context: &mut LinkContext) {
        if let Some((thread, turn)) = self.running_turn(key).filter(|_| context.is_ready()) {
            let params = json!({ "threadId": thread, "turnId": turn }).to_string();
            self.calls.request(
                context.proc(),
                "turn/interrupt",
                &params,
                Call::Note,
                context.out(),
            );
        }
    }

    /// Ends the commands that still run in a session and in its sub-agents. An interrupted turn
    /// leaves them running (observed in 0.169.0), and so does a thread without subscribers.
    pub(super) fn end_commands(&mut self, key: u32, context: &mut LinkContext) {
        let Some(session) = self.sessions.get(&key).filter(|_| context.is_ready()) else { return };
        let children =
            session.turn.iter().flat_map(|turn| turn.children.iter().map(|(thread, _)| thread));
        for thread in session.thread.iter().map(|thread| &thread.id.thread).chain(children) {
            let params = json!({ "threadId": thread }).to_string();
            self.calls.request(
                context.proc(),
                "thread/backgroundTerminals/clean",
                &params,
                Call::Note,
                context.out(),
            );
        }
    }

    pub(super) fn steered(&mut self, steer: &Steer, context: &mut LinkContext) {
        let open = self.sessions.get(&steer.session).and_then(|session| session.turn.as_ref());
        let fits = open.is_some_and(|turn| turn.key.turn == steer.turn);
        if !(fits
            && self.send_input(
                steer.session,
                &wire::input(None, &steer.parts),
                Call::Steer(steer.message),
                context,
            ))
        {
            steered(steer.message, false, context);
        }
    }

    /// Sends further input to the running turn of a session. Returns `false` without a running
    /// turn.
    pub(super) fn send_input(
        &mut self,
        key: u32,
        input: &str,
        call: Call,
        context: &mut LinkContext,
    ) -> bool {
        let Some((thread, turn)) = self.running_turn(key).filter(|_| context.is_ready()) else {
            return false;
        };
        let params = format!(
            "{{\"threadId\":{},\"expectedTurnId\":{},\"input\":{input}}}",
            json!(thread),
            json!(turn)
        );
        self.calls.request(context.proc(), "turn/steer", &params, call, context.out());
        wire::fill_blobs(context.out());
        true
    }

    /// Unsubscribes from a thread. The agent keeps it on disk only.
    pub(super) fn unsubscribe(&mut self, key: u32, context: &mut LinkContext) {
        if self.sessions.get(&key).is_none_or(|session| session.turn.is_some()) {
            return;
        }
        self.end_commands(key, context);
        if let Some(thread) = self
            .sessions
            .remove(&key)
            .and_then(|session| session.thread)
            .filter(|_| context.is_ready())
        {
            let params = json!({ "threadId": thread.id.thread }).to_string();
            self.calls.request(
                context.proc(),
                "thread/unsubscribe",
                &params,
                Call::Note,
                context.out(),
            );
        }
    }

    fn running_turn(&self, key: u32) -> Option<(String, String)> {
        let session = self.sessions.get(&key)?;
        match &session.turn.as_ref()?.stage {
            Stage::Running(turn) => {
                Some((session.thread.as_ref()?.id.thread.clone(), turn.clone()))
            }
            _ => None,
        }
    }
}

/// Reports the outcome of a steered message. If the agent refuses it because the turn is over, the
/// host sends it later as a prompt.
pub(super) fn steered(message: u32, injected: bool, context: &mut LinkContext) {
    let outcome = if injected { SteerOutcome::Injected } else { SteerOutcome::NotNow };
    context.steered(message, outcome);
}
