//! Refusals that adapters decide on.
//!
//! A refusal is saved before anybody sees it, so that a crash neither runs the refused event nor
//! refuses it twice. It is saved as an event with an answer: if the gateway ends before the refusal
//! is sent, the next start delivers it.

use crate::Dispatcher;
use crate::durability::stem;
use crate::in_hand::Hold;
use crate::outlet::messages::Refusal;
use crate::outlet::{Answer, PriorDelivery};
use aetheel_model::event::{Event, NewEvent};

/// A saved refusal that must now be sent.
#[derive(Debug)]
pub struct Declined {
    /// See [`PriorDelivery::stem`]. The message of the refusal is the first of its reply.
    pub stem: String,
    /// The event, which counts as being delivered until this is dropped.
    event: Option<(Event, Hold)>,
}

impl Declined {
    /// Creates a refusal that is not saved.
    #[must_use]
    pub fn unkept() -> Self {
        Self { stem: PriorDelivery::unkept().stem, event: None }
    }
}

impl Dispatcher {
    /// Saves that an event is refused. Must be called before anybody sees the refusal. Returns
    /// `None` if the event was accepted or refused before.
    ///
    /// # Errors
    /// [`Refusal::NotSaved`] if the refusal could not be saved. It must not be sent then.
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

    /// Records that a refusal was sent.
    pub fn declined(&self, declined: Declined) {
        if let Some((event, _in_hand)) = declined.event {
            self.inner.durability.check_off(&event);
        }
    }
}
