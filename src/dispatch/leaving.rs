//! The end of a dispatcher: what runs gets its time, and what cannot end in it is left to the next
//! life.

use std::time::Duration;

use super::{Dispatcher, Refusal};
use crate::turn::StopReason;

impl Dispatcher {
    /// Ends it all: takes nothing new, lets what was accepted run for up to `grace`, stops what
    /// runs then, and returns when all of it has ended. What still waits is kept for the next
    /// start, or refused where nothing is kept.
    pub async fn shutdown(&self, grace: Duration) {
        let (running, waiting) = {
            let mut queue = self.inner.queue.lock();
            queue.close();
            (queue.running(), queue.waiting())
        };
        tracing::info!(running, waiting, grace_s = grace.as_secs(), "shutdown: waiting for turns");
        if tokio::time::timeout(grace, self.idle()).await.is_err() {
            let waiting = self.inner.queue.lock().drain_waiting();
            let stops: Vec<_> =
                self.inner.running.lock().values().map(|turn| turn.stop.clone()).collect();
            let kept = self.inner.parts.journal.is_some();
            let (running, left) = (stops.len(), waiting.len());
            if kept {
                tracing::warn!(
                    running,
                    kept = left,
                    "shutdown: grace is over, stopping turns; what waits is answered after the next start"
                );
            } else {
                tracing::warn!(running, refused = left, "shutdown: grace is over, stopping turns");
            }
            for stop in stops {
                // A turn that just ended needs no stopping.
                let _ = stop.send(Some(StopReason::Shutdown));
            }
            for event in waiting.iter().filter(|_| !kept) {
                self.inner.refuse(event, &Refusal::ShuttingDown.to_string()).await;
            }
        }
        self.inner.tasks.close();
        // Whoever is told something now has had a moment for it.
        self.idle().await;
        // Each of those that are still being told listens.
        let left = self.inner.leaving.receiver_count();
        if left > 0 {
            tracing::warn!(
                left,
                "shutdown: not every answer could be delivered; what is kept is delivered by the next start"
            );
        }
        self.inner.leaving.send_replace(true);
        self.inner.tasks.wait().await;
        tracing::info!(
            links = self.inner.links.count(),
            "shutdown: no turn is left, long-lived agents leave"
        );
        self.inner.links.close().await;
        if let Some(journal) = &self.inner.parts.journal
            && !journal.flush().await
        {
            tracing::error!(
                "shutdown: state/queue.md could not be written; some events may be answered again after the next start"
            );
        }
    }
}
