//! Where a health probe enters and leaves this crate.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::BotContext;
use super::inbound::InboundEvent;
use super::receipt::Receipt;
use aetheel_dispatch::HealthProbe;

/// Sends health probes the same way as messages. Cheap to clone.
#[derive(Clone)]
pub struct ProbeSender(mpsc::UnboundedSender<(InboundEvent, Receipt)>);

impl ProbeSender {
    pub(super) fn new(arrivals: mpsc::UnboundedSender<(InboundEvent, Receipt)>) -> Self {
        Self(arrivals)
    }

    /// Sends a health probe. It passes the queues of this crate and the dispatcher, and comes back
    /// to this crate like an answer.
    pub fn send(&self, pulse: HealthProbe) {
        // If the receiver is gone, the probe is dropped, and its sender notices that.
        let _ = self.0.send((InboundEvent::Probe(pulse), Receipt::none()));
    }
}

/// Returns once an answer could be sent. Like an answer, this spawns a task and locks the state
/// that all requests share, so it does not return if either is blocked.
pub(super) async fn check_outlet(inner: &Arc<BotContext>) {
    let inner = Arc::clone(inner);
    let _ = tokio::spawn(async move { inner.api.rest.invalid_requests() }).await;
}
