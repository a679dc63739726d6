//! A long-lived `droid exec` that uses JSON-RPC over stdio: one session with many turns.
//!
//! The SDK manages the process and the open turns. `prompt` performs the next step of a waiting
//! turn: it opens the session, applies the settings, and sends the prompt. [`notes`] handles
//! Droid's notifications and [`ask`] its requests.

mod ask;
mod kept;
mod notes;
mod open;
mod query;
mod turn;

use aetheel_backend_sdk::json::{self, Value as Json};
use aetheel_backend_sdk::live::{self, Agent, Asks, LinkContext, Step};
use aetheel_backend_sdk::rpc::{Calls, Ids, Message};
use aetheel_backend_sdk::text::{one_line, stderr_end};
use aetheel_backend_sdk::wit::{
    Answer, Exited, Failure, FailureKind, Level, Line, Outcome, Query, Spawn, StartTurn, Steer,
    SteerOutcome, TurnRef,
};
use aetheel_backend_sdk::{TurnResult, failure};

use self::ask::Ask;
use self::open::Put;
use self::turn::Turn;
use crate::failure;
use crate::plan::{self, Fixed, word};

const ENVELOPE: &str = r#""jsonrpc":"2.0","type":"$kind","factoryApiVersion":"1.0.0""#;
/// The purpose of a request to Droid.
#[derive(Debug)]
enum Call {
    /// Creates the session, with these settings.
    New(Put),
    /// Loads a session. If `fork` is true, a copy of it is used.
    Load {
        id: String,
        fork: bool,
    },
    Fork,
    Settings(Put),
    Prompt,
    Steer(u32),
    Interrupt,
    Close,
    Health(u32),
    Models(u32),
    Compact(u32),
}

/// The backend with one long-lived process for each conversation.
pub type Live = live::Live<Droid>;

/// A session with a long-lived Droid.
#[derive(Debug)]
pub struct Droid {
    calls: Calls<Call>,
    /// The settings that the process was started with.
    fixed: Fixed,
    /// The session to load before the next prompt, and whether to copy it.
    resume: Option<(String, bool)>,
    /// The session that is open in the process.
    native: Option<String>,
    /// The session's current settings, or `None` if they are unknown.
    put: Option<Put>,
    /// The session's initial settings.
    defaults: Put,
    /// The host's key of the session.
    session: u32,
    /// The turn whose prompt was sent.
    turn: Option<Turn>,
    asks: Asks<Ask>,
}

impl Default for Droid {
    fn default() -> Self {
        Self {
            calls: Calls::new(ENVELOPE, Ids::Strings),
            fixed: Fixed::default(),
            resume: None,
            native: None,
            put: None,
            defaults: Put::default(),
            session: 0,
            turn: None,
            asks: Asks::default(),
        }
    }
}

impl Agent for Droid {
    const NAME: &'static str = "Droid";
    /// Droid needs 200 ms. A process that hangs does not exit at all.
    const LEAVE_MS: u32 = 1500;
    const GRACE_MS: u32 = 1000;

    fn describe() -> String {
        include_str!("../descriptor.json").to_owned()
    }

    fn accept(&mut self, start: &StartTurn, context: &mut LinkContext) -> Result<(), Failure> {
        if self.turn.is_some() {
            return Err(failure(FailureKind::Unsupported, "another turn is still open"));
        }
        if plan::prompt(&start.parts, false).trim().is_empty() {
            return Err(failure(FailureKind::BadRequest, "the prompt is empty"));
        }
        plan::check_tools(&start.settings, &mut context.emit(name(start)))?;
        // An open session is continued, regardless of the host's id.
        if self.native.is_none() && self.resume.is_none() && !self.calls.open().any(Call::opens) {
            self.resume = start.native_id.clone().map(|id| (id, start.fork));
        }
        self.session = start.session;
        Ok(())
    }

    fn launch(
        &mut self,
        start: Option<&StartTurn>,
        context: &mut LinkContext,
    ) -> Result<Spawn, Failure> {
        self.fixed = start.map(Fixed::of).unwrap_or_default();
        let mut arguments =
            ["exec", "--input-format", "stream-jsonrpc", "--output-format", "stream-jsonrpc"]
                .map(word)
                .to_vec();
        self.fixed.flags(&mut arguments, context.out());
        Ok(live::spawn("droid", arguments))
    }

