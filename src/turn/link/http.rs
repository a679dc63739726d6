//! HTTP and server-sent events, to the loopback port the host gave one of the link's processes and
//! nowhere else.

use std::sync::LazyLock;
use std::time::Duration;

use reqwest::{Client, Method, Response, redirect};
use tokio::sync::mpsc;

use super::sse::Frames;
use super::task::Task;
use crate::agent::{
    HttpFailed, HttpRequest, HttpResponse, Input, OpenStream, ProcKey, StreamClosed, StreamEvent,
    StreamOpened,
};
use crate::lines::LineSplitter;

/// Requests, and streams, a link may have under way.
const AT_ONCE: usize = 32;
/// Longest a guest may wait for an answer, milliseconds.
const PATIENCE_MS: u32 = 600_000;

/// Never redirected, never through a proxy; without certificates, because it only speaks plain
/// HTTP.
static CLIENT: LazyLock<reqwest::Result<Client>> = LazyLock::new(|| {
    Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .tls_built_in_root_certs(false)
        .build()
});

impl Task {
    /// Sends a request; its end comes as an input.
    pub(super) fn http(&mut self, request: HttpRequest) {
        let key = request.request;
        let failed = move |message: String, timed_out| {
            Input::HttpFailed(HttpFailed { request: key, message, timed_out })
        };
        if self.requests.contains(&key) || self.requests.len() >= AT_ONCE {
            return self.input(failed(
                format!(
                    "a link has at most {AT_ONCE} requests under way, each with a key of its own"
                ),
                false,
            ));
        }
        let prepared = self.prepare(request.proc, &request.method, &request.path).and_then(
            |call| match request.body {
                Some(body) => Ok(call
                    .header("content-type", "application/json")
                    .body(self.stock.body(&body)?)),
                None => Ok(call),
            },
        );
        let call = match prepared {
            Ok(call) => {
                call.timeout(Duration::from_millis(request.timeout_ms.min(PATIENCE_MS).into()))
            }
            Err(message) => return self.input(failed(message, false)),
        };
        self.requests.insert(key);
        let (inbox, limit) = (self.inbox.clone(), self.line_limit());
        self.net.spawn(async move {
            let input = match answer(call, limit).await {
                Ok((status, body)) => {
                    Input::HttpResponse(HttpResponse { request: key, status, body })
                }
                Err((message, timed_out)) => failed(message, timed_out),
            };
            // Fails when the link has gone.
            let _ = inbox.send(input).await;
        });
    }

    /// Opens a stream; what comes of it comes as inputs, `stream-closed` last.
    pub(super) fn open_stream(&mut self, open: OpenStream) {
        let key = open.stream;
        let closed = |message: String| {
            Input::StreamClosed(StreamClosed { stream: key, message: Some(message) })
        };
        if self.streams.contains_key(&key) || self.streams.len() >= AT_ONCE {
            return self.input(closed(format!(
                "a link has at most {AT_ONCE} streams, each with a key of its own"
            )));
        }
        let call = match self.prepare(open.proc, "GET", &open.path) {
            Ok(call) => call.header("accept", "text/event-stream"),
            Err(message) => return self.input(closed(message)),
        };
        let (inbox, limit) = (self.inbox.clone(), self.line_limit());
        let running = self.net.spawn(async move {
            let message = follow(call, key, limit, &inbox).await;
            let _ = inbox
                .send(Input::StreamClosed(StreamClosed { stream: key, message: Some(message) }))
                .await;
        });
        self.streams.insert(key, running);
    }

    /// Closes a stream on request.
    pub(super) fn close_stream(&mut self, key: u32) {
        if let Some(running) = self.streams.remove(&key) {
            running.abort();
            self.input(Input::StreamClosed(StreamClosed { stream: key, message: None }));
        }
    }

