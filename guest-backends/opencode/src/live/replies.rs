//! Handles the server's answers to requests.

use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::wit::{
    Action, Diagnostic, Failure, FailureKind, HttpFailed, HttpResponse, Level, SteerOutcome,
};

use super::link::{Asked, Purpose, Wait};
use super::{OpenCode, events};
use crate::{failure, prompt, tool_server};

impl OpenCode {
    pub(super) fn response(&mut self, response: &HttpResponse, context: &mut LinkContext) {
        let Some(purpose) = self.link.answered(response.request) else { return };
        if !(200..300).contains(&response.status) {
            let failure = failure::of_answer(what(&purpose), response.status, &response.body);
            self.refused(&purpose, &failure, context);
            return;
        }
        let body = json::parse(&response.body).unwrap_or_default();
        match purpose {
            Purpose::Greeting => self.greeted(&body, context),
            Purpose::Open { session, copy } => {
                match body.text("id").filter(|id| prompt::is_session(id)) {
                    Some(native) => self.exists(session, native, !copy, &body, context),
                    None => {
                        context.unrecognised("no id in `id`", Some("id"), &response.body);
                        let why = format!("{}: no session id in the answer", what(&purpose));
                        let failure = aetheel_backend_sdk::failure(FailureKind::Protocol, why);
                        self.refused(&purpose, &failure, context);
                    }
                }
            }
            Purpose::Permit { session } => {
                if let Some(native) =
                    self.sessions.get(&session).and_then(|known| known.native.clone())
                {
                    self.exists(session, &native, true, &body, context);
                }
            }
            Purpose::Abort(turn) => {
                let settled = self.turn(turn).and_then(|open| open.interrupt.as_mut()).is_some_and(
                    |interrupt| {
                        interrupt.answered = true;
                        interrupt.idle
                    },
                );
                // Usually a second idle event follows.
                if settled {
                    self.link.wait(turn, Wait::Settle, context.out());
                }
            }
            Purpose::Steer { message, .. } => context.steered(message, SteerOutcome::Injected),
            Purpose::Status(turn) => self.status(turn, &body, context),
            Purpose::Messages { turn, idle } => self.caught_up(turn, idle, &body, context),
            Purpose::Asks { turn, kind } => self.asked_meanwhile(turn, kind, &body, context),
            Purpose::Query { query, asked } => self.query_answered(query, asked, &body, context),
            Purpose::Serve { session } => {
                let status = &body[tool_server::of_session(session).as_str()];
                let connected = status.text("status") == Some("connected");
                if !connected {
                    let why = status.text("error").unwrap_or("it is not connected");
                    warn(format!("OpenCode cannot use the tools of the host: {why}"), context);
                }
                self.served(session, connected);
            }
            Purpose::Prompt(_) | Purpose::Reply | Purpose::Unserve => {}
        }
    }

    pub(super) fn unanswered(&mut self, failed: &HttpFailed, context: &mut LinkContext) {
        if let Some(purpose) = self.link.answered(failed.request) {
            self.refused(&purpose, &failure::of_silence(what(&purpose), failed), context);
        }
    }

    /// Handles an error status or a missing answer.
    fn refused(&mut self, purpose: &Purpose, failure: &Failure, context: &mut LinkContext) {
        match *purpose {
            Purpose::Greeting => context.give_up(failure.clone()),
            Purpose::Open { session, .. } | Purpose::Permit { session } => {
                if let Some(known) = self.sessions.get_mut(&session) {
                    known.failed();
                }
                self.fail(session, failure.clone(), context);
            }
            Purpose::Prompt(turn) => {
                if self.turn(turn).is_some_and(|open| !open.begun) {
                    self.fail(turn.session, failure.clone(), context);
                }
            }
            Purpose::Steer { turn, message } => {
                if let Some(open) = self.turn(turn) {
                    open.expected = open.expected.saturating_sub(1);
                }
                context.steered(message, SteerOutcome::NotNow);
            }
            Purpose::Query { query, asked } => {
                if let Asked::Compact { session } = asked
                    && let Some(session) = self.sessions.get_mut(&session)
                {
                    session.compaction = None;
                }
                context.refuse(query, failure.clone());
            }
            Purpose::Serve { session } => {
                warn(failure.message.clone(), context);
                self.served(session, false);
            }
            Purpose::Abort(_)
            | Purpose::Status(_)
            | Purpose::Messages { .. }
            | Purpose::Asks { .. }
            | Purpose::Reply
            | Purpose::Unserve => warn(failure.message.clone(), context),
        }
    }

    /// Continues with a turn whose host tools were added, or could not be.
    fn served(&mut self, session: u32, connected: bool) {
        if let Some(known) = self.sessions.get_mut(&session) {
            known.served(connected);
        }
    }

    fn exists(
        &mut self,
        session: u32,
        native: &str,
        permitted: bool,
        body: &Value,
        context: &mut LinkContext,
    ) {
        let Some(known) = self.sessions.get_mut(&session) else { return };
        let new = !permitted || !known.was_ready();
        known.exists(native.to_owned(), permitted);
        known.retitled(body);
        if new {
            let model = events::model(&body["model"])
                .map(|(provider, model)| format!("{provider}/{model}"));
            known.ready(model, context);
        }
    }
}

fn warn(text: String, context: &mut LinkContext) {
    context.action(Action::Diagnostic(Diagnostic { level: Level::Warn, text }));
}

/// Returns the name of a request for users.
fn what(purpose: &Purpose) -> &'static str {
    match purpose {
        Purpose::Greeting => "the health of OpenCode's server",
        Purpose::Open { copy: false, .. } => "creating a session",
        Purpose::Open { copy: true, .. } => "copying the session",
        Purpose::Permit { .. } => "resuming the session",
        Purpose::Serve { .. } | Purpose::Unserve => "the tools of the host",
        Purpose::Prompt(_) => "the prompt",
        Purpose::Steer { .. } => "the steering message",
        Purpose::Abort(_) => "the interrupt",
        Purpose::Status(_) | Purpose::Messages { .. } | Purpose::Asks { .. } => "the missed events",
        Purpose::Reply => "the answer to a question",
        Purpose::Query { .. } => "the query",
    }
}
