//! `POST /webhooks/{name}`: other systems ask for turns.
//!
//! Owns the listener, what a call may cost, who is believed, and what callers are told;
//! [`Definitions`] says who may call, the dispatcher takes the events. Nothing of a call is looked
//! at before its signature, and a caller that is not believed learns nothing, not even which names
//! there are. A call is answered with 202 once its event and its id outlive the program. Pinned by
//! the tests of `signature.rs` and by `tests/webhooks` and `tests/gateway/webhooks.rs`.

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
use tokio::task::JoinHandle;

pub use definitions::{Definitions, Secrets, faults};

use super::connection::{Caller, Door};
use super::crowd::Crowd;
use aetheel_dispatch::Dispatcher;
use aetheel_model::vigil;
use aetheel_store::workspace::Deliveries;
use receive::{Shared, Stage};
use refusals::Refusals;
use signature::Key;

/// Connections at the same time.
const CONNECTIONS: usize = 256;
/// Calls looked at at the same time; each may hold as much as a body is large.
const PLACES: usize = 64;
/// For calls that are being answered when all is over.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// The parts that calls are answered with.
pub struct Desk {
    /// The webhooks there are, with their secrets.
    pub definitions: Definitions,
    /// The dispatcher that takes the events of calls.
    pub dispatcher: Dispatcher,
    /// The deliveries taken before, so that none is taken twice.
    pub deliveries: Deliveries,
}

/// An address that is ours, where nobody answers yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    /// With the port that was taken where 0 was asked for.
    pub address: SocketAddr,
}

impl Bound {
    /// Takes an address.
    ///
    /// # Errors
    /// What the system said.
    pub async fn take(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Begins to answer: 503 until [`Serving::open`].
    #[must_use]
    pub fn serve(self, desk: Desk) -> Serving {
        let shared = Arc::new(Shared {
            desk,
            stage: watch::Sender::new(Stage::Starting),
            spare: Key::unknown(),
            bodies: Crowd::new(PLACES),
            refusals: Refusals::default(),
        });
        let router = Router::new().fallback(receive::receive).with_state(Arc::clone(&shared));
        let service = router.into_make_service_with_connect_info::<Caller>();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = axum::serve(Door::new(self.listener, CONNECTIONS), service)
            .with_graceful_shutdown(async move {
                // Gone without a word is gone as well.
                let _ = stopped.await;
            });
        let server = vigil::task("webhooks", async move {
            if let Err(error) = server.await {
                tracing::error!(%error, "webhooks are not taken any more; start again");
            }
        });
        Serving { address: self.address, shared, stop: Some(stop), server }
    }
}

/// A listener that answers. Dropping it stops listening without waiting.
pub struct Serving {
    /// The address it listens on, with the port the system chose.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
}

impl Serving {
    /// From now on calls are taken, and what is wrong with the definitions is logged.
    pub async fn open(&self) {
        self.shared.desk.definitions.current().await;
        self.shared.stage.send_replace(Stage::Open);
        tracing::info!(address = %self.address, "webhooks are taken");
    }

    /// From now on callers are told to come back later.
    pub fn stop_intake(&self) {
        self.shared.stage.send_replace(Stage::Closing);
    }

    /// Stops listening; takes at most two seconds.
    pub async fn close(mut self) {
        self.stop_intake();
        self.stop.take();
        if tokio::time::timeout(CLOSE_GRACE, &mut self.server).await.is_err() {
            tracing::debug!("webhook callers did not let go in time");
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.server.abort();
    }
}
