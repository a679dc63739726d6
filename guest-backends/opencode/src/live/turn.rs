//! The state of a turn between its prompt and its end.
//!
//! The events return the next step as [`Next`]. The rules are those of OpenCode 1.18.33: a session
//! reports that it is idle at the end, and a second time after an error or an interrupt. Therefore,
//! an idle event before the session is busy belongs to the past.

use std::collections::{BTreeMap, BTreeSet};

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{Action, Failure, FailureKind, Outcome, Settings, TurnRef};
use aetheel_backend_sdk::{Emit, TurnResult};

use super::session::Model;
use crate::failure::{self, ABORTED};
use crate::parts::Parts;

/// How often the interrupt is repeated if the turn continues.
const ABORTS: u32 = 3;
/// The longest pause of OpenCode before it tries a refused request again, in milliseconds. After a
/// usage limit it waits for as long as the provider says, silently, so the turn ends instead.
const MAX_PAUSE_MS: f64 = 60_000.0;

/// A turn whose prompt was sent.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) name: TurnRef,
    pub(crate) settings: Settings,
    /// Whether the session is busy with it.
    pub(crate) begun: bool,
    pub(crate) interrupt: Option<Interrupt>,
    /// The model of its prompt.
    pub(crate) model: Option<Model>,
    pub(crate) parts: Parts,
    /// The authors of its messages.
    messages: BTreeMap<String, Who>,
    /// The user's messages in order, and the answered ones.
    asked: Vec<String>,
    answered: BTreeSet<String>,
    /// The number of sent messages that the server has not reported yet.
    pub(crate) expected: usize,
    error: Option<Failure>,
    /// The usage limit because of which the turn is interrupted.
    limit: Option<Failure>,
    /// When the latest request began, or the time of the announced next one, in milliseconds since
    /// 1970.
    tried_ms: f64,
    /// The latest message of the agent, and its failure.
    newest: Option<(String, Option<Failure>)>,
    aborted: bool,
    /// Whether the user asked to stop it with an answer.
    stopped: bool,
}

/// An interrupt in progress.
#[derive(Debug, Default)]
pub(crate) struct Interrupt {
    /// Whether the server accepted it.
    pub(crate) answered: bool,
    /// Whether the session was idle since then.
    pub(crate) idle: bool,
    aborts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    User,
    Agent,
    /// A summary of the conversation, which is only for the agent.
    Summary,
}

/// The next step after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Nothing,
    /// End the turn.
    End,
    /// End the turn if the timer expires.
    EndSoon(super::link::Wait),
    /// Interrupt the turn again, because it continues.
    AbortAgain,
    /// Cancel the timers that would end the turn.
    Recovered,
}

impl Turn {
    pub(crate) fn new(name: TurnRef, settings: Settings, model: Option<Model>) -> Self {
        Self {
            name,
            settings,
            begun: false,
            interrupt: None,
            model,
            parts: Parts::default(),
            messages: BTreeMap::new(),
            asked: Vec::new(),
            answered: BTreeSet::new(),
            expected: 1,
            error: None,
            limit: None,
            tried_ms: f64::INFINITY,
            newest: None,
            aborted: false,
            stopped: false,
        }
    }

    /// Handles a new or changed message (`message.updated`).
    pub(crate) fn message(&mut self, info: &Value, past: &mut BTreeSet<String>) -> Next {
        let Some(id) = info.text("id") else { return Next::Nothing };
        if past.contains(id) {
            return Next::Nothing;
        }
        let known = self.messages.contains_key(id);
        if info.text("role") == Some("user") {
            if !known {
                self.messages.insert(id.to_owned(), Who::User);
                self.asked.push(id.to_owned());
                self.expected = self.expected.saturating_sub(1);
            }
            return Next::Nothing;
        }
        if !self.begun {
            // The message belongs to a copied session or to the previous turn.
            past.insert(id.to_owned());
            return Next::Nothing;
        }
        self.answered.extend(info.text("parentID").map(str::to_owned));
        let error = &info["error"];
        if !known || self.newest.as_ref().is_some_and(|(newest, _)| newest == id) {
            let failure = (!error.is_null()).then(|| failure::of_error(error));
            self.aborted = error.text("name") == Some(ABORTED);
            self.newest = Some((id.to_owned(), failure.filter(|_| !self.aborted)));
        }
        if known {
            return Next::Nothing;
        }
        self.tried_ms = info["time"].number("created").unwrap_or(f64::INFINITY);
        self.messages
            .insert(id.to_owned(), if info.is_true("summary") { Who::Summary } else { Who::Agent });
        // The agent calls the model again. This happens when the interrupt ended only a sub-agent.
        if error.is_null() { self.goes_on() } else { Next::Nothing }
    }

    /// Handles the current state of a part (`message.part.updated`).
    pub(crate) fn part(&mut self, part: &Value, out: &mut Vec<Action>) {
        let message = Emit::new(self.name, out).required_id(part, "part.messageID", part);
        match self.messages.get(message) {
            Some(Who::Agent) => self.parts.part(part, None, &mut Emit::new(self.name, out)),
            Some(Who::Summary) => self.parts.aside(part),
            Some(Who::User) | None => {}
        }
    }

