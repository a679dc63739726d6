//! Where a health probe enters this crate.

use tokio::sync::mpsc;

use super::InboundEvent;
use crate::connection::receipt::Receipt;
use aetheel_dispatch::HealthProbe;

/// Sends health probes the same way as messages. Cheap to clone.
#[derive(Clone)]
pub struct ProbeSender(mpsc::UnboundedSender<(InboundEvent, Receipt)>);

impl ProbeSender {
    pub(crate) fn new(arrivals: mpsc::UnboundedSender<(InboundEvent, Receipt)>) -> Self {
        Self(arrivals)
    }

    /// Sends a health probe. It passes the queues of this crate and the dispatcher, and comes back
    /// to this crate like an answer.
    pub fn send(&self, pulse: HealthProbe) {
        // If the receiver is gone, the probe is dropped, and its sender notices that.
        let _ = self.0.send((InboundEvent::Probe(pulse), Receipt::none()));
    }
}
