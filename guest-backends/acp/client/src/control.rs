//! What people do to a running turn: stop it, add to it, answer what it asks.

use aetheel_backend_sdk::wit::{Action, Answer, AskKind, Decision, Delivery, Signal, Steer, SteerOutcome, Steered, Stop, TurnRef};
use serde_json::json;

use crate::agent::Agent;
use crate::client::{Asked, Call, Client, Process, Steering};
use crate::life::TERMINATE_MS;
use crate::permission::CANCELLED;
use crate::prompt;
use crate::session::{Session, Stage};

impl<A: Agent> Client<A> {
    pub(crate) fn steer(&mut self, steer: Steer, out: &mut Vec<Action>) {
        let not_now = Action::Steered(Steered { message: steer.message, outcome: SteerOutcome::NotNow });
        let (Process::Ready(proc), Some(session)) = (self.process, self.sessions.get_mut(&steer.session)) else {
            out.push(not_now);
            return;
        };
        let turn = session.turn.as_mut().filter(|turn| turn.key.turn == steer.turn && turn.prompts > 0 && !turn.stopping);
        let (Some(turn), Delivery::Steer) = (turn, steer.delivery) else {
            out.push(not_now);
            return;
        };
        let params = format!(r#"{{"sessionId":{},"prompt":{}"#, json!(session.called), prompt::blocks(None, &steer.parts, self.can.images));
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

    pub(crate) fn interrupt(&mut self, key: TurnRef, out: &mut Vec<Action>) {
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

    pub(crate) fn cancel(&mut self, key: u32, out: &mut Vec<Action>) {
        if let (Process::Ready(proc), Some(session)) = (self.process, self.sessions.get(&key).filter(|session| session.native.is_some())) {
            self.calls.notify(proc, "session/cancel", &json!({ "sessionId": session.called }).to_string(), out);
        }
    }

    /// Answers what the agent still asks in a session, in nobody's name, and returns the keys.
    pub(crate) fn withdraw(&mut self, key: u32, out: &mut Vec<Action>) -> Vec<u32> {
        let open = self.asked.close(key);
        if let Process::Ready(proc) = self.process {
            open.iter().for_each(|(_, asked)| self.calls.result(proc, &asked.id, CANCELLED, out));
        }
        open.into_iter().map(|(ask, _)| ask).collect()
    }

    pub(crate) fn answer(&mut self, answer: Answer, out: &mut Vec<Action>) {
        let (Some(asked), Process::Ready(proc)) = (self.asked.take(answer.ask), self.process) else { return };
        let allowed = matches!(answer.decision, Decision::AllowOnce | Decision::AllowAlways);
        if !allowed && let Some(turn) = self.sessions.get_mut(&asked.session).and_then(|session| session.turn.as_mut()) {
            turn.denied(&asked.tool);
            turn.stopping |= answer.decision == Decision::DenyAndStop;
        }
        if answer.decision == Decision::DenyAndStop {
            self.cancel(asked.session, out);
        }
        if answer.decision == Decision::AllowAlways
            && let Some(session) = self.sessions.get_mut(&asked.session)
        {
            session.grants.give(());
        }
        self.calls.result(proc, &asked.id, &asked.options.result(&answer.decision), out);
    }

    /// Has the agent forget what was allowed in a session, before a turn that may do less: it may hold that at any level.
    ///
    /// Only a new process surely does not know. Where others are at work in this one, the session is closed and opened
    /// again, which for Gemini CLI 0.61.0 makes it anew.
    pub(crate) fn make_forget(&mut self, key: u32, out: &mut Vec<Action>) {
        let Process::Ready(proc) = self.process else { return };
        let alone = self.sessions.iter().all(|(other, session)| *other == key || session.turn.is_none());
        if alone {
            self.process = Process::None;
            out.push(Action::CloseStdin(proc));
            out.push(Action::Stop(Stop { proc, signal: Signal::Terminate, grace_ms: TERMINATE_MS }));
            return;
        }
        let Some(session) = self.sessions.get_mut(&key).filter(|session| session.stage != Stage::Closed) else { return };
        session.system = None;
        session.stage = Stage::Closed;
        if self.can.close {
            session.stage = Stage::Closing;
            let params = json!({ "sessionId": session.called }).to_string();
            self.calls.request(proc, "session/close", &params, Call::Close(key), out);
        }
    }

    /// Asks a person.
    pub(crate) fn ask(&mut self, turn: TurnRef, title: String, kind: AskKind, asked: Asked, out: &mut Vec<Action>) {
        // What is allowed for the session is taken back by opening it anew.
        let always_label = asked.options.always().filter(|_| self.can.load || self.can.resume);
        self.asked.ask(turn, title, kind, always_label, asked, out);
    }

    pub(crate) fn close(&mut self, key: u32, out: &mut Vec<Action>) {
        if let (Some(Session { native: Some(_), called, .. }), Process::Ready(proc)) = (self.sessions.remove(&key), self.process)
            && self.can.close
        {
            self.calls.request(proc, "session/close", &json!({ "sessionId": called }).to_string(), Call::Other, out);
        }
    }
}
