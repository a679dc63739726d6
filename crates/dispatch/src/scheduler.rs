//! Starts the events that wait in the queue.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::Shared;
use super::lanes::slot::{LaneSlot, PumpGuard};
use super::run::{self, TurnControls};
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
        self.lanes.holds.on_queue_change();
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
            let controls = TurnControls { stop: stopped, steers: steered };
            self.tasks.spawn(run::run(Arc::clone(self), event, controls, saving, slot));
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