    /// Handles the current state of a part after events were missed.
    pub(crate) fn missed(&mut self, part: &Value, out: &mut Vec<Action>) {
        match part.text("messageID").and_then(|id| self.messages.get(id)) {
            Some(Who::Agent) => self.parts.missed(part, &mut Emit::new(self.name, out)),
            _ => self.part(part, out),
        }
    }

    /// Handles the growth of a part (`message.part.delta`).
    pub(crate) fn delta(&mut self, delta: &Value, out: &mut Vec<Action>) {
        let mut emit = Emit::new(self.name, out);
        if emit.required_id(delta, "properties.field", delta) == "text" {
            let part = emit.required_id(delta, "properties.partID", delta);
            let more = emit.required_text(delta, "properties.delta", delta);
            self.parts.delta(part, more, &mut emit);
        }
    }

    /// Handles that the session became busy.
    pub(crate) fn busy(&mut self) -> Next {
        if !self.begun {
            self.begun = true;
            // Only the last message belongs to this turn. Earlier ones were copied with the
            // session.
            let last = self.asked.len().saturating_sub(1);
            self.asked.drain(..last);
            if let again @ Next::AbortAgain = self.goes_on() {
                return again;
            }
        }
        // After a context overflow, the conversation is compacted and the turn continues.
        self.error = None;
        Next::Recovered
    }

    /// Handles that the session became idle.
    pub(crate) fn idle(&mut self) -> Next {
        if !self.begun {
            return Next::Nothing;
        }
        if let Some(interrupt) = &mut self.interrupt {
            interrupt.idle = true;
            return if interrupt.answered { Next::End } else { Next::Nothing };
        }
        let unanswered = self.expected > 0
            || self.asked.last().is_some_and(|last| !self.answered.contains(last));
        if self.error.is_some()
            || self.aborted
            || self.newest.as_ref().is_some_and(|(_, failure)| failure.is_some())
            || !unanswered
        {
            Next::End
        } else {
            Next::EndSoon(super::link::Wait::Unanswered)
        }
    }

    /// Handles an error of the session.
    pub(crate) fn error(&mut self, error: &Value) -> Next {
        if error.text("name") == Some(ABORTED) {
            self.aborted |= self.begun;
            return Next::Nothing;
        }
        self.error.get_or_insert_with(|| failure::of_error(error));
        Next::EndSoon(super::link::Wait::Error)
    }

    /// Handles that the agent tries a request again at a time (`next`, in milliseconds since 1970).
    /// Returns whether the turn has to be interrupted, because that is a long time after a usage limit.
    pub(crate) fn retry(&mut self, failure: Failure, next: Option<f64>) -> bool {
        let Some(next) = next else { return false };
        // The previous attempt began after this time, so the pause is not longer.
        let pause = next - self.tried_ms;
        self.tried_ms = next;
        let is_limit = matches!(failure.kind, FailureKind::RateLimited | FailureKind::Quota);
        if !is_limit || pause <= MAX_PAUSE_MS || self.interrupt.is_some() {
            return false;
        }
        // Longer than the contract can express is longer than anybody waits.
        let after = (pause <= f64::from(u32::MAX)).then_some(pause as u32);
        self.limit = Some(Failure { retry_after_ms: after, ..failure });
        true
    }

    /// Records that the user asked to stop the turn with an answer.
    pub(crate) fn stopped(&mut self) {
        self.stopped = true;
    }

    /// Counts an interrupt. Returns `false` if the limit is reached.
    pub(crate) fn abort(&mut self) -> bool {
        let interrupt = self.interrupt.get_or_insert_with(Interrupt::default);
        interrupt.aborts += 1;
        interrupt.answered = false;
        interrupt.idle = false;
        interrupt.aborts <= ABORTS
    }

    /// Returns whether messages can be steered into the turn.
    pub(crate) fn can_be_steered(&self) -> bool {
        self.interrupt.is_none() && self.error.is_none()
    }

    /// Returns the outcome of the turn at its end.
    pub(crate) fn outcome(&self) -> Outcome {
        if let Some(limit) = &self.limit {
            return Outcome::Failed(limit.clone());
        }
        let failure =
            self.error.as_ref().or(self.newest.as_ref().and_then(|(_, failure)| failure.as_ref()));
        match failure {
            _ if self.interrupt.is_some() => Outcome::Interrupted,
            Some(failure) => Outcome::Failed(failure.clone()),
            None if self.aborted || self.stopped => Outcome::Interrupted,
            None => Outcome::Completed,
        }
    }

    /// Ends the turn and returns its result. Its messages are saved as `past`.
    pub(crate) fn end(self, outcome: Outcome, past: &mut BTreeSet<String>) -> TurnResult {
        let text = if outcome == Outcome::Completed { self.parts.answer() } else { None };
        *past = self.messages.into_keys().collect();
        TurnResult { outcome, text, usage: self.parts.usage() }
    }

    /// Returns the first message of the user in the turn, if known.
    pub(crate) fn first(&self) -> Option<&str> {
        self.asked.first().map(String::as_str)
    }

    fn goes_on(&self) -> Next {
        if self.interrupt.is_some() { Next::AbortAgain } else { Next::Nothing }
    }
}
