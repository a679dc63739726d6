//! Stopping the turns of a lane and cancelling its waiting events.

use super::Turns;
use crate::outlet::TurnAnswer;
use crate::persistence::wait_until_saved;
use aetheel_model::event::{Event, Lane, Sequence};
use aetheel_runtime::figures::{self, EventOutcome};
use aetheel_store::workspace::JournalMark;

/// The result of stopping a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopResult {
    /// Whether a turn was running.
    pub running: bool,
    /// The number of waiting events that were cancelled.
    pub waiting: usize,
}

impl StopResult {
    /// Returns whether anything was stopped.
    #[must_use]
    pub fn any(self) -> bool {
        self.running || self.waiting > 0
    }
}

impl Turns {
    /// Stops the running turn of a lane and refuses each waiting event. Returns whether there were
    /// any.
    #[must_use]
    pub fn stop(&self, lane: &Lane) -> bool {
        let (running, waiting) = self.stop_and_cancel(lane);
        let (shared, ended) = (self.shared.clone(), lane.clone());
        self.shared.tasks.spawn(async move { shared.limits.forget(&ended).await });
        let any = running || !waiting.is_empty();
        for event in waiting {
            let shared = self.shared.clone();
            let over = shared.durability.mark_finished(&event);
            self.shared.tasks.spawn(async move {
                wait_until_saved(over).await;
                shared.delivery.refuse(&event, "Stopped before it began.").await;
            });
        }
        any
    }

    /// Stops like [`Turns::stop`], and returns once that is on disk, so that a crash does not
    /// repeat the events. Sends no refusals: the caller must report the waiting events.
    pub async fn stop_durably(&self, lane: &Lane) -> StopResult {
        let sequence = self.shared.lanes.queue.lock().lanes().running_in(lane);
        let (running, waiting) = self.stop_and_cancel(lane);
        let stopped = StopResult { running, waiting: waiting.len() };
        self.shared.limits.forget(lane).await;
        for event in &waiting {
            figures::count_event(event.kind, EventOutcome::Withdrawn);
            tracing::info!(event = event.sequence, lane = %event.lane, "event stopped before its turn");
            self.shared.durability.mark_finished(event);
        }
        self.record_stopped(sequence.filter(|_| stopped.any())).await;
        let shared = self.shared.clone();
        self.shared.tasks.spawn(async move {
            for event in waiting {
                shared.deps.outlet.remove_waiting_marker(&event).await;
            }
        });
        stopped
    }

    /// Removes the waiting events of a lane, oldest first, and returns them. Running turns continue.
    #[must_use]
    pub fn take_waiting(&self, lane: &Lane) -> Vec<Event> {
        let waiting = self.shared.lanes.cancel_waiting(lane);
        self.shared.lanes.notify_finished();
        waiting
    }

    /// Stops the running turn of a lane if it is the turn of `event`, and returns once that is on
    /// disk, so that a crash does not repeat it. Waiting events of the lane continue. Returns false
    /// if that turn does not run.
    pub async fn stop_turn(&self, lane: &Lane, event: Sequence) -> bool {
        if self.shared.lanes.queue.lock().lanes().running_in(lane) != Some(event) {
            return false;
        }
        let stopped = self.stop_running_turn(lane);
        self.record_stopped(Some(event).filter(|_| stopped)).await;
        stopped
    }

    /// Stops the running turn of a lane and cancels its waiting events.
    fn stop_and_cancel(&self, lane: &Lane) -> (bool, Vec<Event>) {
        let waiting = self.shared.lanes.cancel_waiting(lane);
        (self.stop_running_turn(lane), waiting)
    }

    /// Stops the running turn of a lane, and with it the messages that its agent accepted. Returns
    /// false if no turn runs there.
    fn stop_running_turn(&self, lane: &Lane) -> bool {
        let received = self.shared.lanes.stop_turn(lane);
        let running = received.is_some();
        for event in received.into_iter().flatten() {
            self.shared.durability.mark_finished(&event);
        }
        running
    }

    /// Saves that a running turn was stopped.
    async fn record_stopped(&self, running: Option<Sequence>) {
        let Some(journal) = &self.shared.deps.journal else { return };
        if let Some(sequence) = running
            .filter(|sequence| journal.entry(*sequence).is_some_and(|entry| entry.answer.is_none()))
        {
            // This is the turn's answer unless the agent produces more text before it ends.
            let answer = TurnAnswer::failed("", "Stopped.").to_json();
            drop(journal.mark(sequence, JournalMark::Answered(answer)));
        }
        journal.flush().await;
    }
}