    /// Takes in what came over HTTP; of a stream that was closed meanwhile, nothing.
    pub(super) fn net_input(&mut self, input: Input) {
        let size = match &input {
            Input::HttpResponse(response) => {
                self.requests.remove(&response.request);
                response.body.len()
            }
            Input::HttpFailed(failed) => {
                self.requests.remove(&failed.request);
                0
            }
            Input::StreamEvent(event) if self.streams.contains_key(&event.stream) => {
                event.data.len()
            }
            Input::StreamOpened(opened) if self.streams.contains_key(&opened.stream) => 0,
            Input::StreamClosed(closed) if self.streams.remove(&closed.stream).is_some() => 0,
            _ => return,
        };
        self.heard(size as u64);
        self.input(input);
    }

    fn prepare(
        &self,
        proc: ProcKey,
        method: &str,
        path: &str,
    ) -> Result<reqwest::RequestBuilder, String> {
        let running = self.processes.get(&proc).ok_or("the process is not running")?;
        let port = running.port.ok_or("the process was not started with `listens`")?;
        if !path.starts_with('/')
            || path.starts_with("//")
            || path.bytes().any(|byte| byte.is_ascii_control())
        {
            return Err(format!("{path:?} is not a path"));
        }
        let method = Method::from_bytes(method.as_bytes())
            .map_err(|_| format!("{method:?} is not a method"))?;
        let client = CLIENT.as_ref().map_err(|error| format!("no HTTP here: {error}"))?;
        let mut call = client.request(method, format!("http://127.0.0.1:{port}{path}"));
        if let Some(auth) = &running.auth {
            call = call.basic_auth(&auth.user, self.stock.known(&auth.secret));
        }
        Ok(call)
    }
}

/// Status and body; an error says whether the time was over.
async fn answer(
    call: reqwest::RequestBuilder,
    limit: usize,
) -> Result<(u32, String), (String, bool)> {
    let mut response = call.send().await.map_err(|error| told(&error))?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| told(&error))? {
        if body.len() + chunk.len() > limit {
            return Err((format!("the answer has more than {limit} bytes"), false));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((response.status().as_u16().into(), String::from_utf8_lossy(&body).into_owned()))
}

/// Passes the events of a stream on; returns why it ended.
async fn follow(
    call: reqwest::RequestBuilder,
    key: u32,
    limit: usize,
    inbox: &mpsc::Sender<Input>,
) -> String {
    let mut response = match call.send().await {
        Ok(response) => response,
        Err(error) => return told(&error).0,
    };
    let status = response.status().as_u16();
    let _ =
        inbox.send(Input::StreamOpened(StreamOpened { stream: key, status: status.into() })).await;
    if status != 200 {
        return format!("the server answered with status {status}");
    }
    match events(&mut response, key, limit, inbox).await {
        Ok(()) => "the server ended the stream".to_owned(),
        Err(message) => message,
    }
}

async fn events(
    response: &mut Response,
    key: u32,
    limit: usize,
    inbox: &mpsc::Sender<Input>,
) -> Result<(), String> {
    let (mut splitter, mut frames) = (LineSplitter::new(limit), Frames::default());
    while let Some(chunk) = response.chunk().await.map_err(|error| told(&error).0)? {
        let mut complete = Vec::new();
        let mut cut = false;
        splitter.feed(&chunk, |line| {
            cut |= line.truncated;
            complete.extend(frames.line(&line.text));
        });
        if cut || frames.held() > limit {
            return Err(format!("an event has more than {limit} bytes"));
        }
        for frame in complete {
            let event =
                StreamEvent { stream: key, name: frame.name, id: frame.id, data: frame.data };
            if inbox.send(Input::StreamEvent(event)).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// What went wrong, with the cause: "error sending request" alone says nothing.
fn told(error: &reqwest::Error) -> (String, bool) {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(because) = cause {
        text.push_str(": ");
        text.push_str(&because.to_string());
        cause = because.source();
    }
    (text, error.is_timeout())
}
