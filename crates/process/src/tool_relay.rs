//! The tool relay: agents call the host's tools through it on loopback.
//!
//! MCP clients neither repeat a call whose connection broke nor give it up. So the holder runs the
//! relay, whose connections outlive the gateway. The relay sends each request to the gateway's
//! socket, and repeats it with the same number until it gets a whole response. A call that arrives
//! while no gateway listens waits for the next one. The gateway checks the secret in the path, and
//! carries out each number once. Without a holder, the gateway runs the relay itself.

use std::convert::Infallible;
use std::error::Error;
use std::fs::{File, Permissions};
use std::future::{Future, pending};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Interval, interval, sleep};

use aetheel_store::disk::replace;

/// The header with the number of a request. The number is the same when the request is repeated.
pub const REQUEST_NUMBER: &str = "aetheel-request";
/// The gateway's socket, in the state folder.
const SOCKET: &str = "tools.sock";
/// The file with the relay's port, in the state folder. The next relay uses the same port.
const PORT_FILE: &str = "tool-server.md";
const PORT: &str = "- port: ";
/// The largest number of simultaneous connections. A question occupies one until it is answered.
const CONNECTIONS: usize = 512;
const MAX_BODY_BYTES: usize = 1 << 20;
const MAX_RESPONSE_BYTES: usize = 16 << 20;
/// How long a connection may be idle. A client that reuses a connection while it is closed loses its
/// request, so this is longer than clients keep connections.
const IDLE_TIMEOUT: Duration = Duration::from_secs(900);
/// Time between two attempts to reach a gateway.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Time between two comments in a response that waits. Clients give up after silence.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;
type BoxError = Box<dyn Error + Send + Sync>;

/// The running relay. Dropping it closes all connections.
#[derive(Debug)]
pub struct ToolRelay {
    /// The port on 127.0.0.1.
    pub port: u16,
    serving: JoinHandle<()>,
}

impl ToolRelay {
    /// Starts the relay of a holder. Without one, the gateway runs its own, which ends with it.
    pub(crate) async fn open_if_possible(state: &Path) -> Option<Self> {
        match Self::open(state).await {
            Ok(relay) => Some(relay),
            Err(error) => {
                tracing::warn!(%error, "cannot start the tool relay; calls of host tools by some agents do not survive a restart of the gateway");
                None
            }
        }
    }

    /// Starts the relay for the gateway with this state folder. It uses the port of the previous
    /// relay if that is free, because agents which still run have its address.
    ///
    /// # Errors
    /// The system's error if no port can be used.
    pub async fn open(state: &Path) -> io::Result<Self> {
        let file = state.join(PORT_FILE);
        let saved = std::fs::read_to_string(&file).unwrap_or_default();
        let saved = saved.lines().find_map(|line| line.strip_prefix(PORT)?.parse().ok());
        let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = match saved {
            Some(port) => match bind(port).await {
                Ok(listener) => listener,
                Err(error) => {
                    tracing::warn!(port, %error, "the port of the tool relay is taken; agents that still run cannot call host tools");
                    bind(0).await?
                }
            },
            None => bind(0).await?,
        };
        let port = listener.local_addr()?.port();
        if saved != Some(port)
            && let Err(error) =
                replace(&file, format!("# The tool server\n\n{PORT}{port}\n").as_bytes())
        {
            tracing::warn!(%error, file = %file.display(), "cannot save the port of the tool relay; after a restart, running agents cannot call host tools");
        }
        // The numbers of two relays must differ, and only one of them knows those that it used.
        let (first, ..) = uuid::Uuid::new_v4().as_fields();
        let relay = Relay { state: state.to_owned(), next: AtomicU32::new(first) };
        Ok(Self { port, serving: tokio::spawn(serve(listener, Arc::new(relay))) })
    }
}

impl Drop for ToolRelay {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Opens the socket on which a gateway answers the relay, in place of that of an earlier gateway.
/// Must be called within a Tokio runtime.
///
/// # Errors
/// The system's error.
pub fn listen_for_relay(state: &Path) -> io::Result<UnixListener> {
    let path = state.join(SOCKET);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let folder = File::open(state)?;
    let listener = UnixListener::bind(short_path(&folder))?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Returns a path of the socket that is never too long for a socket address.
fn short_path(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()))
}

struct Relay {
    state: PathBuf,
    next: AtomicU32,
}

