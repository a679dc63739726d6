//! Shutting the dispatcher down.
//!
//! Running turns get some time to end. The next start continues with the rest.

use std::time::Duration;

use super::Dispatcher;
use super::lanes::paused::refuse_unjournaled;
use aetheel_model::event::Lane;
use aetheel_turn::StopReason;

/// How often a shutdown checks whether the answers are delivered.
const DELIVERY_POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Dispatcher {
    /// Leaves all waiting events to the next start, which finds them in the journal, and frees a
    /// slot for the hook `shutdown` even if turns occupy all slots.
    pub fn leave_waiting(&self) {
        let waiting = {
            let mut queue = self.shared.lanes.queue.lock();
            let waiting = queue.drain_waiting().len();
            queue.free_slot();
            waiting
        };
        tracing::info!(waiting, "shutdown: prompts that wait are left to the next start");
    }

    /// Stops the turn of a lane because the gateway ends. Returns once the lane is idle.
    pub async fn stop_for_shutdown(&self, lane: &Lane) {
        if let Some(turn) = self.shared.lanes.running.lock().get(lane) {
            // If the turn has just ended, there is nothing to stop.
            let _ = turn.stop.send(Some(StopReason::Shutdown));
        }
        self.turns.lane_idle(lane).await;
    }

    /// Leaves running turns to the next start, while the holder keeps their agents running. Accepts
    /// no new events, waits up to `grace` for deliveries in progress and for reports of unknown
    /// output, and returns once the journal is on disk. The caller then ends the process without
    /// dropping a turn.
    pub async fn leave_running(&self, grace: Duration) {
        let (running, waiting) = {
            let mut queue = self.shared.lanes.queue.lock();
            queue.close();
            // The journal has the events.
            (queue.lanes().running(), queue.drain_waiting().len())
        };
        tracing::info!(running, waiting, "shutdown: turns are handed over to the next start");
        let delivered = async {
            while self.shared.delivery.pending() > 0 {
                tokio::time::sleep(DELIVERY_POLL_INTERVAL).await;
            }
        };
        let drift = tokio::time::timeout(grace, self.shared.drift.publish());
        let (delivered, drift) = tokio::join!(tokio::time::timeout(grace, delivered), drift);
        if delivered.is_err() {
            tracing::warn!("shutdown: undelivered answers are delivered after the next start");
        }
        if drift.is_err() {
            tracing::warn!("shutdown: the latest unknown output could not be saved or reported");
        }
        self.flush_journal().await;
    }

    /// Shuts the dispatcher down. Accepts no new events, lets accepted ones run for up to `grace`,
    /// stops the turns that still run then, and returns once they have ended. Events that still
    /// wait, and at once those of paused lanes, are left to the next start, or refused if there is no
    /// journal.
    pub async fn shutdown(&self, grace: Duration) {
        let (running, waiting, paused) = {
            let mut queue = self.shared.lanes.queue.lock();
            queue.close();
            let paused = queue.drain_paused();
            (queue.lanes().running(), queue.lanes().waiting().len(), paused)
        };
        let grace_s = grace.as_secs();
        tracing::info!(
            running,
            waiting,
            paused = paused.len(),
            grace_s,
            "shutdown: waiting for turns"
        );
        for event in &paused {
            refuse_unjournaled(&self.shared, event).await;
        }
        if tokio::time::timeout(grace, self.turns.idle()).await.is_err() {
            let waiting = self.shared.lanes.queue.lock().drain_waiting();
            let stops: Vec<_> =
                self.shared.lanes.running.lock().values().map(|turn| turn.stop.clone()).collect();
            let kept = self.shared.deps.journal.is_some();
            let (running, left) = (stops.len(), waiting.len());
            if running + left == 0 {
                tracing::debug!("shutdown: grace is over; the last turn is ending");
            } else if kept {
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
            for event in &waiting {
                refuse_unjournaled(&self.shared, event).await;
            }
        }
        self.shared.tasks.close();
        // By now the refusals above have had time to be sent.
        self.turns.idle().await;
        let left = self.shared.delivery.pending();
        if left > 0 {
            tracing::warn!(
                left,
                "shutdown: not every answer could be delivered; saved answers are delivered after the next start"
            );
        }
        self.shared.delivery.leave_to_next_start();
        self.shared.tasks.wait().await;
        tracing::info!(
            links = self.shared.links.count(),
            "shutdown: no turn is left, closing long-lived agents"
        );
        self.shared.links.close().await;
        self.flush_journal().await;
    }

    async fn flush_journal(&self) {
        if let Some(journal) = &self.shared.deps.journal
            && !journal.flush().await
        {
            tracing::error!(
                "shutdown: the queue could not be written; some events may be answered again after the next start"
            );
        }
    }
}
