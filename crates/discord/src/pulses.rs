//! Where signs of life go in, and what stands for sending an answer.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::Inner;
use super::receipt::Receipt;
use super::reception::Arrival;
use aetheel_dispatch::HealthProbe;

/// Where pulses go in: the very way that messages come. Cheap to clone.
#[derive(Clone)]
pub struct Pulses(mpsc::UnboundedSender<(Arrival, Receipt)>);

impl Pulses {
    pub(super) fn through(arrivals: mpsc::UnboundedSender<(Arrival, Receipt)>) -> Self {
        Self(arrivals)
    }

    /// Sends one on its way: through reception, intake, queue and journal to where answers go out.
    pub fn send(&self, pulse: HealthProbe) {
        // Without reception it gets nowhere, which is what its sender sees.
        let _ = self.0.send((Arrival::Probe(pulse), Receipt::none()));
    }
}

/// Returns once an answer could be sent: on a task of its own, as every answer, with what all
/// requests share.
pub(super) async fn arrived(inner: &Arc<Inner>) {
    let inner = Arc::clone(inner);
    let _ = tokio::spawn(async move { inner.api.rest.invalid_requests() }).await;
}