async fn serve(listener: TcpListener, relay: Arc<Relay>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => drop(connections.spawn(serve_agent(stream, Arc::clone(&relay)))),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection of an agent");
                    sleep(RETRY_INTERVAL).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_agent(stream: TcpStream, relay: Arc<Relay>) {
    // If this fails, responses are only slower.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let relay = Arc::clone(&relay);
        async move { Ok::<_, Infallible>(relay.respond(request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection of an agent to the tool relay is broken");
    }
}

impl Relay {
    /// Answers one request of an agent. A call gets an event stream at once, because it may wait for
    /// people.
    async fn respond(self: Arc<Self>, request: Request<Incoming>) -> Response<ResponseBody> {
        let (head, body) = request.into_parts();
        if head.method != Method::POST {
            // The relay has no messages of its own. It must not close the connection, because the
            // client may already have sent its next request.
            let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
            return response;
        }
        let Ok(body) = Limited::new(body, MAX_BODY_BYTES).collect().await else {
            return empty(StatusCode::PAYLOAD_TOO_LARGE);
        };
        let message = AgentMessage {
            path: head.uri.path().to_owned(),
            headers: forwarded(&head.headers),
            body: body.to_bytes(),
            number: self.next.fetch_add(1, Ordering::Relaxed),
        };
        match call_id(&message.body) {
            None => self.forward(&message).await.into_response(),
            Some(id) => {
                let event = async move { self.forward(&message).await.into_event(&id) };
                let event = Some(Box::pin(event) as _);
                let event = WaitingEvent { event, keep_alive: interval(KEEP_ALIVE_INTERVAL) };
                let mut response = Response::new(event.boxed_unsync());
                let headers = response.headers_mut();
                let stream = HeaderValue::from_static("text/event-stream");
                headers.insert(header::CONTENT_TYPE, stream);
                headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
                response
            }
        }
    }

    /// Sends a request to the gateway until a gateway has answered it.
    async fn forward(&self, message: &AgentMessage) -> GatewayResponse {
        loop {
            match self.send(message).await {
                // A gateway that starts does not know all agents yet.
                Ok(response) if response.status != StatusCode::SERVICE_UNAVAILABLE => {
                    return response;
                }
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "no gateway answers a call of a tool"),
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    async fn send(&self, message: &AgentMessage) -> Result<GatewayResponse, BoxError> {
        let folder = File::open(&self.state)?;
        let stream = UnixStream::connect(short_path(&folder)).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let mut request = Request::post(&message.path).body(Full::new(message.body.clone()))?;
        request.headers_mut().clone_from(&message.headers);
        request.headers_mut().insert(REQUEST_NUMBER, message.number.into());
        let exchange = async {
            let (head, body) = sender.send_request(request).await?.into_parts();
            let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await?.to_bytes();
            let kind = head.headers.get(header::CONTENT_TYPE).cloned();
            Ok(GatewayResponse { status: head.status, kind, body })
        };
        let driving = async {
            // The exchange fails with the connection.
            let _ = connection.await;
            pending::<Infallible>().await
        };
        tokio::select! {
            response = exchange => response,
            never = driving => match never {},
        }
    }
}

struct AgentMessage {
    path: String,
    headers: HeaderMap,
    body: Bytes,
    number: u32,
}

/// Returns the headers of a request that do not concern its connection.
fn forwarded(headers: &HeaderMap) -> HeaderMap {
    const OF_CONNECTION: [HeaderName; 5] = [
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::EXPECT,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    let mut headers = headers.clone();
    OF_CONNECTION.iter().for_each(|name| drop(headers.remove(name)));
    headers
}

/// Returns the id of a call of a tool, or `None` for another message.
fn call_id(body: &[u8]) -> Option<Value> {
    let mut message: Value = serde_json::from_slice(body).ok()?;
    (message["method"] == "tools/call").then(|| message["id"].take())
}

struct GatewayResponse {
    status: StatusCode,
    kind: Option<HeaderValue>,
    body: Bytes,
}

impl GatewayResponse {
    fn into_response(self) -> Response<ResponseBody> {
        let mut response = Response::new(Full::new(self.body).boxed_unsync());
        *response.status_mut() = self.status;
        if let Some(kind) = self.kind {
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
        }
        response
    }

    fn into_event(self, id: &Value) -> Bytes {
        let body = match self.status {
            StatusCode::OK => self.body,
            status => {
                let message = format!("the host refuses this call: {status}");
                let error = json!({ "code": -32600, "message": message });
                json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string().into()
            }
        };
        [&b"event: message\ndata: "[..], &body, b"\n\n"].concat().into()
    }
}

fn empty(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(Full::default().boxed_unsync());
    *response.status_mut() = status;
    response
}

/// An event stream with one event. Sends comments until then.
struct WaitingEvent {
    event: Option<Pin<Box<dyn Future<Output = Bytes> + Send>>>,
    keep_alive: Interval,
}

impl Body for WaitingEvent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(event) = &mut self.event else { return Poll::Ready(None) };
        if let Poll::Ready(bytes) = event.as_mut().poll(context) {
            self.event = None;
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let comment = || Some(Ok(Frame::data(Bytes::from_static(b": waiting\n\n"))));
        self.keep_alive.poll_tick(context).map(|_| comment())
    }
}