    fn prompt(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step {
        if self
            .calls
            .open()
            .any(|call| call.opens() || matches!(call, Call::Settings(_) | Call::Compact(_)))
        {
            return Step::Wait;
        }
        if self.fixed != Fixed::of(start) {
            return Step::Restart;
        }
        let wanted = Put::of(start, &mut context.emit(name(start)));
        let Some(native) = &self.native else {
            self.open(wanted, &start.cwd, context);
            return Step::Wait;
        };
        let wanted = wanted.or(&self.defaults, self.put.as_ref());
        if let Some(params) = wanted.change_from(self.put.as_ref()) {
            self.calls.request(
                context.proc(),
                "droid.update_session_settings",
                &params,
                Call::Settings(wanted),
                context.out(),
            );
            return Step::Wait;
        }
        if let Some(put) = &mut self.put {
            put.safety = wanted.safety;
        }
        context
            .emit(name(start))
            .session_ready(native, self.put.as_ref().and_then(|put| put.model.clone()));
        turn::say(&start.parts, Call::Prompt, &mut self.calls, context);
        self.turn = Some(Turn::new(start));
        Step::Prompted
    }

    fn line(&mut self, line: Line, context: &mut LinkContext) {
        let Some(value) =
            json::object(&line, |what, text| self.unrecognised(what, None, text, context))
        else {
            return;
        };
        match self.calls.sort(&value) {
            Message::Response(call, result) => self.response(call, result, &line.text, context),
            Message::Stray(stray) => self.stray(stray, &line.text, context),
            Message::Request(id, method, params) => {
                self.asked(&id, method, params, &line.text, context)
            }
            Message::Notification("droid.session_notification", params) => {
                self.notified(params, &line.text, context)
            }
            Message::Notification(method, _) => self.unrecognised(
                format!("notification {method:?}"),
                Some("method"),
                &line.text,
                context,
            ),
            Message::Other => {
                self.unrecognised("line that is not a message", None, &line.text, context)
            }
        }
    }

    fn finish(&mut self, turn: TurnRef, outcome: Outcome, context: &mut LinkContext) {
        self.asks.close(turn.session);
        let mut ended = self.turn.take();
        let usage = ended.as_ref().and_then(|ended| ended.usage.clone());
        let text = ended
            .as_mut()
            .filter(|_| outcome == Outcome::Completed)
            .and_then(|ended| ended.answer.last());
        for message in ended.into_iter().flat_map(|ended| ended.steers) {
            context.steered(message, SteerOutcome::Dropped);
        }
        context.end(turn, TurnResult { outcome, text, usage });
    }

    fn interrupt(&mut self, _: TurnRef, context: &mut LinkContext) {
        if let Some(turn) = self.turn.as_mut().filter(|turn| !turn.interrupted) {
            turn.interrupted = true;
            self.calls.request(
                context.proc(),
                "droid.interrupt_session",
                "{}",
                Call::Interrupt,
                context.out(),
            );
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

    fn leave(&mut self, context: &mut LinkContext) {
        self.calls.request(
            context.proc(),
            "droid.interrupt_session",
            "{}",
            Call::Interrupt,
            context.out(),
        );
        self.calls.request(context.proc(), "droid.close_session", "{}", Call::Close, context.out());
    }

    fn forget(&mut self, why: &Failure, context: &mut LinkContext) {
        // The session is on disk, and the next process loads it.
        self.resume = self.native.take().map(|id| (id, false)).or(self.resume.take());
        self.put = None;
        for query in self.calls.clear().iter().filter_map(query::of_call) {
            context.refuse(query, why.clone());
        }
    }

    fn lost(&mut self, exited: &Exited, prompted: bool, why: Failure) -> Outcome {
        let said = stderr_end(&exited.stderr_tail, 5);
        if prompted || said.is_empty() {
            return Outcome::Lost(why);
        }
        let kind = Some(failure::of_model(&said).kind)
            .filter(|kind| *kind != FailureKind::Other)
            .unwrap_or(why.kind);
        Outcome::Failed(Failure { kind, ..why })
    }

    fn save(&self, proc: u32) -> Option<String> {
        self.kept(proc)
    }

    fn load(&mut self, state: &str, saved_by: &str) -> Result<u32, String> {
        let (taken, proc) = Self::taken_over(state).ok_or_else(|| {
            format!("the state saved by version {saved_by} has an unknown format")
        })?;
        *self = taken;
        Ok(proc)
    }
}

impl Call {
    /// Returns whether it opens a session.
    fn opens(&self) -> bool {
        matches!(self, Self::New(_) | Self::Load { .. } | Self::Fork)
    }
}

impl Droid {
    /// Handles an answer without a request, or a second answer: Droid accepts some requests, fails
    /// later, and then reports the error with the same id.
    fn stray(&mut self, stray: &Json, raw: &str, context: &mut LinkContext) {
        let Some(message) = stray["error"].text("message") else {
            return self.unrecognised("answer without a request", Some("id"), raw, context);
        };
        match &self.turn {
            Some(turn) if !turn.reacted => self.finish(
                turn.key,
                Outcome::Failed(failure(FailureKind::Protocol, message)),
                context,
            ),
            _ => {
                let text = format!("Droid refused a message: {}", one_line(message, 300));
                context
                    .emit(TurnRef { session: self.session, turn: 0 })
                    .diagnostic(Level::Warn, text);
            }
        }
    }

    /// Reports unknown output during a turn. Output between turns is ignored, because it does not
    /// belong to any turn.
    fn unrecognised(
        &self,
        what: impl Into<String>,
        path: Option<&str>,
        raw: &str,
        context: &mut LinkContext,
    ) {
        if context.turn_of(self.session).is_some() {
            context.unrecognised(what, path, raw);
        }
    }
}

fn name(start: &StartTurn) -> TurnRef {
    TurnRef { session: start.session, turn: start.turn }
}
