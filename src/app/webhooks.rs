//! The listener for webhooks. It is bound early in the start and accepts calls while the program is
//! ready.

use crate::startup::{PreparedStart, StartRefusal};
use aetheel_dispatch::Intake;
use aetheel_store::workspace::{Deliveries, WebhookFile};
use aetheel_web::webhooks::{Definitions, WebhookDeps, WebhookListener, WebhookServer};

/// The bound address for webhooks, if the operator configured one. Calls are not answered yet.
pub(super) struct BoundWebhooks(Option<(WebhookListener, Definitions, Deliveries)>);

/// The listener for webhooks, if the operator configured one.
pub(super) struct WebhookService(Option<WebhookServer>);

impl BoundWebhooks {
    /// Binds the address.
    ///
    /// # Errors
    /// Returns [`StartRefusal`] if the address cannot be bound, or if the earlier deliveries or
    /// `webhooks.md` cannot be read.
    pub(super) async fn bind(prepared: &PreparedStart) -> Result<Self, StartRefusal> {
        let Some(address) = prepared.config.webhooks_address else { return Ok(Self(None)) };
        let bound = WebhookListener::take(address)
            .await
            .map_err(|error| StartRefusal::of_address("WEBHOOKS_ADDRESS", address, &error))?;
        let deliveries = Deliveries::open(prepared.workspace.folder()).await;
        let deliveries = deliveries.map_err(|error| StartRefusal::of_file(&error))?;
        let file = WebhookFile::new(prepared.workspace.folder());
        file.require().await.map_err(|error| StartRefusal::of_file(&error))?;
        let definitions = Definitions::new(file, prepared.webhook_secrets.clone());
        Ok(Self(Some((bound, definitions, deliveries))))
    }

    /// Starts to answer calls. Until [`WebhookService::open`], the answer is that it is too early.
    pub(super) fn serve(self, intake: &Intake) -> WebhookService {
        let serving = |(bound, definitions, deliveries): (WebhookListener, _, _)| {
            bound.serve(WebhookDeps { definitions, intake: intake.clone(), deliveries })
        };
        WebhookService(self.0.map(serving))
    }
}

impl WebhookService {
    /// Accepts calls from now on.
    pub(super) async fn open(&self) {
        if let Some(serving) = &self.0 {
            serving.open().await;
        }
    }

    /// Refuses calls from now on; the answer asks callers to try again later.
    pub(super) fn stop_intake(&self) {
        if let Some(serving) = &self.0 {
            serving.stop_intake();
        }
    }

    /// Stops listening.
    pub(super) async fn close(self) {
        if let Some(serving) = self.0 {
            serving.close().await;
        }
    }
}
