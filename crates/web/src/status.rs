//! `/livez`, `/readyz` and `/metrics`, for whoever watches over the program.
//!
//! Owns the listener, the recorder behind [`aetheel_model::figures`] and how both look to the outside.
//! Whether the program is alive and ready is decided behind [`Health`]. Tells figures and reasons,
//! never names of people, prompts or secrets. Pinned by `tests/gateway/status.rs`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::connection::{Caller, Door};
use aetheel_model::figures::{self, FIGURES, Kind};
use aetheel_model::vigil;

/// Connections at the same time.
const CONNECTIONS: usize = 64;
/// How often measurements are put into their buckets; until then they are kept one by one.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
/// Longest wait for the program's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The questions the pages put to the program.
#[async_trait]
pub trait Health: Send + Sync {
    /// Why the program should be started again, one short line each; empty: it is well. Never
    /// returns where it is stuck.
    async fn alive(&self) -> Vec<String>;

    /// Why the program is not ready to answer people, one short line each; empty: it is.
    async fn unready(&self) -> Vec<String>;

    /// Tells the figures that are counted when somebody looks.
    async fn measure(&self);
}

/// Why there are no status pages.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The address is taken, or not ours.
    #[error("cannot listen at {address}")]
    Listen {
        /// The address of `STATUS_ADDRESS`.
        address: SocketAddr,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// There is a recorder already, or a figure has no buckets.
    #[error("cannot record figures")]
    Record(#[from] BuildError),
}

/// The pages. Dropping it closes them.
#[derive(Debug)]
pub struct StatusPages {
    /// Where they are: with the port that was taken where 0 was asked for.
    pub address: SocketAddr,
    serving: JoinHandle<()>,
    upkeep: JoinHandle<()>,
}

#[derive(Clone)]
struct Shared {
    health: Arc<dyn Health>,
    figures: PrometheusHandle,
}

impl StatusPages {
    /// Begins to record and to serve. Call it before anything that is to be counted; once a
    /// program.
    ///
    /// # Errors
    /// [`StatusError`]; nothing is served.
    pub async fn open(address: SocketAddr, health: Arc<dyn Health>) -> Result<Self, StatusError> {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| StatusError::Listen { address, source })?;
        let address =
            listener.local_addr().map_err(|source| StatusError::Listen { address, source })?;
        let figures = recorder()?;
        let kept = figures.clone();
        let upkeep = vigil::task("figures", async move {
            loop {
                tokio::time::sleep(UPKEEP_INTERVAL).await;
                kept.run_upkeep();
            }
        });
        let router = router(Shared { health, figures });
        let serving = vigil::task("status pages", async move {
            let service = router.into_make_service_with_connect_info::<Caller>();
            if let Err(error) = axum::serve(Door::new(listener, CONNECTIONS), service).await {
                tracing::error!(%error, "the status pages are gone");
            }
        });
        Ok(Self { address, serving, upkeep })
    }
}

impl Drop for StatusPages {
    fn drop(&mut self) {
        self.serving.abort();
        self.upkeep.abort();
    }
}

/// Makes the recorder that everything is counted with.
fn recorder() -> Result<PrometheusHandle, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for figure in FIGURES {
        if let Kind::Histogram(buckets) = figure.kind {
            builder =
                builder.set_buckets_for_metric(Matcher::Full(figure.name.to_owned()), buckets)?;
        }
    }
    let handle = builder.install_recorder()?;
    figures::describe();
    Ok(handle)
}

fn router(shared: Shared) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(render))
        .layer(from_fn(heard))
        .with_state(shared)
}

/// The headers have come. Each connection carries one request, so that whoever says nothing is soon
/// gone.
async fn heard(ConnectInfo(caller): ConnectInfo<Caller>, request: Request, next: Next) -> Response {
    caller.head_is_read();
    let mut response = next.run(request).await;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// 200 while the runtime answers, the dispatcher's locks are free, nothing that must live is gone
/// and heartbeats come through.
async fn livez(State(shared): State<Shared>) -> Response {
    let stuck = vec!["the dispatcher does not answer".to_owned()];
    let reasons =
        tokio::time::timeout(ANSWER_TIMEOUT, shared.health.alive()).await.unwrap_or(stuck);
    match reasons.is_empty() {
        true => page(StatusCode::OK, &json!({"alive": true})),
        false => {
            page(StatusCode::SERVICE_UNAVAILABLE, &json!({"alive": false, "reasons": reasons}))
        }
    }
}

/// 200 while prompts are answered; else 503 with the reasons.
async fn readyz(State(shared): State<Shared>) -> Response {
    let late = vec!["looking at it takes too long".to_owned()];
    let reasons =
        tokio::time::timeout(ANSWER_TIMEOUT, shared.health.unready()).await.unwrap_or(late);
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    page(status, &json!({"ready": reasons.is_empty(), "reasons": reasons}))
}

/// The figures in Prometheus' text format, version 0.0.4.
async fn render(State(shared): State<Shared>) -> Response {
    // What cannot be counted in time stays as it was.
    let _ = tokio::time::timeout(ANSWER_TIMEOUT, shared.health.measure()).await;
    shared.figures.run_upkeep();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], shared.figures.render())
        .into_response()
}

fn page(status: StatusCode, body: &Value) -> Response {
    (
        status,
        [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")],
        format!("{body}\n"),
    )
        .into_response()
}
