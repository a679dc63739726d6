//! A collector of traces on loopback: OTLP over HTTP with protobuf. It stores every request.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::routing::any;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::sync::watch;

use super::program::LIMIT;

/// How the collector behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectorMood {
    /// It takes everything.
    Takes,
    /// It answers with this status.
    Answers(u16),
    /// It reads requests and never answers.
    Hangs,
}

/// A request that arrived, whatever the answer was.
#[derive(Clone, Debug)]
pub struct TraceRequest {
    pub path: String,
    pub headers: HeaderMap,
    pub content: ExportTraceServiceRequest,
    /// The bytes of the body, to search for texts.
    pub body: Vec<u8>,
}

/// A running collector. It stops when it is dropped.
pub struct TraceCollector {
    address: SocketAddr,
    shared: Arc<CollectorState>,
    task: tokio::task::JoinHandle<()>,
}

struct CollectorState {
    mood: Mutex<CollectorMood>,
    requests: watch::Sender<Vec<TraceRequest>>,
}

impl TraceCollector {
    pub async fn start(mood: CollectorMood) -> Self {
        let requests = watch::Sender::new(Vec::new());
        let shared = Arc::new(CollectorState { mood: Mutex::new(mood), requests });
        let router = Router::new().fallback(any(receive)).with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, shared, task }
    }

    pub fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn set_mood(&self, mood: CollectorMood) {
        *self.shared.mood.lock().unwrap() = mood;
    }

    pub fn requests(&self) -> Vec<TraceRequest> {
        self.shared.requests.borrow().clone()
    }

    /// Returns all spans of all requests, in the order of their arrival.
    pub fn spans(&self) -> Vec<Span> {
        spans(&self.requests())
    }

    /// Waits until `found` returns a value for the spans that arrived.
    pub async fn wait_for<T>(&self, what: &str, found: impl Fn(&[Span]) -> Option<T>) -> T {
        let mut changes = self.shared.requests.subscribe();
        let wait = async {
            loop {
                if let Some(value) = found(&spans(&changes.borrow_and_update())) {
                    return value;
                }
                changes.changed().await.expect("the collector runs");
            }
        };
        let waited = tokio::time::timeout(LIMIT, wait).await;
        waited.unwrap_or_else(|_| panic!("timed out waiting for {what}\n{:#?}", self.spans()))
    }

    /// Waits for the spans of this many turns. Returns them.
    pub async fn turns(&self, count: usize) -> Vec<Span> {
        self.wait_for("the spans of turns", |spans| {
            let turns = spans.iter().filter(|span| span.name.starts_with("invoke_agent "));
            let turns: Vec<Span> = turns.cloned().collect();
            (turns.len() >= count).then_some(turns)
        })
        .await
    }
}

impl Drop for TraceCollector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive(
    State(shared): State<Arc<CollectorState>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let content = ExportTraceServiceRequest::decode(&body[..]).expect("a request of OTLP");
    let request =
        TraceRequest { path: uri.path().to_owned(), headers, content, body: body.to_vec() };
    // A test that sees the request may change the mood for the next one.
    let mood = *shared.mood.lock().unwrap();
    shared.requests.send_modify(|requests| requests.push(request));
    match mood {
        CollectorMood::Takes => StatusCode::OK,
        CollectorMood::Answers(status) => StatusCode::from_u16(status).unwrap(),
        CollectorMood::Hangs => {
            tokio::time::sleep(Duration::MAX).await;
            StatusCode::OK
        }
    }
}

fn spans(requests: &[TraceRequest]) -> Vec<Span> {
    let resources = requests.iter().flat_map(|request| &request.content.resource_spans);
    let scopes = resources.flat_map(|resource| &resource.scope_spans);
    scopes.flat_map(|scope| &scope.spans).cloned().collect()
}

/// Returns the value of an attribute as text.
pub fn attribute(attributes: &[KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|pair| pair.key == name)?;
    Some(match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        Value::BoolValue(value) => value.to_string(),
        other => panic!("{name} is {other:?}"),
    })
}
