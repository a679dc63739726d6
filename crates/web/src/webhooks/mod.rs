//! `POST /webhooks/{name}`: other systems start turns.
//!
//! Owns the listener, the limits of a call, its authentication, and its response. [`Definitions`]
//! has the webhooks and their secrets, and the dispatcher takes the events. A call's signature is
//! checked before its content is parsed. A caller that cannot authenticate gets no information, not
//! even which names exist. A call is answered with 202 after its event and its id are saved. Tested
//! in the module `signature`, by `tests/webhooks`, and by `tests/gateway/webhooks.rs`.

mod answer;
mod definitions;
mod receive;
mod refusals;
pub mod signature;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

pub use definitions::{Definitions, WebhookSecrets, faults};

use super::connection::{BoundAddress, BoundedListener, HttpCaller, ServerTask};
use super::slots::CallerSlots;
use aetheel_dispatch::Intake;
use aetheel_store::workspace::Deliveries;
use receive::{IntakeStage, WebhookState};
use refusals::Refusals;
use signature::WebhookKey;

/// The largest number of simultaneous connections.
const CONNECTIONS: usize = 256;
/// The largest number of calls that are processed at the same time. Each may hold a body in memory.
const MAX_CALLS: usize = 64;
/// Time for the running calls to finish when the listener closes.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// The dependencies of the listener.
pub struct WebhookDeps {
    /// The webhooks and their secrets.
    pub definitions: Definitions,
    /// The dispatcher for the events.
    pub intake: Intake,
    /// The deliveries that were accepted before, to detect duplicates.
    pub deliveries: Deliveries,
}

/// A bound address that does not answer yet.
#[derive(Debug)]
pub struct WebhookListener {
    listener: TcpListener,
    /// The address. If port 0 was requested, this has the actual port.
    pub address: SocketAddr,
}

impl WebhookListener {
    /// Binds an address.
    ///
    /// # Errors
    /// Returns the system's error.
    pub async fn take(address: SocketAddr) -> io::Result<Self> {
        let BoundAddress { listener, address } = BoundAddress::bind(address).await?;
        Ok(Self { listener, address })
    }

    /// Starts to answer calls, with 503 until [`WebhookServer::open`].
    #[must_use]
    pub fn serve(self, desk: WebhookDeps) -> WebhookServer {
        let shared = Arc::new(WebhookState {
            deps: desk,
            stage: watch::Sender::new(IntakeStage::Starting),
            spare: WebhookKey::unknown(),
            bodies: CallerSlots::new(MAX_CALLS),
            refusals: Refusals::default(),
        });
        let router = Router::new().fallback(receive::receive).with_state(Arc::clone(&shared));
        let service = router.into_make_service_with_connect_info::<HttpCaller>();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = axum::serve(BoundedListener::new(self.listener, CONNECTIONS), service)
            .with_graceful_shutdown(async move {
                // An error means that the sender was dropped, which also stops the server.
                let _ = stopped.await;
            });
        let server = ServerTask::spawn("webhooks", server);
        WebhookServer { address: self.address, shared, stop: Some(stop), server }
    }
}

/// The running listener. Dropping it stops it without waiting.
pub struct WebhookServer {
    /// The address of the listener, with the actual port.
    pub address: SocketAddr,
    shared: Arc<WebhookState>,
    stop: Option<oneshot::Sender<()>>,
    server: ServerTask,
}

impl WebhookServer {
    /// Starts to accept calls, and logs the faults of the definitions.
    pub async fn open(&self) {
        self.shared.deps.definitions.current().await;
        self.shared.stage.send_replace(IntakeStage::Open);
        tracing::info!(address = %self.address, "webhooks are accepted");
    }

    /// Stops accepting calls, and answers them with a request to retry later.
    pub fn stop_intake(&self) {
        self.shared.stage.send_replace(IntakeStage::Closing);
    }

    /// Stops listening. Waits at most two seconds for running calls.
    pub async fn close(mut self) {
        self.stop_intake();
        self.stop.take();
        if !self.server.ended_within(CLOSE_GRACE).await {
            tracing::debug!("webhook calls did not end in time");
        }
    }
}
