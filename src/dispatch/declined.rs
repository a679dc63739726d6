//! Refusals: each is kept before it is told, so that a crash neither carries out what was refused
//! nor refuses it twice.
//!
//! One that was kept and perhaps not told is an event that was answered and perhaps not delivered:
//! the next start tells it.

use super::event::plain_answer;
use super::keeping::stem;
use super::reply::{Answer, Traces};
use super::{Dispatcher, Refusal};
use crate::event::{Event, NewEvent};

/// A refusal that is kept and has to be told now.
#[derive(Debug)]
pub struct Declined {
    /// See [`Traces::stem`]: its message is the first of its reply.
    pub stem: String,
    event: Option<Event>,
}

impl Declined {
    /// Makes one of a refusal that needs no keeping.
    #[must_use]
    pub fn unkept() -> Self {
        Self { stem: Traces::unkept().stem, event: None }
    }
}

impl Dispatcher {
    /// Keeps that an event is refused, before anybody is told. None: it was taken or refused
    /// before.
    ///
    /// # Errors
    /// [`Refusal::NotSaved`]: nobody may be told that it is final.
    pub async fn decline(&self, event: NewEvent, why: &str) -> Result<Option<Declined>, Refusal> {
        let Some(journal) = &self.inner.parts.journal else { return Ok(Some(Declined::unkept())) };
        let (event, saving) = {
            let mut queue = self.inner.queue.lock();
            if self.inner.knows(&event) {
                return Ok(None);
            }
            let event = queue.number(event, jiff::Timestamp::now().as_millisecond());
            let answer = Answer {
                failure: Some(why.to_owned()),
                ..plain_answer(self.inner.parts.choices.backend.clone())
            };
            let answer = serde_json::to_string(&answer).expect("an answer is plain data");
            let saving = journal.accepted_answered(&self.inner.to_keep(&event), answer);
            (event, saving)
        };
        if !saving.done().await {
            journal.forget(event.sequence);
            return Err(Refusal::NotSaved);
        }
        Ok(Some(Declined { stem: stem(&event, 0), event: Some(event) }))
    }

    /// A refusal was told.
    pub fn declined(&self, declined: Declined) {
        if let Some(event) = declined.event {
            self.inner.check_off(&event);
        }
    }
}
