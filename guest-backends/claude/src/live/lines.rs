//! What the agent says: the control protocol is understood here, all else by [`Claude`] as part of a turn.

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::wit::{Action, Diagnostic, EventKind, Level, Line, Outcome, QueryResult, TurnRef};

use super::agent::{Agent, Answered, Phase};
use super::asks::{self, Wanted};
use super::queries::{answer, health};
use super::turn::Turn;
use super::{Live, Timer};
use crate::stream::Claude;

/// The first key of turns the agent begins.
const OWN_TURNS: u32 = 0x8000_0000;

impl Live {
    pub(super) fn line(&mut self, line: &Line, out: &mut Vec<Action>) {
        let text = line.text.trim();
        let parsed = json::parse(text).ok();
        let message = parsed.as_ref().unwrap_or(&Value::Null);
        match (message.text("type"), message.text("subtype")) {
            (Some("control_request"), _) => self.asked(message, text, out),
            (Some("control_response"), _) => self.answered(&message["response"], text, out),
            (Some("control_cancel_request"), _) => out.extend(self.asks.withdraw(message).map(Action::AskWithdrawn)),
            (Some("system"), Some("session_state_changed")) => self.state(message.text("state"), out),
            _ if text.is_empty() => {}
            _ => {
                if let Some(refusal) = asks::unreadable(text).filter(|_| parsed.is_none()) {
                    self.tell(refusal, out);
                }
                self.said(parsed.as_ref(), text, line.truncated, out);
            }
        }
    }

    /// Takes a line in that is not of the control protocol.
    fn said(&mut self, message: Option<&Value>, text: &str, truncated: bool, out: &mut Vec<Action>) {
        if let (Some(agent), Some(mode)) = (&mut self.agent, message.and_then(|message| message.text("permissionMode"))) {
            agent.in_mode(mode);
        }
        let Some(turn) = &mut self.turn else {
            outside(message, text, truncated, out);
            return;
        };
        let mut emit = Emit::new(turn.at, out);
        let result = self.claude.said(message, text, truncated, &mut emit);
        if let Some(id) = self.claude.session() {
            self.native = Some(id.to_owned());
        }
        if let Some(result) = result {
            let aside = message.is_some_and(|message| message["origin"].text("kind") == Some("task-notification"));
            turn.result(result, aside, &mut emit);
            if turn.complete() && self.agent.as_ref().is_some_and(|agent| !agent.tells_state) {
                self.set(Timer::Linger, out);
            }
        }
    }

    fn state(&mut self, state: Option<&str>, out: &mut Vec<Action>) {
        let Some(agent) = &mut self.agent else { return };
        agent.tells_state = true;
        match (state, &self.turn, self.session) {
            (Some("running"), None, Some(session)) if agent.phase == Phase::Ready && !agent.stale => {
                let at = TurnRef { session, turn: OWN_TURNS + self.own_turns };
                self.own_turns += 1;
                self.claude.begin(self.native.clone());
                self.turn = Some(Turn::own(at));
                out.push(Action::TurnBegun(at));
            }
            (Some("idle"), Some(turn), _) if turn.complete() => self.end(|| Outcome::Completed, out),
            _ => {}
        }
    }

    /// The agent asks.
    fn asked(&mut self, message: &Value, text: &str, out: &mut Vec<Action>) {
        let plans = self.agent.as_ref().is_some_and(Agent::plans);
        match (message["request"].text("subtype"), &self.turn) {
            (Some("can_use_tool"), Some(turn)) if turn.prompt.is_none() => match self.asks.want(message, turn.at, plans) {
                Wanted::Ask(ask) => out.push(Action::Ask(*ask)),
                Wanted::Answer(line) => self.tell(line, out),
                Wanted::Nothing => {}
            },
            (Some("can_use_tool"), _) => self.tell(asks::nobody(message), out),
            (subtype, turn) => {
                let what = format!("control request {:?}", subtype.unwrap_or_default());
                if let Some(turn) = turn {
                    Emit::new(turn.at, out).unrecognised(what, Some("request.subtype".to_owned()), text);
                }
                self.tell(asks::unsupported(message), out);
            }
        }
    }

    /// The agent answers.
    fn answered(&mut self, response: &Value, text: &str, out: &mut Vec<Action>) {
        let Some(agent) = &mut self.agent else { return };
        match agent.answered(response) {
            Answered::Ready => {
                for query in std::mem::take(&mut self.queries) {
                    self.query(query, out);
                }
            }
            Answered::Sign(query) => answer(query, QueryResult::Health(health(agent)), out),
            Answered::Other => {}
            Answered::Stray => {
                if let Some(turn) = &self.turn {
                    Emit::new(turn.at, out).unrecognised("control response to no request", Some("response.request_id".to_owned()), text);
                }
            }
        }
    }
}

/// What comes outside a turn is of no turn: only what is new is told, to the operator.
fn outside(message: Option<&Value>, text: &str, truncated: bool, out: &mut Vec<Action>) {
    let mut events = Vec::new();
    Claude::default().said(message, text, truncated, &mut Emit::new(TurnRef { session: 0, turn: 0 }, &mut events));
    for event in events {
        let Action::Event(event) = event else { continue };
        if let EventKind::Unrecognised(unknown) = event.kind {
            let text = format!("outside a turn: {}", unknown.what);
            out.push(Action::Diagnostic(Diagnostic { level: Level::Warn, text }));
        }
    }
}
