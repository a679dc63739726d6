//! User commands for a running turn: interrupts, steering messages, and answers to the agent's
//! questions.

use aetheel_backend_sdk::Offer;
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::wit::{Answer, AskKind, Decision, Steer, SteerOutcome, TurnRef};
use serde_json::json;

use crate::abilities::Steering;
use crate::agent::Agent;
use crate::client::{Asked, Call, Client, Wants};
use crate::prompt;
use crate::session::Stage;
use crate::spent::Meter;

impl<A: Agent> Client<A> {
    pub(crate) fn steered(&mut self, steer: &Steer, context: &mut LinkContext) {
        let Steer { session: key, turn, message, parts, .. } = steer;
        let session = self.sessions.get_mut(key).filter(|_| context.is_ready());
        let open = session.and_then(|session| Some((session.turn.as_mut()?, &session.called)));
        let Some((open, called)) = open.filter(|(open, _)| open.key.turn == *turn && open.runs())
        else {
            return context.steered(*message, SteerOutcome::NotNow);
        };
        let params = format!(
            r#"{{"sessionId":{},"prompt":{}"#,
            json!(called),
            prompt::blocks(&[], parts, self.can.images)
        );
        match self.can.steering {
            Steering::None => context.steered(*message, SteerOutcome::NotNow),
            Steering::Method => {
                let params = format!(
                    r#"{params},"_meta":{{"steering":{{"idleBehavior":"promptRequired"}}}}}}"#
                );
                self.calls.request(
                    context.proc(),
                    "_session/steering",
                    &params,
                    Call::Steer(*message),
                    context.out(),
                );
                prompt::fill_blobs(context.out());
            }
            Steering::Prompt => {
                open.prompts += 1;
                self.calls.request(
                    context.proc(),
                    "session/prompt",
                    &format!("{params}}}"),
                    Call::Prompt(*key, *turn),
                    context.out(),
                );
                prompt::fill_blobs(context.out());
                context.steered(*message, SteerOutcome::Injected);
            }
        }
    }

    /// Asks the agent to stop the current turn of a session.
    pub(crate) fn cancel(&mut self, key: u32, context: &mut LinkContext) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        if let Some(turn) = &mut session.turn {
            turn.stopping = true;
        }
        if context.is_ready() && session.native.is_some() {
            self.calls.notify(
                context.proc(),
                "session/cancel",
                &json!({ "sessionId": session.called }).to_string(),
                context.out(),
            );
        }
    }

    /// Cancels the open requests of a session, and returns their keys.
    pub(crate) fn withdraw(&mut self, key: u32, context: &mut LinkContext) -> Vec<u32> {
        let open = self.asked.close(key);
        if context.is_ready() {
            open.iter().for_each(|(_, asked)| {
                self.calls.result(context.proc(), &asked.id, asked.wants.cancelled(), context.out())
            });
        }
        open.into_iter().map(|(ask, _)| ask).collect()
    }

    pub(crate) fn answered(&mut self, Answer { ask, decision }: Answer, context: &mut LinkContext) {
        let Some(asked) = self.asked.take(ask).filter(|_| context.is_ready()) else { return };
        let result = match &asked.wants {
            Wants::Permission { tool, options, plan } => {
                self.decided(asked.session, tool, &options.meaning(&decision), *plan);
                options.result(&decision)
            }
            Wants::Elicitation(elicitation) => elicitation.result(&decision),
        };
        if decision == Decision::DenyAndStop {
            self.cancel(asked.session, context);
        }
        self.calls.result(context.proc(), &asked.id, &result, context.out());
    }

    /// Records the decision about a tool use or a plan.
    fn decided(&mut self, session: u32, tool: &str, meaning: &Decision, plan: bool) {
        let Some(session) = self.sessions.get_mut(&session) else { return };
        match (meaning, &mut session.turn) {
            (Decision::AllowOnce | Decision::AllowAlways, Some(turn)) if plan => turn.agreed = true,
            (Decision::AllowAlways, _) => session.grants.give(()),
            (Decision::AllowOnce, _) | (_, None) => {}
            (_, Some(turn)) => turn.denied(tool),
        }
    }

    /// Prepares a session for a turn with fewer permissions: earlier "always" decisions must be
    /// forgotten. Returns `false` if only a new process guarantees that.
    ///
    /// If other sessions are busy in the process, the session is closed and opened again, which
    /// makes Gemini CLI 0.61.0 rebuild it.
    pub(crate) fn make_forget(&mut self, key: u32, context: &mut LinkContext) -> bool {
        if self.sessions.iter().all(|(other, session)| *other == key || session.turn.is_none()) {
            return false;
        }
        let Some(session) =
            self.sessions.get_mut(&key).filter(|session| session.stage != Stage::Closed)
        else {
            return true;
        };
        session.system = None;
        session.stage = Stage::Closed;
        if self.can.close {
            session.stage = Stage::Closing;
            let params = json!({ "sessionId": session.called }).to_string();
            self.calls.request(
                context.proc(),
                "session/close",
                &params,
                Call::Close(key),
                context.out(),
            );
        }
        true
    }

    /// Closes a session after an interrupted turn, if the agent supports it: a command may continue
    /// in the background (codex-acp 2.6.0) until its session is closed. The next turn opens the
    /// session again.
    pub(crate) fn end_commands(&mut self, key: u32, context: &mut LinkContext) {
        let reopens = self.can.close && (self.can.resume || self.can.load);
        if let Some(session) = self
            .sessions
            .get_mut(&key)
            .filter(|session| reopens && session.stage == Stage::Ready && context.is_ready())
        {
            session.stage = Stage::Closing;
            // After the session is opened again, its cost may start at zero or continue.
            session.meter = Meter::default();
            let params = json!({ "sessionId": session.called }).to_string();
            self.calls.request(
                context.proc(),
                "session/close",
                &params,
                Call::Close(key),
                context.out(),
            );
        }
    }

    /// Asks the user a question, and saves the request that waits for the decision.
    pub(crate) fn ask(
        &mut self,
        turn: TurnRef,
        title: String,
        kind: AskKind,
        asked: Asked,
        context: &mut LinkContext,
    ) {
        let offer = match &asked.wants {
            Wants::Permission { tool, options, plan } => {
                // "Always" decisions are revoked by opening the session again. The approval of a
                // plan must not grant all of its actions: "always" would select the mode that
                // bypasses permissions (claude-agent-acp 0.49.0).
                let always = !plan && (self.can.load || self.can.resume);
                let session = self.sessions.get(&asked.session);
                let used = session.and_then(|session| session.turn.as_ref()?.used(tool));
                Offer {
                    always: options.always().filter(|_| always),
                    options: options.offered(always),
                    diffs: used.map(|tool| tool.diffs.clone()).unwrap_or_default(),
                    ..Offer::default()
                }
            }
            Wants::Elicitation(elicitation) => {
                Offer { deadline_ms: elicitation.deadline_ms, ..Offer::default() }
            }
        };
        self.asked.ask(turn, title, kind, offer, asked, context.out());
    }
}
