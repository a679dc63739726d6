//! The last stage of a turn. It saves and delivers the answer, writes the line of the turn, and frees
//! the lane and the slot, which starts the next event.

use std::sync::Arc;

use super::{EventTurn, continuation, turn_log};
use crate::Shared;
use crate::lanes::paused::{hold_for, refuse_unjournaled};
use crate::outlet::TurnAnswer;
use crate::part::{Gateway, Outcome, TurnContext};
use crate::persistence::NextStart;
use crate::recovery::offer::OfferReason;
use crate::recovery::restart::Recovery;
use aetheel_model::event::Event;

impl EventTurn {
    /// Settles the event of the turn. The lane is free when this returns.
    pub(super) async fn settle(&mut self, outcome: Outcome) {
        let turn = self.turn.clone();
        let (shared, event) = (&turn.shared, &turn.event);
        match outcome {
            Outcome::Finished => self.free_lane(),
            Outcome::Deliver(answer) => {
                if turn.progress.record_answer(&answer, &turn.stop).await {
                    self.deliver(answer, false).await;
                }
                self.free_lane();
            }
            Outcome::DeliverSaved(answer) => {
                self.deliver(answer, true).await;
                self.free_lane();
            }
            Outcome::LeaveToNextStart(answer, next) => {
                self.end(&answer, false);
                self.announce_restart(answer, next).await;
                self.free_lane();
            }
            Outcome::Rerun(answer) => {
                self.end(&answer, false);
                shared.lanes.requeue_received(event);
                shared.lanes.queue.lock().restore(event.clone());
                self.free_lane();
            }
            Outcome::Wait(answer) => {
                if let Some(answer) = answer {
                    self.end(&answer, false);
                }
                self.wait().await;
            }
            Outcome::AskPeople(answer) => {
                self.end(&answer, false);
                shared.lanes.requeue_received(event);
                let _in_flight = shared.delivery.in_flight.track(event);
                // The lane continues now, however long the delivery takes.
                self.free_lane();
                Recovery::new(shared.clone()).offer_event(event, OfferReason::Interrupted).await;
            }
            Outcome::Panicked => {
                shared.lanes.requeue_received(event);
                let _in_flight = shared.delivery.in_flight.track(event);
                self.free_lane();
                handle_panic(shared, event).await;
            }
        }
    }

    /// Ends the turn on the link to its agent, and writes its line. `by_earlier` states whether a
    /// previous process ended it.
    fn end(&self, answer: &TurnAnswer, by_earlier: bool) {
        self.turn.progress.release_turn_place();
        let gateway = Gateway { shared: &self.turn.shared };
        turn_log::note(gateway, &self.turn.event, answer, by_earlier);
    }

    /// Frees the lane and the slot. The parts leave the turn before.
    fn free_lane(&mut self) {
        self.turn.progress.release_turn_place();
        self.parts.clear();
        self.slot = None;
    }

    /// Delivers a saved answer. `by_earlier` states whether a previous process saved it.
    async fn deliver(&mut self, answer: TurnAnswer, by_earlier: bool) {
        let turn = self.turn.clone();
        let TurnContext { event, progress, shared, .. } = &*turn;
        let reply = self.reply();
        self.end(&answer, by_earlier);
        let continues = continuation::accept(shared, event, &answer).await;
        if !continues && shared.durability.journal_entry(event).is_some() {
            return;
        }
        if !by_earlier {
            shared.lanes.note_backend(&event.lane, answer.turn.as_deref());
            for received in shared.lanes.take_received(event) {
                shared.durability.mark_finished(&received);
            }
            if !self.parts.iter().any(|part| part.acts_after_delivery()) {
                // People have the answer, so there is nothing to stop.
                shared.lanes.running.lock().remove(&event.lane);
            }
        }
        let has_failed = answer.failure.is_some();
        shared.delivery.deliver(event, progress, &reply, answer).await;
        for part in &mut self.parts {
            part.delivered(has_failed).await;
        }
    }

    async fn announce_restart(&mut self, answer: TurnAnswer, next: NextStart) {
        let (turn, reply) = (self.turn.clone(), self.reply());
        turn.shared.delivery.announce_restart(&reply, answer, &turn.id, next).await;
    }

    /// Puts the event back into its lane, which waits until the reason for that has ended.
    async fn wait(&mut self) {
        let turn = self.turn.clone();
        let (shared, event) = (&turn.shared, &turn.event);
        // The turn does not count as running any more.
        self.parts.clear();
        shared.lanes.requeue_received(event);
        let hold = hold_for(shared, event).await;
        let is_held = shared.lanes.pause(event, hold);
        self.free_lane();
        if !is_held {
            refuse_unjournaled(shared, event).await;
        }
    }
}

/// Handles a panic of the gateway during a turn. If the event is in the journal, asks people
/// whether to repeat it. Otherwise asks the author to send the prompt again.
async fn handle_panic(shared: &Arc<Shared>, event: &Event) {
    tracing::error!(event = event.sequence, lane = %event.lane, "a turn panicked; this is a bug of aetheel");
    if shared.durability.journal_entry(event).is_some() {
        return Recovery::new(Arc::clone(shared)).offer_event(event, OfferReason::Panicked).await;
    }
    shared.durability.mark_finished(event);
    let why = "Something inside me broke while I worked on this. Please ask again. (internal)";
    shared.delivery.refuse(event, why).await;
}
