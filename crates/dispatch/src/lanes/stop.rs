//! Stopping the turns of a lane, cancelling its waiting events, and shutting the dispatcher down.
//!
//! During a shutdown, running turns get some time to end. The next start continues with the rest.

use std::time::Duration;

use crate::Dispatcher;
use crate::outlet::TurnAnswer;
use crate::outlet::messages::PromptRefusal;
use crate::persistence::wait_until_saved;
use aetheel_model::event::{Event, Lane, Sequence};
use aetheel_model::figures::{self, EventOutcome};
use aetheel_turn::StopReason;

/// How often a shutdown checks whether the answers are delivered.
const DELIVERY_POLL_INTERVAL: Duration = Duration::from_millis(20);

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

impl Dispatcher {
    /// Stops the running turn of a lane and refuses each waiting event. Returns whether there were
    /// any.
    #[must_use]
    pub fn stop(&self, lane: &Lane) -> bool {
        let (running, waiting) = self.stop_and_cancel(lane);
        let any = running || !waiting.is_empty();
        for event in waiting {
            let inner = self.inner.clone();
            let over = inner.durability.mark_finished(&event);
            self.inner.tasks.spawn(async move {
                wait_until_saved(over).await;
                inner.delivery.refuse(&event, "Stopped before it began.").await;
            });
        }
        any
    }

    /// Stops like [`Dispatcher::stop`], and returns once that is on disk, so that a crash does not
    /// repeat the events. Sends no refusals: the caller must report the waiting events.
    pub async fn stop_durably(&self, lane: &Lane) -> StopResult {
        let sequence = self.inner.lanes.queue.lock().running_in(lane);
        let (running, waiting) = self.stop_and_cancel(lane);
        let stopped = StopResult { running, waiting: waiting.len() };
        for event in &waiting {
            figures::count_event(event.kind, EventOutcome::Withdrawn);
            tracing::info!(event = event.sequence, lane = %event.lane, "event stopped before its turn");
            self.inner.durability.mark_finished(event);
        }
        self.record_stopped(sequence.filter(|_| stopped.any())).await;
        let inner = self.inner.clone();
        self.inner.tasks.spawn(async move {
            for event in waiting {
                inner.deps.outlet.remove_waiting_marker(&event).await;
            }
        });
        stopped
    }

    /// Stops the running turn of a lane if it is the turn of `event`, and returns once that is on
    /// disk, so that a crash does not repeat it. Waiting events of the lane continue. Returns false
    /// if that turn does not run.
    pub async fn stop_turn(&self, lane: &Lane, event: Sequence) -> bool {
        if self.inner.lanes.queue.lock().running_in(lane) != Some(event) {
            return false;
        }
        let stopped = self.stop_running_turn(lane);
        self.record_stopped(Some(event).filter(|_| stopped)).await;
        stopped
    }

    /// Stops the running turn of a lane and cancels its waiting events.
    fn stop_and_cancel(&self, lane: &Lane) -> (bool, Vec<Event>) {
        let waiting = self.inner.lanes.cancel_waiting(lane);
        (self.stop_running_turn(lane), waiting)
    }

    /// Stops the running turn of a lane, and with it the messages that its agent accepted. Returns
    /// false if no turn runs there.
    fn stop_running_turn(&self, lane: &Lane) -> bool {
        let received = self.inner.lanes.stop_turn(lane);
        let running = received.is_some();
        for event in received.into_iter().flatten() {
            self.inner.durability.mark_finished(&event);
        }
        running
    }

    /// Saves that a running turn was stopped.
    async fn record_stopped(&self, running: Option<Sequence>) {
        let Some(journal) = &self.inner.deps.journal else { return };
        if let Some(sequence) = running
            .filter(|sequence| journal.entry(*sequence).is_some_and(|entry| entry.answer.is_none()))
        {
            // This is the turn's answer unless the agent produces more text before it ends.
            let answer = TurnAnswer::failed("", "Stopped.").to_json();
            drop(journal.answered(sequence, answer));
        }
        journal.flush().await;
    }

    /// Leaves all waiting events to the next start, which finds them in the journal, and frees a
    /// slot for the hook `shutdown` even if turns occupy all slots.
    pub fn leave_waiting(&self) {
        let waiting = {
            let mut queue = self.inner.lanes.queue.lock();
            let waiting = queue.drain_waiting().len();
            queue.free_slot();
            waiting
        };
        tracing::info!(waiting, "shutdown: prompts that wait are left to the next start");
    }

