//! Starts the events that wait in the queue, and handles the ends of their tasks.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::Shared;
use super::lanes::panics::catch_panic;
use super::lanes::paused::{hold_for, refuse_unjournaled, resume_when_unpaused};
use super::lanes::slot::{LaneSlot, PumpGuard};
use super::recovery::offer::OfferReason;
use super::recovery::restart::Recovery;
use super::recovery::restart_action::TurnFollowUp;
use super::run::TurnRunner;
use aetheel_model::event::Event;
use aetheel_store::workspace::PendingSave;

impl Shared {
    /// Starts every event that can start now.
    ///
    /// A runtime that shuts down drops a spawned task at once, and with it the task's [`LaneSlot`],
    /// which calls this method again. [`PumpGuard`] keeps that from recursing once per waiting
    /// event.
    pub(crate) fn start_waiting(self: &Arc<Self>) {
        self.lanes.changes.notify();
        let Some(_alone) = PumpGuard::begin() else { return };
        loop {
            let Some(event) = self.lanes.queue.lock().next() else { return };
            let (stop, stopped) = watch::channel(None);
            let (steers, steered) = mpsc::unbounded_channel();
            self.lanes.begin_turn(&event, stop, steers, self.now());
            let slot = LaneSlot {
                shared: Arc::clone(self),
                sequence: event.sequence,
                lane: event.lane.clone(),
            };
            let saving = self.durability.saving_of(event.sequence);
            let shared = Arc::clone(self);
            self.tasks.spawn(async move {
                let seen = catch_panic(TurnRunner::new(shared.clone()).run(
                    event.clone(),
                    stopped,
                    steered,
                    saving,
                ))
                .await;
                if !matches!(seen, Ok(TurnFollowUp::Nothing)) {
                    shared.lanes.requeue_received(&event);
                }
                if let Ok(TurnFollowUp::Rerun) = seen {
                    shared.lanes.queue.lock().restore(event.clone());
                }
                let hold = match seen {
                    Ok(TurnFollowUp::Paused) => Some(hold_for(&shared, &event).await),
                    _ => None,
                };
                let hold = hold.filter(|hold| shared.lanes.pause(&event, *hold));
                let asking = !matches!(
                    seen,
                    Ok(TurnFollowUp::Nothing | TurnFollowUp::Rerun | TurnFollowUp::Paused)
                );
                let _in_hand = asking.then(|| shared.delivery.in_flight.track(&event));
                // The lane continues now, however long the delivery takes.
                drop(slot);
                match seen {
                    Ok(TurnFollowUp::Nothing | TurnFollowUp::Rerun) => {}
                    Ok(TurnFollowUp::Paused) => match hold {
                        Some(hold) => resume_when_unpaused(&shared, event.request.lane, hold),
                        None => refuse_unjournaled(&shared, &event).await,
                    },
                    Ok(TurnFollowUp::AskPeople) => {
                        Recovery::new(shared).offer_event(&event, OfferReason::Interrupted).await
                    }
                    Err(_) => handle_panicked_turn(&shared, &event).await,
                }
            });
        }
    }

    /// Waits until an event is on disk, and removes it from the queue if it cannot be saved.
    pub(crate) fn watch_saving(self: &Arc<Self>, event: Event, saving: PendingSave) {
        let shared = Arc::clone(self);
        self.tasks.spawn(async move {
            let saved = saving.done().await;
            // If the turn of the event has started, its own task refuses the event. That task needs
            // the pending write, which is therefore not forgotten.
            let taken_back = !saved && shared.lanes.queue.lock().cancel(event.sequence).is_some();
            if saved || taken_back {
                shared.durability.forget_saving(event.sequence);
            }
            if taken_back {
                shared.durability.discard_unsaved(&event);
                shared.lanes.notify_finished();
            }
        });
    }
}

/// Handles a panic of the gateway during a turn. If the event is in the journal, asks people
/// whether to repeat it. Otherwise asks the author to send the prompt again.
async fn handle_panicked_turn(shared: &Arc<Shared>, event: &Event) {
    tracing::error!(event = event.sequence, lane = %event.lane, "a turn panicked; this is a bug of aetheel");
    if shared.durability.journal_entry(event).is_some() {
        return Recovery::new(Arc::clone(shared)).offer_event(event, OfferReason::Panicked).await;
    }
    shared.durability.mark_finished(event);
    let why = "Something inside me broke while I worked on this. Please ask again. (internal)";
    shared.delivery.refuse(event, why).await;
}
