//! What follows from the server's answers to requests.

use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::live::Talk;
use aetheel_backend_sdk::wit::{
    Action, Diagnostic, Failure, HttpFailed, HttpResponse, Level, SteerOutcome,
};

use super::link::{Asked, Purpose, Wait};
use super::{OpenCode, events};
use crate::{failure, prompt};

impl OpenCode {
    pub(super) fn response(&mut self, response: &HttpResponse, talk: &mut Talk) {
        let Some(purpose) = self.link.answered(response.request) else { return };
        if !(200..300).contains(&response.status) {
            let failure = failure::of_answer(what(&purpose), response.status, &response.body);
            self.refused(&purpose, &failure, talk);
            return;
        }
        let body = json::parse(&response.body).unwrap_or_default();
        match purpose {
            Purpose::Greeting => self.greeted(&body, talk),
            Purpose::Open { session, copy } => match body
                .text("id")
                .filter(|id| prompt::is_session(id))
            {
                Some(native) => self.exists(session, native, !copy, &body, talk),
                None => self.refused(
                    &purpose,
                    &failure::of_answer("making a session", response.status, "no session in it"),
                    talk,
                ),
            },
            Purpose::Permit { session } => {
                if let Some(native) =
                    self.sessions.get(&session).and_then(|known| known.native.clone())
                {
                    self.exists(session, &native, true, &body, talk);
                }
            }
            Purpose::Abort(turn) => {
                let settled = self.turn(turn).and_then(|open| open.interrupt.as_mut()).is_some_and(
                    |interrupt| {
                        interrupt.answered = true;
                        interrupt.idle
                    },
                );
                // Mostly it says so a second time.
                if settled {
                    self.link.wait(turn, Wait::Settle, talk.out());
                }
            }
            Purpose::Steer { message, .. } => talk.steered(message, SteerOutcome::Injected),
            Purpose::Status(turn) => self.status(turn, &body, talk),
            Purpose::Messages { turn, idle } => self.caught_up(turn, idle, &body, talk),
            Purpose::Query { query, asked } => self.query_answered(query, asked, &body, talk),
            Purpose::Prompt(_) | Purpose::Reply => {}
        }
    }

    pub(super) fn unanswered(&mut self, failed: &HttpFailed, talk: &mut Talk) {
        if let Some(purpose) = self.link.answered(failed.request) {
            self.refused(&purpose, &failure::of_silence(what(&purpose), failed), talk);
        }
    }

    /// The server refused, or did not answer.
    fn refused(&mut self, purpose: &Purpose, failure: &Failure, talk: &mut Talk) {
        match *purpose {
            Purpose::Greeting => talk.give_up(failure.clone()),
            Purpose::Open { session, .. } | Purpose::Permit { session } => {
                if let Some(known) = self.sessions.get_mut(&session) {
                    known.failed();
                }
                self.fail(session, failure.clone(), talk);
            }
            Purpose::Prompt(turn) => {
                if self.turn(turn).is_some_and(|open| !open.begun) {
                    self.fail(turn.session, failure.clone(), talk);
                }
            }
            Purpose::Steer { turn, message } => {
                if let Some(open) = self.turn(turn) {
                    open.expected = open.expected.saturating_sub(1);
                }
                talk.steered(message, SteerOutcome::NotNow);
            }
            Purpose::Query { query, asked } => {
                if let Asked::Compact { session } = asked
                    && let Some(session) = self.sessions.get_mut(&session)
                {
                    session.compaction = None;
                }
                talk.refuse(query, failure.clone());
            }
            Purpose::Abort(_) | Purpose::Status(_) | Purpose::Messages { .. } | Purpose::Reply => {
                talk.action(Action::Diagnostic(Diagnostic {
                    level: Level::Warn,
                    text: failure.message.clone(),
                }));
            }
        }
    }

    fn exists(
        &mut self,
        session: u32,
        native: &str,
        permitted: bool,
        body: &Value,
        talk: &mut Talk,
    ) {
        let Some(known) = self.sessions.get_mut(&session) else { return };
        let new = !permitted || !known.was_ready();
        known.exists(native.to_owned(), permitted);
        known.retitled(body);
        if new {
            let model = events::model(&body["model"])
                .map(|(provider, model)| format!("{provider}/{model}"));
            known.ready(model, talk);
        }
    }
}

/// What a request is for, in words for people.
fn what(purpose: &Purpose) -> &'static str {
    match purpose {
        Purpose::Greeting => "the health of OpenCode's server",
        Purpose::Open { copy: false, .. } => "making a session",
        Purpose::Open { copy: true, .. } => "copying the session",
        Purpose::Permit { .. } => "taking up the session",
        Purpose::Prompt(_) => "the prompt",
        Purpose::Steer { .. } => "the further message",
        Purpose::Abort(_) => "the interrupt",
        Purpose::Status(_) | Purpose::Messages { .. } => "what was missed",
        Purpose::Reply => "the answer to a question",
        Purpose::Query { .. } => "the query",
    }
}
