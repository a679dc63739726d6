//! Refusals: each is kept before anybody sees it, so that a crash neither carries out what was
//! refused nor refuses it twice.
//!
//! A refusal that was kept and perhaps not sent is an event that was answered and perhaps not
//! delivered: the next start sends it.

use crate::Dispatcher;
use crate::durability::stem;
use crate::in_hand::Hold;
use crate::outlet::messages::Refusal;
use crate::outlet::{Answer, PriorDelivery};
use aetheel_model::event::{Event, NewEvent};

/// A refusal that is kept and has to be sent now.
#[derive(Debug)]
pub struct Declined {
    /// See [`PriorDelivery::stem`]: its message is the first of its reply.
    pub stem: String,
    /// In hand until it is sent, or left to the next life.
    event: Option<(Event, Hold)>,
}

impl Declined {
    /// Makes one of a refusal that needs no keeping.
    #[must_use]
    pub fn unkept() -> Self {
        Self { stem: PriorDelivery::unkept().stem, event: None }
    }
}

impl Dispatcher {
    /// Keeps that an event is refused, before anybody learns of it. None: it was taken or refused
    /// before.
    ///
    /// # Errors
    /// [`Refusal::NotSaved`]: the refusal may not be sent, because it is not final.
    pub async fn decline(&self, event: NewEvent, why: &str) -> Result<Option<Declined>, Refusal> {
        let Some(journal) = &self.inner.parts.journal else { return Ok(Some(Declined::unkept())) };
        let (event, in_hand, saving) = {
            let mut queue = self.inner.lanes.queue.lock();
            if self.inner.durability.knows(&event) {
                return Ok(None);
            }
            let event = queue.number(event, jiff::Timestamp::now().as_millisecond());
            let answer = Answer::failed(self.inner.parts.choices.backend.clone(), why).to_json();
            let saving = journal.accepted_answered(&self.inner.durability.to_keep(&event), answer);
            let in_hand = self.inner.delivery.in_hand.hold(&event);
            (event, in_hand, saving)
        };
        if !saving.done().await {
            journal.forget(event.sequence);
            return Err(Refusal::NotSaved);
        }
        Ok(Some(Declined { stem: stem(&event, 0), event: Some((event, in_hand)) }))
    }

    /// A refusal was sent.
    pub fn declined(&self, declined: Declined) {
        if let Some((event, _in_hand)) = declined.event {
            self.inner.durability.check_off(&event);
        }
    }
}
