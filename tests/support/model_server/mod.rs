//! A scripted model service on loopback that implements the APIs of the agents' programs.
//!
//! It implements Anthropic Messages (Claude Code, Droid), OpenAI Responses (Codex) and Chat
//! Completions (OpenCode, Qwen Code), and Google's generateContent (Gemini CLI), all with one
//! script. The test writes the script: a queue of [`Reply`]s, or a closure that gets the request.
//! The service never sleeps. A test that controls the timing puts a [`Gate`] into the reply and
//! opens it. Every request is stored for assertions, without its key. Requests that agents make for
//! their own purposes (titles, choice of a model) get a harmless answer and do not use up the
//! script. All other paths get 404. [`ModelServer::others`] lists both.

mod chat;
mod gate;
mod gemini;
mod intent;
mod limit;
mod messages;
mod reply;
mod request;
mod responses;
mod tests;
mod wire;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tokio::sync::watch;

pub use gate::Gate;
pub use intent::Intent;
pub use limit::Allowance;
pub use reply::Reply;
pub use request::ModelRequest;
pub use wire::{TOKENS_IN, TOKENS_OUT};

use request::Asked;
use wire::Voice;

type Script = Box<dyn FnMut(&ModelRequest) -> Option<Reply> + Send>;

/// The longest wait for something that a test expects.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The API of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    Messages,
    Responses,
    Chat,
    Gemini,
}

/// A running model service. It stops when it is dropped.
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
    /// Starts a service that gives these replies in this order. A request after the last one gets a
    /// 400 that says so. The CLI does not repeat such a request, so the test fails quickly.
    pub async fn replying(replies: impl IntoIterator<Item = Reply>) -> Self {
        let mut queue: VecDeque<Reply> = replies.into_iter().collect();
        Self::start(Box::new(move |_| queue.pop_front())).await
    }

    /// Starts a service that chooses each reply by the request.
    pub async fn answering(
        mut script: impl FnMut(&ModelRequest) -> Reply + Send + 'static,
    ) -> Self {
        Self::start(Box::new(move |request| Some(script(request)))).await
    }

    async fn start(script: Script) -> Self {
        let shared = Arc::new(Shared {
            script: Mutex::new(script),
            requests: watch::Sender::new(Vec::new()),
            others: Mutex::new(Vec::new()),
        });
        let router = Router::new()
            .route("/v1/messages", post(messages))
            .route("/v1/messages/count_tokens", post(count_tokens))
            .route("/v1/responses", post(responses))
            .route("/v1/chat/completions", post(chat))
            .route("/v1beta/models/{call}", post(gemini))
            .fallback(other)
            .layer(DefaultBodyLimit::disable())
            .with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, shared, task }
    }

    /// Returns the URL for `ANTHROPIC_BASE_URL` and similar variables. OpenAI's variables need
    /// `/v1` after it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests for answers so far, in order of arrival.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.shared.requests.borrow().clone()
    }

    /// Returns the only request for an answer.
    ///
    /// Panics if there was no request, or more than one.
    #[track_caller]
    pub fn only_request(&self) -> ModelRequest {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "requests that reached the model: {requests:#?}");
        requests.remove(0)
    }

    /// Waits for this many requests for answers and returns the last of them.
    pub async fn request(&self, count: usize) -> ModelRequest {
        let mut requests = self.shared.requests.subscribe();
        let seen =
            tokio::time::timeout(PATIENCE, requests.wait_for(|all| all.len() >= count)).await;
        seen.unwrap_or_else(|_| panic!("request {count} did not reach the model")).unwrap()
            [count - 1]
            .clone()
    }

    /// Returns the method and the path of all other requests.
    pub fn others(&self) -> Vec<String> {
        lock(&self.shared.others).clone()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Api {
    fn read(self, body: &serde_json::Value, call: &str) -> Result<(Self, Asked), String> {
        let asked = match self {
            Self::Messages => messages::read(body),
            Self::Responses => responses::read(body),
            Self::Chat => chat::read(body),
            Self::Gemini => gemini::read(body, call),
        };
        Ok((self, asked?))
    }

    fn voice(self, model: &str) -> Box<dyn Voice> {
        match self {
            Self::Messages => Box::new(messages::Messages::new(model)),
            Self::Responses => Box::new(responses::Responses::default()),
            Self::Chat => Box::new(chat::Chat::new(model)),
            Self::Gemini => Box::new(gemini::Gemini::new(model)),
        }
    }
}

async fn answer(
    api: Api,
    call: &str,
    shared: &Shared,
    headers: &HeaderMap,
    body: &[u8],
) -> Response {
    let request = match ModelRequest::read(headers, body, |body| api.read(body, call)) {
        Ok(request) => request,
        Err(fault) => {
            return Reply::refusing(400, &fault)
                .into_response(false, &[], &mut *api.voice("none"))
                .await;
        }
    };
    let mut voice = api.voice(request.model());
    let streaming = request.streaming();
    if request.is_side() {
        lock(&shared.others)
            .push(format!("{api:?} for itself: {:?}", request.said_by("user").last()));
        return Reply::text("Scripted title").into_response(streaming, &[], &mut *voice).await;
    }
    let reply = (lock(&shared.script))(&request)
        .unwrap_or_else(|| Reply::refusing(400, "the test's script has no reply left"));
    let offered = request.offered().to_vec();
    shared.requests.send_modify(|all| all.push(request));
    if let Some(limit) = &reply.limit {
        return limit.refusal(api);
    }
    reply.into_response(streaming, &offered, &mut *voice).await
}

async fn messages(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    answer(Api::Messages, "", &shared, &headers, &body).await
}

async fn responses(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    answer(Api::Responses, "", &shared, &headers, &body).await
}

async fn chat(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    answer(Api::Chat, "", &shared, &headers, &body).await
}

async fn gemini(
    State(shared): State<Arc<Shared>>,
    Path(call): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if call.ends_with(":countTokens") {
        lock(&shared.others).push("POST :countTokens".to_owned());
        return axum::Json(serde_json::json!({ "totalTokens": body.len() / 4 })).into_response();
    }
    answer(Api::Gemini, &call, &shared, &headers, &body).await
}

async fn count_tokens(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    lock(&shared.others).push("POST /v1/messages/count_tokens".to_owned());
    axum::Json(serde_json::json!({ "input_tokens": body.len() / 4 })).into_response()
}

async fn other(State(shared): State<Arc<Shared>>, method: Method, uri: Uri) -> StatusCode {
    lock(&shared.others).push(format!("{method} {}", uri.path()));
    StatusCode::NOT_FOUND
}

/// A script that panicked has already failed its own test. Other tests continue.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
