//! Probes and metrics of the dispatcher.
//!
//! A probe takes the same path as every event, so a failed probe shows that the bot no longer
//! receives or answers messages.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::deps::DispatcherDeps;
use aetheel_model::event::{Event, Lane, Sequence};

/// The name of the lane that probes use.
pub(crate) const PROBE_LANE: &str = "pulse";

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

    /// Records the probe that belongs to an event.
    pub(crate) fn begin_probe(&self, event: Sequence, probe: HealthProbe) {
        self.probes.lock().insert(event, probe);
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
