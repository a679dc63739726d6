//! The status pages `/livez`, `/readyz` and `/metrics`, for monitoring.
//!
//! Owns the listener, the recorder of the metrics in [`aetheel_runtime::figures`], and the format of
//! the pages. [`HealthSource`] decides whether the program is alive and ready. The pages contain
//! figures and reasons, but never names of people, prompts or secrets. Tested by
//! `tests/gateway/status.rs`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use serde_json::{Value, json};

use super::connection::{BoundAddress, BoundedListener, HttpCaller, ServerTask, single_request};
use aetheel_runtime::figures::{self, FIGURES, FigureKind};

/// The largest number of simultaneous connections.
const CONNECTIONS: usize = 64;
/// How often recorded values are merged into their histogram buckets.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
/// Time limit for the program's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The data of the status pages.
#[async_trait]
pub trait HealthSource: Send + Sync {
    /// Returns the reasons why the program should be restarted, one short line each. An empty list
    /// means that the program is healthy. May never return if the program is stuck.
    async fn alive(&self) -> Vec<String>;

    /// Returns the reasons why the program cannot answer users, one short line each. An empty list
    /// means that the program is ready.
    async fn unready(&self) -> Vec<String>;

    /// Updates the figures that are measured on demand.
    async fn measure(&self);
}

/// The reason why the status pages cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen at {address}")]
    Listen {
        /// The address of `STATUS_ADDRESS`.
        address: SocketAddr,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A recorder is already installed, or the buckets of a histogram are invalid.
    #[error("cannot record figures")]
    Record(#[from] BuildError),
}

/// The open status pages. Dropping this closes them.
#[derive(Debug)]
pub struct StatusPages {
    /// The address of the listener. If port 0 was requested, this has the actual port.
    pub address: SocketAddr,
    _tasks: [ServerTask; 2],
}

#[derive(Clone)]
struct StatusState {
    health: Arc<dyn HealthSource>,
    figures: PrometheusHandle,
}

impl StatusPages {
    /// Starts recording figures and serving the pages. Must be called once, before anything is
    /// counted.
    ///
    /// # Errors
    /// Returns a [`StatusError`]; then nothing is served.
    pub async fn open(
        address: SocketAddr,
        health: Arc<dyn HealthSource>,
    ) -> Result<Self, StatusError> {
        let bound = BoundAddress::bind(address).await;
        let bound = bound.map_err(|source| StatusError::Listen { address, source })?;
        let figures = recorder()?;
        let recorder_handle = figures.clone();
        let upkeep = ServerTask::spawn("figures", async move {
            loop {
                tokio::time::sleep(UPKEEP_INTERVAL).await;
                recorder_handle.run_upkeep();
            }
        });
        let router = router(StatusState { health, figures });
        let service = router.into_make_service_with_connect_info::<HttpCaller>();
        let listener = BoundedListener::new(bound.listener, CONNECTIONS);
        let pages = ServerTask::spawn("status pages", axum::serve(listener, service));
        Ok(Self { address: bound.address, _tasks: [pages, upkeep] })
    }
}

/// Installs the recorder for all figures.
fn recorder() -> Result<PrometheusHandle, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for figure in FIGURES {
        if let FigureKind::Histogram(buckets) = figure.kind {
            builder =
                builder.set_buckets_for_metric(Matcher::Full(figure.name.to_owned()), buckets)?;
        }
    }
    let handle = builder.install_recorder()?;
    figures::describe();
    Ok(handle)
}

fn router(shared: StatusState) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(render))
        .layer(from_fn(single_request))
        .with_state(shared)
}

/// Returns 200 while the program is healthy, otherwise 503 with the reasons.
async fn livez(State(shared): State<StatusState>) -> Response {
    let reasons = within_limit(shared.health.alive(), "the dispatcher does not answer").await;
    let body = match reasons.is_empty() {
        true => json!({"alive": true}),
        false => json!({"alive": false, "reasons": reasons}),
    };
    page(&reasons, &body)
}

/// Returns 200 while prompts are answered, otherwise 503 with the reasons.
async fn readyz(State(shared): State<StatusState>) -> Response {
    let reasons = within_limit(shared.health.unready(), "the check takes too long").await;
    page(&reasons, &json!({"ready": reasons.is_empty(), "reasons": reasons}))
}

/// Waits for the reasons of a check. Returns `late` as the only reason if they take too long.
pub(super) async fn within_limit(
    check: impl Future<Output = Vec<String>>,
    late: &str,
) -> Vec<String> {
    tokio::time::timeout(ANSWER_TIMEOUT, check).await.unwrap_or_else(|_| vec![late.to_owned()])
}

/// Returns the figures in the Prometheus text format, version 0.0.4.
async fn render(State(shared): State<StatusState>) -> Response {
    // Figures that cannot be measured in time keep their old value.
    let _ = tokio::time::timeout(ANSWER_TIMEOUT, shared.health.measure()).await;
    shared.figures.run_upkeep();
    let page = shared.figures.render() + &figures::render_guests();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page).into_response()
}

/// Returns 200 without reasons, otherwise 503.
fn page(reasons: &[String], body: &Value) -> Response {
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (
        status,
        [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")],
        format!("{body}\n"),
    )
        .into_response()
}
