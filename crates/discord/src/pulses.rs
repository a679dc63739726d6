//! The way of a health probe into and out of this crate.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::Inner;
use super::receipt::Receipt;
use super::reception::Arrival;
use aetheel_dispatch::HealthProbe;

/// Sends health probes the same way as messages. Cheap to clone.
#[derive(Clone)]
pub struct Pulses(mpsc::UnboundedSender<(Arrival, Receipt)>);

impl Pulses {
    pub(super) fn through(arrivals: mpsc::UnboundedSender<(Arrival, Receipt)>) -> Self {
        Self(arrivals)
    }

    /// Sends a health probe through reception, intake, queue and journal to the outlet.
    pub fn send(&self, pulse: HealthProbe) {
        // If reception has ended, the probe is lost, and its sender notices that.
        let _ = self.0.send((Arrival::Probe(pulse), Receipt::none()));
    }
}

/// Returns once an answer could be sent: in a task of its own, like every answer, and with the
/// state that all requests share.
pub(super) async fn arrived(inner: &Arc<Inner>) {
    let inner = Arc::clone(inner);
    let _ = tokio::spawn(async move { inner.api.rest.invalid_requests() }).await;
}
