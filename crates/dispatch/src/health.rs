//! Whether the dispatcher still works: probes that take the way of all events, so that a bot that
//! no longer receives anything notices, and figures of what there is to do.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::Dispatcher;
use super::parts::Parts;
use aetheel_model::event::{Event, EventKind, Lane, NewEvent, Origin, Sequence};
use aetheel_model::figures;

/// The lane of probes.
const PULSE: &str = "pulse";

/// A probe on its way. It is lost when it is dropped before it came through.
#[derive(Debug)]
pub struct HealthProbe(oneshot::Sender<()>);

impl HealthProbe {
    /// Makes one, and the receiver that learns when it came through.
    #[must_use]
    pub fn new() -> (Self, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (Self(sender), receiver)
    }

    /// It has come through.
    pub fn complete(self) {
        // Whoever sent it may have given it up.
        let _ = self.0.send(());
    }
}

/// The work of the dispatcher at one moment, in figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Events that wait for a lane or a slot.
    pub waiting: usize,
    /// For how long the one that was accepted first has waited, milliseconds; none: nothing waits.
    pub oldest_ms: Option<i64>,
    /// Events whose turns run.
    pub running: usize,
    /// Links that are open.
    pub links: usize,
    /// Questions that wait for people.
    pub questions: usize,
}

/// The probes on their way, and how long the dispatcher has been there.
pub(crate) struct Health {
    parts: Arc<Parts>,
    began: Instant,
    /// Probes by the number of the event they wait as.
    probes: Mutex<HashMap<Sequence, HealthProbe>>,
}

impl Health {
    pub(crate) fn new(parts: Arc<Parts>) -> Self {
        Self { parts, began: Instant::now(), probes: Mutex::default() }
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether it is the lane of probes.
    pub(crate) fn is_probed(&self, lane: &Lane) -> bool {
        matches!(lane, Lane::Hook(name) if name == PULSE)
    }

    /// The probe that an event is.
    pub(crate) fn probe_of(&self, event: &Event) -> Option<HealthProbe> {
        self.probes.lock().remove(&event.sequence)
    }

    /// Takes a probe the rest of the way: through what keeps accepted events, and what answers go
    /// out by.
    pub(crate) async fn complete(&self, probe: HealthProbe) {
        if let Some(journal) = &self.parts.journal {
            // A disk that takes nothing is reported elsewhere; here only an answer counts.
            let _ = journal.flush().await;
        }
        self.parts.outlet.probe().await;
        probe.complete();
    }
}

impl Dispatcher {
    /// Sends a probe through queue, journal and outlet. It costs no agent, and nothing of it is
    /// kept. While turns hold all slots it passes the queue by: that it waits for them would say
    /// nothing.
    pub fn probe(&self, probe: HealthProbe) {
        let mut queue = self.inner.lanes.queue.lock();
        if queue.is_closed() || !queue.has_room() {
            drop(queue);
            let inner = self.inner.clone();
            self.inner.tasks.spawn(async move { inner.health.complete(probe).await });
            return;
        }
        let event = NewEvent::new(
            EventKind::Hook,
            Lane::Hook(PULSE.to_owned()),
            Origin::Internal { channel: None },
            "",
        );
        let event = queue.admit_aside(event, jiff::Timestamp::now().as_millisecond());
        self.inner.health.probes.lock().insert(event.sequence, probe);
        drop(queue);
        self.pump();
    }

    /// Counts, and sets the metrics. Waits for the dispatcher's locks: that it returns shows that
    /// none is held for good.
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
        figures::queue(waiting, oldest_ms, running);
        figures::open(links, questions);
        Stats { waiting, oldest_ms, running, links, questions }
    }
}
