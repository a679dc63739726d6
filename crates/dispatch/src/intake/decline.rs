//! Refusals of events that an adapter, such as the one for Discord, decides on.
//!
//! A refusal is saved before anybody sees it, so that a crash neither runs the refused event nor
//! refuses it twice. It is saved as an event with an answer: if the gateway ends before the refusal
//! is sent, the next start delivers it.

use super::Intake;
use crate::in_flight::InFlightGuard;
use crate::outlet::messages::PromptRefusal;
use crate::outlet::{PriorDelivery, TurnAnswer};
use crate::persistence::delivery_stem;
use aetheel_model::event::{Event, NewEvent};

/// A saved refusal that must now be sent.
#[derive(Debug)]
pub struct SavedRefusal {
    /// See [`PriorDelivery::stem`]. The refusal is posted as the first message of the event's
    /// reply.
    pub stem: String,
    /// The event, which counts as being delivered until this is dropped.
    in_flight: Option<(Event, InFlightGuard)>,
}

impl SavedRefusal {
    /// Creates a refusal that is not saved.
    #[must_use]
    pub fn without_saving() -> Self {
        Self { stem: PriorDelivery::untracked().stem, in_flight: None }
    }
}

impl Intake {
    /// Saves that an event is refused. Must be called before anybody sees the refusal. Returns
    /// `None` if the event was accepted or refused before.
    ///
    /// # Errors
    /// [`PromptRefusal::NotSaved`] if the refusal could not be saved. It must not be sent then.
    pub async fn decline(
        &self,
        event: NewEvent,
        why: &str,
    ) -> Result<Option<SavedRefusal>, PromptRefusal> {
        let Some(journal) = &self.shared.deps.journal else {
            return Ok(Some(SavedRefusal::without_saving()));
        };
        let (event, in_hand, saving) = {
            let mut queue = self.shared.lanes.queue.lock();
            if self.shared.durability.is_known(&event) {
                return Ok(None);
            }
            let event = queue.numbers.assign(event, self.shared.deps.clock.now_ms());
            let answer =
                TurnAnswer::failed(self.shared.deps.choices.backend.clone(), why).to_json();
            let saving =
                journal.accepted_answered(&self.shared.durability.redacted(&event), answer);
            let in_hand = self.shared.delivery.in_flight.track(&event);
            (event, in_hand, saving)
        };
        if !saving.done().await {
            journal.forget(event.sequence);
            return Err(PromptRefusal::NotSaved);
        }
        Ok(Some(SavedRefusal { stem: delivery_stem(&event, 0), in_flight: Some((event, in_hand)) }))
    }

    /// Records that a refusal was sent.
    pub fn refusal_sent(&self, declined: SavedRefusal) {
        if let Some((event, _in_hand)) = declined.in_flight {
            self.shared.durability.mark_finished(&event);
        }
    }
}
