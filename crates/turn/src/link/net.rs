//! HTTP and server-sent events. A link can connect only to the loopback ports that the host
//! assigned to its processes.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response, redirect};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::action_error::ActionError;
use super::files::BodySources;
use super::processes::ProcessListener;
use aetheel_model::agent::{
    HttpFailed, HttpRequest, HttpResponse, Input, OpenStream, StreamClosed, StreamEvent,
    StreamOpened,
};
use aetheel_model::lines::LineSplitter;
use aetheel_model::plain::with_causes;
use aetheel_model::sse::SseParser;

/// Maximum number of open requests of a link, and of open streams.
const AT_ONCE: usize = 32;
/// Maximum timeout that a guest may set for a response, in milliseconds.
const TIMEOUT_MS_LIMIT: u32 = 600_000;
/// Maximum delay of the report that a connection was lost. If the process is found to have ended
/// meanwhile, its exit is reported first, because it explains more: a turn has not failed if its
/// agent was lost together with the process that held it.
const LOSS_GRACE: Duration = Duration::from_secs(2);
/// The message for a stream that the server ended.
const STREAM_ENDED: &str = "the server ended the stream";
/// Maximum number of inputs that wait for the guest.
const MAX_WAITING_INPUTS: usize = 64;

/// A client without redirects, proxies and certificates, because it only speaks plain HTTP to this
/// machine.
static CLIENT: LazyLock<reqwest::Result<Client>> = LazyLock::new(|| {
    Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .tls_built_in_root_certs(false)
        .build()
});

/// The open requests and streams of a link.
pub(super) struct Net {
    tasks: JoinSet<()>,
    inputs_tx: mpsc::Sender<Input>,
    inputs: mpsc::Receiver<Input>,
    requests: BTreeSet<u32>,
    streams: HashMap<u32, AbortHandle>,
}

impl Net {
    pub(super) fn new() -> Self {
        let (inputs_tx, inputs) = mpsc::channel(MAX_WAITING_INPUTS);
        Self {
            tasks: JoinSet::new(),
            inputs_tx,
            inputs,
            requests: BTreeSet::new(),
            streams: HashMap::new(),
        }
    }

    /// Returns whether a request or stream is open.
    pub(super) fn is_busy(&self) -> bool {
        !self.requests.is_empty() || !self.streams.is_empty()
    }

    /// Waits for the next input. Never completes if no request or stream is open. Dropping the
    /// future loses nothing.
    pub(super) async fn next(&mut self) -> Input {
        // Tasks report by inputs, so their results are not needed.
        while self.tasks.try_join_next().is_some() {}
        match self.inputs.recv().await {
            Some(input) => input,
            None => std::future::pending().await,
        }
    }

    /// Returns the next input if it has already arrived.
    pub(super) fn try_next(&mut self) -> Option<Input> {
        self.inputs.try_recv().ok()
    }

    /// Sends a request. The result arrives later as an input. If the request cannot be sent,
    /// returns that input immediately.
    pub(super) fn request(
        &mut self,
        request: &HttpRequest,
        listener: Result<ProcessListener<'_>, ActionError>,
        stock: &mut BodySources,
        limit: usize,
    ) -> Option<Input> {
        let key = request.request;
        let failed = move |message: String, timed_out| {
            Input::HttpFailed(HttpFailed { request: key, message, timed_out })
        };
        if self.requests.contains(&key) || self.requests.len() >= AT_ONCE {
            return Some(failed(
                format!(
                    "a link has at most {AT_ONCE} requests under way, each with a key of its own"
                ),
                false,
            ));
        }
        let prepared = listener.and_then(|listener| {
            let call = prepare(&listener, &request.method, &request.path, stock)?;
            let call = match &request.body {
                Some(body) => {
                    call.header("content-type", "application/json").body(stock.body(body)?)
                }
                None => call,
            };
            Ok((call, listener.ended))
        });
        let (call, ended) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Some(failed(with_causes(&error), false)),
        };
        let time = Duration::from_millis(request.timeout_ms.min(TIMEOUT_MS_LIMIT).into());
        let call = call.timeout(time);
        self.requests.insert(key);
        let inputs_tx = self.inputs_tx.clone();
        self.tasks.spawn(async move {
            let input = match answer(call, limit).await {
                Ok((status, body)) => {
                    Input::HttpResponse(HttpResponse { request: key, status, body })
                }
                Err(failure) => {
                    if failure.is_loss {
                        ends_within_grace(&ended).await;
                    }
                    failed(failure.message, failure.timed_out)
                }
            };
            // Fails if the link has ended.
            let _ = inputs_tx.send(input).await;
        });
        None
    }

    /// Opens a stream. Its events arrive as inputs, with `stream-closed` as the last one. If the
    /// stream cannot be opened, returns that input immediately.
    pub(super) fn open_stream(
        &mut self,
        open: &OpenStream,
        listener: Result<ProcessListener<'_>, ActionError>,
        stock: &BodySources,
        limit: usize,
    ) -> Option<Input> {
        let key = open.stream;
        let closed = move |message: String| {
            Input::StreamClosed(StreamClosed { stream: key, message: Some(message) })
        };
        if self.streams.contains_key(&key) || self.streams.len() >= AT_ONCE {
            return Some(closed(format!(
                "a link has at most {AT_ONCE} streams, each with a key of its own"
            )));
        }
        let prepared = listener.and_then(|listener| {
            Ok((prepare(&listener, "GET", &open.path, stock)?, listener.ended))
        });
        let (call, ended) = match prepared {
            Ok((call, ended)) => (call.header("accept", "text/event-stream"), ended),
            Err(error) => return Some(closed(with_causes(&error))),
        };
        let inputs_tx = self.inputs_tx.clone();
        let running = self.tasks.spawn(async move {
            let (message, is_loss) = follow(call, key, limit, &inputs_tx).await;
            if is_loss {
                ends_within_grace(&ended).await;
            }
            let _ = inputs_tx.send(closed(message)).await;
        });
        self.streams.insert(key, running);
        None
    }

    /// Closes a stream and returns the input that confirms it, or `None` if the stream is not open.
    pub(super) fn close_stream(&mut self, key: u32) -> Option<Input> {
        self.streams.remove(&key)?.abort();
        Some(Input::StreamClosed(StreamClosed { stream: key, message: None }))
    }

    /// Registers an input. Returns false if the input belongs to a stream that was closed before the
    /// input was processed.
    pub(super) fn received(&mut self, input: &Input) -> bool {
        match input {
            Input::HttpResponse(HttpResponse { request, .. })
            | Input::HttpFailed(HttpFailed { request, .. }) => {
                self.requests.remove(request);
                true
            }
            Input::StreamEvent(event) => self.streams.contains_key(&event.stream),
            Input::StreamOpened(opened) => self.streams.contains_key(&opened.stream),
            Input::StreamClosed(closed) => self.streams.remove(&closed.stream).is_some(),
            _ => false,
        }
    }
}

