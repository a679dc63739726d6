//! Probes and metrics of the dispatcher.
//!
//! A probe takes the same path as every event, so a failed probe shows that the bot no longer
//! receives or answers messages.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::Dispatcher;
use super::deps::DispatcherDeps;
use aetheel_model::event::{Event, EventKind, EventOrigin, Lane, NewEvent, Sequence};
use aetheel_model::figures;

/// The name of the lane that probes use.
const PROBE_LANE: &str = "pulse";

/// A probe in progress. If it is dropped before it completes, the probe has failed.
#[derive(Debug)]
pub struct HealthProbe(oneshot::Sender<()>);

impl HealthProbe {
    /// Returns a probe, and a receiver that resolves once the probe is complete.
    #[must_use]
    pub fn new() -> (Self, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (Self(sender), receiver)
    }

    /// Reports that the probe has passed every stage.
    pub fn complete(self) {
        // The sender of the probe may no longer wait for it.
        let _ = self.0.send(());
    }
}

/// A snapshot of the dispatcher's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// The number of events that wait for their lane or a slot.
    pub waiting: usize,
    /// How long the oldest waiting event has waited, in milliseconds. `None` if no event waits.
    pub oldest_ms: Option<i64>,
    /// The number of events whose turns run.
    pub running: usize,
    /// The number of open links, which are running backends with their agents.
    pub links: usize,
    /// The number of questions that wait for people.
    pub questions: usize,
}

/// The probes in progress, and the time when the dispatcher started.
pub(crate) struct DispatcherHealth {
    deps: Arc<DispatcherDeps>,
    started: Instant,
    /// Probes by the number of their event.
    probes: Mutex<HashMap<Sequence, HealthProbe>>,
}

impl DispatcherHealth {
    pub(crate) fn new(deps: Arc<DispatcherDeps>) -> Self {
        Self { deps, started: Instant::now(), probes: Mutex::default() }
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns whether `lane` is the lane of probes.
    pub(crate) fn is_probe_lane(&self, lane: &Lane) -> bool {
        matches!(lane, Lane::Hook(name) if name == PROBE_LANE)
    }

    /// Removes and returns the probe that belongs to an event.
    pub(crate) fn take_probe(&self, event: &Event) -> Option<HealthProbe> {
        self.probes.lock().remove(&event.sequence)
    }

    /// Passes a probe through the last stages: the journal and the outlet.
    pub(crate) async fn complete(&self, probe: HealthProbe) {
        if let Some(journal) = &self.deps.journal {
            // A failed write is reported elsewhere. A probe only checks that the journal responds.
            let _ = journal.flush().await;
        }
        self.deps.outlet.probe().await;
        probe.complete();
    }
}

impl Dispatcher {
    /// Sends a probe through the queue, the journal and the outlet. It runs no agent and is not
    /// saved. If turns occupy all slots, the probe skips the queue, because waiting for a slot is
    /// then normal.
    pub fn probe(&self, probe: HealthProbe) {
        let mut queue = self.inner.lanes.queue.lock();
        if queue.is_closed() || !queue.has_free_slot() {
            drop(queue);
            let inner = self.inner.clone();
            self.inner.tasks.spawn(async move { inner.health.complete(probe).await });
            return;
        }
        let event = NewEvent::new(
            EventKind::Hook,
            Lane::Hook(PROBE_LANE.to_owned()),
            EventOrigin::Internal { channel: None },
            "",
        );
        let event = queue.accept_unsaved(event, jiff::Timestamp::now().as_millisecond());
        self.inner.health.probes.lock().insert(event.sequence, probe);
        drop(queue);
        self.pump();
    }

    /// Returns the current counts and sets the metrics. Takes the dispatcher's locks, so a call
    /// that returns shows that none of them is held forever.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (waiting, accepted_ms, running) = {
            let queue = self.inner.lanes.queue.lock();
            (queue.waiting(), queue.oldest_ms(), queue.running())
        };
        let oldest_ms = accepted_ms.map(|accepted| {
            jiff::Timestamp::now().as_millisecond().saturating_sub(accepted).max(0)
        });
        let _ = self.inner.lanes.running.lock().len();
        let (links, questions) = (self.inner.links.count(), self.inner.questions.count());
        figures::set_queue(waiting, oldest_ms, running);
        figures::set_open(links, questions);
        Stats { waiting, oldest_ms, running, links, questions }
    }
}
