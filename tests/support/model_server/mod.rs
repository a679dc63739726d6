//! A scripted model service on loopback: the Anthropic Messages API as Claude Code 2.1.197 uses it.
//!
//! The test writes the script: a queue of [`Reply`]s, or a closure over the request. Nothing in it sleeps; where pace
//! matters a test puts a [`Gate`] into the reply and opens it. Every request is kept for assertions, without its key.
//! What the CLI asks besides messages (`HEAD /` before the first one) gets 404 and is listed by [`ModelServer::others`].

mod reply;
mod request;
mod tests;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tokio::sync::watch;

pub use reply::{Gate, Reply};
pub use request::ModelRequest;

type Script = Box<dyn FnMut(&ModelRequest) -> Option<Reply> + Send>;

/// Longest wait for something a test expects, before it fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running model service; it stops when dropped.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    script: Mutex<Script>,
    requests: watch::Sender<Vec<ModelRequest>>,
    others: Mutex<Vec<String>>,
}

impl ModelServer {
    /// Starts a service that gives these replies in this order. A request beyond them gets a 400 that says so: the
    /// CLI does not repeat those, so the test fails quickly.
    pub async fn replying(replies: impl IntoIterator<Item = Reply>) -> Self {
        let mut queue: VecDeque<Reply> = replies.into_iter().collect();
        Self::start(Box::new(move |_| queue.pop_front())).await
    }

    /// Starts a service that decides on each reply by looking at the request.
    pub async fn answering(mut script: impl FnMut(&ModelRequest) -> Reply + Send + 'static) -> Self {
        Self::start(Box::new(move |request| Some(script(request)))).await
    }

    async fn start(script: Script) -> Self {
        let shared =
            Arc::new(Shared { script: Mutex::new(script), requests: watch::Sender::new(Vec::new()), others: Mutex::new(Vec::new()) });
        let router = Router::new()
            .route("/v1/messages", post(messages))
            .route("/v1/messages/count_tokens", post(count_tokens))
            .fallback(other)
            .layer(DefaultBodyLimit::disable())
            .with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, shared, task }
    }

    /// Returns the address for `ANTHROPIC_BASE_URL`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests for messages so far, in order of arrival.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.shared.requests.borrow().clone()
    }

    /// Returns the one request for messages there was.
    ///
    /// # Panics
    /// There were none or several.
    #[track_caller]
    pub fn only_request(&self) -> ModelRequest {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "requests that reached the model: {requests:#?}");
        requests.remove(0)
    }

    /// Waits until this many requests for messages have arrived and returns the last of them.
    pub async fn request(&self, count: usize) -> ModelRequest {
        let mut requests = self.shared.requests.subscribe();
        let seen = tokio::time::timeout(PATIENCE, requests.wait_for(|all| all.len() >= count)).await;
        seen.unwrap_or_else(|_| panic!("request {count} did not reach the model")).unwrap()[count - 1].clone()
    }

    /// Returns method and path of everything else that was asked.
    pub fn others(&self) -> Vec<String> {
        lock(&self.shared.others).clone()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn messages(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let request = match ModelRequest::read(&headers, &body) {
        Ok(request) => request,
        Err(fault) => return Reply::error(400, "invalid_request_error", &fault).into_response(false, "none").await,
    };
    let reply = (lock(&shared.script))(&request)
        .unwrap_or_else(|| Reply::error(400, "invalid_request_error", "the test's script has no reply left"));
    let (stream, model) = (request.streaming(), request.model().to_owned());
    shared.requests.send_modify(|all| all.push(request));
    reply.into_response(stream, &model).await
}

async fn count_tokens(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    lock(&shared.others).push("POST /v1/messages/count_tokens".to_owned());
    axum::Json(serde_json::json!({ "input_tokens": body.len() / 4 })).into_response()
}

async fn other(State(shared): State<Arc<Shared>>, method: Method, uri: Uri) -> StatusCode {
    lock(&shared.others).push(format!("{method} {}", uri.path()));
    StatusCode::NOT_FOUND
}

/// A script that panicked has failed its test already; the others go on.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
