//! The first stage of a turn: whether its event runs now.

use super::EventTurn;
use crate::lanes::paused::end_wait_of;
use crate::outlet::TurnAnswer;
use crate::part::{Gate, TurnContext};
use aetheel_model::event::Lane;
use aetheel_store::workspace::LostTurn;

/// Whether the turn of an event begins.
pub(super) enum Admission {
    /// The turn begins or continues.
    Run,
    /// A previous process saved the answer, or it was recovered.
    Deliver(Box<TurnAnswer>),
    /// The event waits in its lane.
    Wait,
    /// Nothing can be done.
    Drop,
}

impl EventTurn {
    /// Lets the turn begin if no part lets it wait.
    pub(super) async fn admit(&mut self) -> Admission {
        let turn = self.turn.clone();
        let TurnContext { event, progress, shared, .. } = &*turn;
        if let Some(answer) = progress.stored_answer() {
            // A previous process may have ended before the notice of a wait was edited.
            end_wait_of(shared, event);
            return Admission::Deliver(Box::new(answer));
        }
        if LostTurn::of_key(event.key.as_deref()).is_some() {
            // An agent never runs for such an event.
            tracing::error!(
                "the saved answer of a recovered turn cannot be read; `aetheel recover` creates it again"
            );
            shared.durability.mark_finished(event);
            return Admission::Drop;
        }
        self.parts = shared.parts.iter().filter_map(|part| part.join(&turn)).collect();
        if turn.is_resumed || turn.stopped().is_none() {
            for part in &mut self.parts {
                if part.admit().await == Gate::Wait && !turn.is_resumed {
                    return Admission::Wait;
                }
            }
        }
        end_wait_of(shared, event);
        self.reply();
        shared.lost_replies.supersede(event, progress).await;
        if !turn.is_resumed {
            progress.record_start(&turn.stop).await;
        }
        // Recorded before any work in the thread: after a restart, the dispatcher knows the channel
        // of the thread only from here.
        if let (Lane::Channel(channel), Some(parent)) = (&event.lane, event.parent) {
            shared.channels.parents.learn(*channel, parent);
        }
        for part in &mut self.parts {
            part.before().await;
        }
        Admission::Run
    }
}
