//! The way of a health probe into and out of this crate.

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

    /// Sends a health probe through reception, intake, queue and journal to the outlet.
    pub fn send(&self, pulse: HealthProbe) {
        // If reception has ended, the probe is lost, and its sender notices that.
        let _ = self.0.send((InboundEvent::Probe(pulse), Receipt::none()));
    }
}

/// Returns once an answer could be sent: in a task of its own, like every answer, and with the
/// state that all requests share.
pub(super) async fn check_outlet(inner: &Arc<BotContext>) {
    let inner = Arc::clone(inner);
    let _ = tokio::spawn(async move { inner.api.rest.invalid_requests() }).await;
}