/// Waits until the process is known to have ended, but at most [`LOSS_GRACE`].
async fn ends_within_grace(ended: &CancellationToken) {
    let _ = timeout(LOSS_GRACE, ended.cancelled()).await;
}

/// The reason why a request has no response.
struct HttpCallFailure {
    message: String,
    timed_out: bool,
    /// Whether an established connection was lost.
    is_loss: bool,
}

impl HttpCallFailure {
    fn of(error: &reqwest::Error) -> Self {
        let timed_out = error.is_timeout();
        let is_loss = !timed_out && !error.is_connect() && !error.is_builder();
        Self { message: with_causes(error), timed_out, is_loss }
    }
}

fn prepare(
    listener: &ProcessListener<'_>,
    method: &str,
    path: &str,
    stock: &BodySources,
) -> Result<RequestBuilder, ActionError> {
    let (port, auth) = (listener.endpoint.port, &listener.endpoint.auth);
    if !path.starts_with('/')
        || path.starts_with("//")
        || path.bytes().any(|byte| byte.is_ascii_control())
    {
        return Err(ActionError::Path(path.to_owned()));
    }
    let method = Method::from_bytes(method.as_bytes())
        .map_err(|_| ActionError::Method(method.to_owned()))?;
    let client = CLIENT.as_ref().map_err(ActionError::Http)?;
    let call = client.request(method, format!("http://127.0.0.1:{port}{path}"));
    Ok(match auth {
        Some(auth) => call.basic_auth(&auth.user, stock.existing_secret(&auth.secret)),
        None => call,
    })
}

/// Sends a request and returns the status and the body of the response.
async fn answer(call: RequestBuilder, limit: usize) -> Result<(u32, String), HttpCallFailure> {
    let mut response = call.send().await.map_err(|error| HttpCallFailure::of(&error))?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| HttpCallFailure::of(&error))? {
        if body.len() + chunk.len() > limit {
            let message = format!("the answer has more than {limit} bytes");
            return Err(HttpCallFailure { message, timed_out: false, is_loss: false });
        }
        body.extend_from_slice(&chunk);
    }
    Ok((response.status().as_u16().into(), String::from_utf8_lossy(&body).into_owned()))
}

/// Sends the events of a stream to the link. Returns why the stream ended, and whether an open
/// stream was lost.
async fn follow(
    call: RequestBuilder,
    key: u32,
    limit: usize,
    inputs_tx: &mpsc::Sender<Input>,
) -> (String, bool) {
    let mut response = match call.send().await {
        Ok(response) => response,
        Err(error) => return (with_causes(&error), false),
    };
    let status = response.status().as_u16();
    let _ = inputs_tx
        .send(Input::StreamOpened(StreamOpened { stream: key, status: status.into() }))
        .await;
    if status != 200 {
        return (format!("the server answered with status {status}"), false);
    }
    (pass_events(&mut response, key, limit, inputs_tx).await, true)
}

/// Sends the events of an open stream to the link until it ends. Returns why it ended.
async fn pass_events(
    response: &mut Response,
    key: u32,
    limit: usize,
    inputs_tx: &mpsc::Sender<Input>,
) -> String {
    let (mut splitter, mut frames) = (LineSplitter::new(limit), SseParser::default());
    loop {
        let chunk = match response.chunk().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return STREAM_ENDED.to_owned(),
            Err(error) => return with_causes(&error),
        };
        let mut complete = Vec::new();
        let mut cut = false;
        splitter.feed(&chunk, |line| {
            cut |= line.truncated;
            complete.extend(frames.push_line(&line.text));
        });
        if cut || frames.pending_bytes() > limit {
            return format!("an event has more than {limit} bytes");
        }
        for frame in complete {
            let event =
                StreamEvent { stream: key, name: frame.name, id: frame.id, data: frame.data };
            if inputs_tx.send(Input::StreamEvent(event)).await.is_err() {
                return STREAM_ENDED.to_owned();
            }
        }
    }
}