    /// Stops the turn of a lane because the gateway ends. Returns once the lane is idle.
    pub async fn stop_for_shutdown(&self, lane: &Lane) {
        if let Some(turn) = self.inner.lanes.running.lock().get(lane) {
            // If the turn has just ended, there is nothing to stop.
            let _ = turn.stop.send(Some(StopReason::Shutdown));
        }
        self.lane_idle(lane).await;
    }

    /// Leaves running turns to the next start, while the holder keeps their agents running. Accepts
    /// no new events, waits up to `grace` for deliveries in progress and for reports of unknown
    /// output, and returns once the journal is on disk. The caller then ends the process without
    /// dropping a turn.
    pub async fn leave_running(&self, grace: Duration) {
        let (running, waiting) = {
            let mut queue = self.inner.lanes.queue.lock();
            queue.close();
            // The journal has the events.
            (queue.running(), queue.drain_waiting().len())
        };
        tracing::info!(running, waiting, "shutdown: turns are handed over to the next start");
        let delivered = async {
            while self.inner.delivery.pending() > 0 {
                tokio::time::sleep(DELIVERY_POLL_INTERVAL).await;
            }
        };
        let drift = tokio::time::timeout(grace, self.inner.drift.publish());
        let (delivered, drift) = tokio::join!(tokio::time::timeout(grace, delivered), drift);
        if delivered.is_err() {
            tracing::warn!("shutdown: undelivered answers are delivered after the next start");
        }
        if drift.is_err() {
            tracing::warn!("shutdown: the latest unknown output could not be saved or reported");
        }
        if let Some(journal) = &self.inner.deps.journal
            && !journal.flush().await
        {
            tracing::error!(
                "shutdown: state/queue.md could not be written; some events may be answered again after the next start"
            );
        }
    }

    /// Shuts the dispatcher down. Accepts no new events, lets accepted ones run for up to `grace`,
    /// stops the turns that still run then, and returns once they have ended. Events that still
    /// wait are left to the next start, or refused if there is no journal.
    pub async fn shutdown(&self, grace: Duration) {
        let (running, waiting) = {
            let mut queue = self.inner.lanes.queue.lock();
            queue.close();
            (queue.running(), queue.waiting())
        };
        tracing::info!(running, waiting, grace_s = grace.as_secs(), "shutdown: waiting for turns");
        if tokio::time::timeout(grace, self.idle()).await.is_err() {
            let waiting = self.inner.lanes.queue.lock().drain_waiting();
            let stops: Vec<_> =
                self.inner.lanes.running.lock().values().map(|turn| turn.stop.clone()).collect();
            let kept = self.inner.deps.journal.is_some();
            let (running, left) = (stops.len(), waiting.len());
            if kept {
                tracing::warn!(
                    running,
                    kept = left,
                    "shutdown: grace is over, stopping turns; waiting events are answered after the next start"
                );
            } else {
                tracing::warn!(running, refused = left, "shutdown: grace is over, stopping turns");
            }
            for stop in stops {
                // If the turn has just ended, there is nothing to stop.
                let _ = stop.send(Some(StopReason::Shutdown));
            }
            for event in waiting.iter().filter(|_| !kept) {
                self.inner.delivery.refuse(event, &PromptRefusal::ShuttingDown.to_string()).await;
            }
        }
        self.inner.tasks.close();
        // By now the refusals above have had time to be sent.
        self.idle().await;
        let left = self.inner.delivery.pending();
        if left > 0 {
            tracing::warn!(
                left,
                "shutdown: not every answer could be delivered; saved answers are delivered after the next start"
            );
        }
        self.inner.delivery.leave_to_next_start();
        self.inner.tasks.wait().await;
        tracing::info!(
            links = self.inner.links.count(),
            "shutdown: no turn is left, closing long-lived agents"
        );
        self.inner.links.close().await;
        if let Some(journal) = &self.inner.deps.journal
            && !journal.flush().await
        {
            tracing::error!(
                "shutdown: state/queue.md could not be written; some events may be answered again after the next start"
            );
        }
    }
}
