//! Turns that a usage limit ended.
//!
//! If people saw nothing of the turn, its event waits in the paused lane and runs again. Otherwise
//! the partial answer is delivered, and a new event continues the conversation once the limit has
//! ended. The key of that event contains the turn's id, so it is accepted once.

use jiff::Timestamp;

use super::TurnRunner;
use crate::limits::{CONTINUATION, messages};
use crate::outlet::TurnAnswer;
use crate::outlet::limited::LimitedTurn;
use crate::persistence::{EventProgress, NextStart, wait_until_saved};
use aetheel_model::event::{Event, EventKind, EventOrigin, NewEvent};

impl TurnRunner {
    /// Lets the lane of a turn wait for the end of the usage limit that ended the turn. Returns
    /// whether the event itself waits, so that there is no answer yet.
    pub(super) async fn wait_for_renewal(
        &self,
        event: &Event,
        turn: &str,
        answer: &mut TurnAnswer,
        kept: &EventProgress,
    ) -> bool {
        // A check or a job runs again at its next time anyway.
        let Some(limited) = answer.limit.take().filter(|_| event.kind == EventKind::Message) else {
            return false;
        };
        let (limits, now) = (&self.shared.limits, Timestamp::now());
        let LimitedTurn { limit, backend, model, is_visible, is_resumable } = limited;
        let Some(note) = limits.hold((&event.lane, turn), &backend, model, limit, now).await else {
            return false;
        };
        if !is_visible && kept.leave_to_next_start() != Some(NextStart::AskPeople) {
            return true;
        }
        if is_resumable && self.continue_later(event, turn).await {
            answer.failure = Some(messages::continues(&answer.backend, &note, now));
        }
        false
    }

    /// Accepts the event that continues the conversation. Returns whether it is saved.
    async fn continue_later(&self, event: &Event, turn: &str) -> bool {
        let origin = match &event.origin {
            // The use of a command expires long before most limits end.
            EventOrigin::Interaction { channel, .. } => {
                EventOrigin::Internal { channel: Some(*channel) }
            }
            origin => origin.clone(),
        };
        let prompt = messages::CONTINUE_PROMPT;
        let next = NewEvent {
            author: event.author.clone(),
            asker: event.asker,
            parent: event.parent,
            key: Some(format!("{CONTINUATION}{turn}")),
            ..NewEvent::new(EventKind::Message, event.lane.clone(), origin, prompt)
        };
        if self.shared.durability.is_known(&next) {
            return true;
        }
        let saving = {
            let mut queue = self.shared.lanes.queue.lock();
            if queue.is_closed() {
                return false;
            }
            let next = queue.accept_beyond_limits(next, Timestamp::now().as_millisecond());
            tracing::info!(
                event = next.sequence,
                "the conversation continues when the usage limit has ended"
            );
            self.shared.durability.save_accepted(&next).map(|saving| (next, saving))
        };
        if let Some((next, saving)) = saving.clone() {
            self.shared.watch_saving(next, saving);
        }
        wait_until_saved(saving.map(|(_, saving)| saving)).await
    }
}
