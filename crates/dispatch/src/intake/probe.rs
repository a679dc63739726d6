//! Probes of the health checks.

use super::Intake;
use crate::health::{HealthProbe, PROBE_LANE};
use aetheel_model::event::{EventKind, EventOrigin, Lane, NewEvent};

impl Intake {
    /// Sends a probe through the queue, the journal and the outlet. It runs no agent and is not
    /// saved. If turns occupy all slots, the probe skips the queue, because waiting for a slot is
    /// then normal.
    pub fn probe(&self, probe: HealthProbe) {
        let mut queue = self.shared.lanes.queue.lock();
        if queue.is_closed() || !queue.has_free_slot() {
            drop(queue);
            let shared = self.shared.clone();
            self.shared.tasks.spawn(async move { shared.health.complete(probe).await });
            return;
        }
        let event = NewEvent::new(
            EventKind::Hook,
            Lane::Hook(PROBE_LANE.to_owned()),
            EventOrigin::Internal { channel: None },
            "",
        );
        let event = queue.accept_unsaved(event, self.shared.deps.clock.now_ms());
        self.shared.health.begin_probe(event.sequence, probe);
        drop(queue);
        self.shared.start_waiting();
    }
}
