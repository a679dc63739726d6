//! A turn: what the server says of it between the prompt and the end.
//!
//! Everything that ends it comes back as [`Next`]; the rules are those seen with OpenCode 1.18.33.
//! A session says that it is idle at the end, and a second time after an error or an interrupt, so
//! what comes before it is busy is about the past.

use std::collections::{BTreeMap, BTreeSet};

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{Action, Failure, Outcome, Settings, TurnRef};
use aetheel_backend_sdk::{Emit, TurnResult};

use super::session::Model;
use crate::failure::{self, ABORTED};
use crate::parts::Parts;

/// How often a turn that goes on after it was interrupted is interrupted again.
const ABORTS: u32 = 3;

/// A turn the server has the prompt of.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) name: TurnRef,
    pub(crate) settings: Settings,
    /// The session is busy with it.
    pub(crate) begun: bool,
    pub(crate) interrupt: Option<Interrupt>,
    /// The model it was prompted with.
    pub(crate) model: Option<Model>,
    pub(crate) parts: Parts,
    /// Its messages, and who said them.
    messages: BTreeMap<String, Who>,
    /// Messages of the user, in order, and those that were answered.
    asked: Vec<String>,
    answered: BTreeSet<String>,
    /// Messages that were sent and have not been told yet.
    pub(crate) expected: usize,
    error: Option<Failure>,
    /// The newest message of the agent, and why it failed.
    newest: Option<(String, Option<Failure>)>,
    aborted: bool,
    /// Whoever was asked wants it to end.
    stopped: bool,
}

/// An interrupt on its way.
#[derive(Debug, Default)]
pub(crate) struct Interrupt {
    /// The server took it.
    pub(crate) answered: bool,
    /// The session was idle since.
    pub(crate) idle: bool,
    aborts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    User,
    Agent,
    /// A summary of the conversation so far, for the agent itself.
    Summary,
}

/// The next step after something the server said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Nothing,
    /// The turn is over.
    End,
    /// It is over unless something else comes soon.
    EndSoon(super::link::Wait),
    /// It goes on although it was interrupted.
    AbortAgain,
    /// An error is over.
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
            newest: None,
            aborted: false,
            stopped: false,
        }
    }

    /// A message began or changed (`message.updated`).
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
            // Copied with a session, or of the turn before.
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
        self.messages
            .insert(id.to_owned(), if info.is_true("summary") { Who::Summary } else { Who::Agent });
        // The agent asks the model again: an interrupted sub-agent does not end the one that
        // started it.
        if error.is_null() { self.goes_on() } else { Next::Nothing }
    }

    /// A part is told as it is now (`message.part.updated`).
    pub(crate) fn part(&mut self, part: &Value, out: &mut Vec<Action>) {
        let message = Emit::new(self.name, out).required_id(part, "part.messageID", part);
        match self.messages.get(message) {
            Some(Who::Agent) => self.parts.part(part, None, &mut Emit::new(self.name, out)),
            Some(Who::Summary) => self.parts.aside(part),
            Some(Who::User) | None => {}
        }
    }

    /// A part is told as it is after events were missed.
    pub(crate) fn missed(&mut self, part: &Value, out: &mut Vec<Action>) {
        match part.text("messageID").and_then(|id| self.messages.get(id)) {
            Some(Who::Agent) => self.parts.missed(part, &mut Emit::new(self.name, out)),
            _ => self.part(part, out),
        }
    }

    /// A part grew (`message.part.delta`).
    pub(crate) fn delta(&mut self, delta: &Value, out: &mut Vec<Action>) {
        let mut emit = Emit::new(self.name, out);
        if emit.required_id(delta, "properties.field", delta) == "text" {
            let part = emit.required_id(delta, "properties.partID", delta);
            let more = emit.required_text(delta, "properties.delta", delta);
            self.parts.delta(part, more, &mut emit);
        }
    }

    /// The session is busy.
    pub(crate) fn busy(&mut self) -> Next {
        if !self.begun {
            self.begun = true;
            // Of a copied session, the messages that were copied were told before.
            let last = self.asked.len().saturating_sub(1);
            self.asked.drain(..last);
            if let again @ Next::AbortAgain = self.goes_on() {
                return again;
            }
        }
        // After a conversation became too long, it is shortened and the turn goes on.
        self.error = None;
        Next::Recovered
    }

    /// The session is idle.
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

    /// The session has an error.
    pub(crate) fn error(&mut self, error: &Value) -> Next {
        if error.text("name") == Some(ABORTED) {
            self.aborted |= self.begun;
            return Next::Nothing;
        }
        self.error.get_or_insert_with(|| failure::of_error(error));
        Next::EndSoon(super::link::Wait::Error)
    }

    /// Whoever was asked wants the turn to end.
    pub(crate) fn stopped(&mut self) {
        self.stopped = true;
    }

    /// An interrupt is sent. Returns false when that was done often enough.
    pub(crate) fn abort(&mut self) -> bool {
        let interrupt = self.interrupt.get_or_insert_with(Interrupt::default);
        interrupt.aborts += 1;
        interrupt.answered = false;
        interrupt.idle = false;
        interrupt.aborts <= ABORTS
    }

    /// Whether messages can be steered into it.
    pub(crate) fn can_be_steered(&self) -> bool {
        self.interrupt.is_none() && self.error.is_none()
    }

    /// How it went, now that it is over.
    pub(crate) fn outcome(&self) -> Outcome {
        let failure =
            self.error.as_ref().or(self.newest.as_ref().and_then(|(_, failure)| failure.as_ref()));
        match failure {
            _ if self.interrupt.is_some() => Outcome::Interrupted,
            Some(failure) => Outcome::Failed(failure.clone()),
            None if self.aborted || self.stopped => Outcome::Interrupted,
            None => Outcome::Completed,
        }
    }

    /// Ends the turn and returns its result. Its messages belong to the past from now on.
    pub(crate) fn end(self, outcome: Outcome, past: &mut BTreeSet<String>) -> TurnResult {
        let text = if outcome == Outcome::Completed { self.parts.answer() } else { None };
        *past = self.messages.into_keys().collect();
        TurnResult { outcome, text, usage: self.parts.usage() }
    }

    /// The first message of the user in it, where known.
    pub(crate) fn first(&self) -> Option<&str> {
        self.asked.first().map(String::as_str)
    }

    fn goes_on(&self) -> Next {
        if self.interrupt.is_some() { Next::AbortAgain } else { Next::Nothing }
    }
}
