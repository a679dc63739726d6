//! Limits for connections: their number, and the time and size of a request's headers.
//!
//! A request's handler cannot stop clients that connect and send nothing, or send headers without
//! end, because it only runs after the headers. The limits do not lock out other clients; see
//! [`super::slots`]. Each connection carries one request.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::Sleep;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::slots::{CallerSlot, CallerSlots};
use aetheel_runtime::supervisor;

/// Time limit from the connection to the last byte of the headers.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest total size of method, URL and headers, in bytes.
const HEAD_SIZE: usize = 32 << 10;

/// A bound address that does not answer yet.
#[derive(Debug)]
pub(super) struct BoundAddress {
    pub(super) listener: TcpListener,
    /// The address. If port 0 was requested, this has the actual port.
    pub(super) address: SocketAddr,
}

impl BoundAddress {
    /// Binds an address.
    pub(super) async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }
}

/// The task of a server. Dropping it ends the task.
#[derive(Debug)]
pub(super) struct ServerTask(JoinHandle<()>);

impl ServerTask {
    /// Starts a server. `name` names it in the log.
    pub(super) fn spawn(
        name: &'static str,
        server: impl IntoFuture<Output = io::Result<()>, IntoFuture: Send + 'static>,
    ) -> Self {
        let server = server.into_future();
        Self(supervisor::spawn(name, async move {
            if let Err(error) = server.await {
                tracing::error!(%error, "{name}: the server has stopped; start the gateway again");
            }
        }))
    }

    /// Waits until the server has ended, for at most this time. Returns whether it has ended.
    pub(super) async fn ended_within(&mut self, limit: Duration) -> bool {
        tokio::time::timeout(limit, &mut self.0).await.is_ok()
    }
}

impl Drop for ServerTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A listener that limits the number of connections.
pub(super) struct BoundedListener {
    listener: TcpListener,
    crowd: CallerSlots,
}

impl BoundedListener {
    /// Creates a listener that accepts at most `most` connections at the same time.
    pub(super) fn new(listener: TcpListener, most: usize) -> Self {
        Self { listener, crowd: CallerSlots::new(most) }
    }
}

impl Listener for BoundedListener {
    type Io = BoundedConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (BoundedConnection, SocketAddr) {
        // axum's implementation of `accept` retries after errors.
        let (stream, address) = Listener::accept(&mut self.listener).await;
        // If this fails, responses are only slower.
        let _ = stream.set_nodelay(true);
        let place = self.crowd.acquire(address.ip()).await;
        let taken = Box::pin(place.evicted().clone().cancelled_owned());
        let head = HeaderState { read: Arc::default(), place: Arc::new(place) };
        (
            BoundedConnection {
                stream,
                head,
                read_bytes: 0,
                header_timeout: Box::pin(tokio::time::sleep(HEAD_TIMEOUT)),
                evicted: taken,
            },
            address,
        )
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Whether the headers of a connection's request were received. Until then, the connection may be
/// evicted.
#[derive(Clone, Debug)]
struct HeaderState {
    read: Arc<AtomicBool>,
    place: Arc<CallerSlot>,
}

/// The client of a request, for its handler.
#[derive(Clone, Debug)]
pub(super) struct HttpCaller {
    pub(super) address: SocketAddr,
    head: HeaderState,
}

impl HttpCaller {
    /// Marks the headers as received. From now on the handler limits the data that is read.
    pub(super) fn headers_received(&self) {
        self.head.read.store(true, Ordering::Release);
        self.head.place.protect();
    }
}

impl Connected<IncomingStream<'_, BoundedListener>> for HttpCaller {
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Self {
        Self { address: *stream.remote_addr(), head: stream.io().head.clone() }
    }
}

/// Marks the headers as received, and limits each connection to one request, so that idle clients
/// are disconnected soon.
pub(super) async fn single_request(
    ConnectInfo(caller): ConnectInfo<HttpCaller>,
    request: Request,
    next: Next,
) -> Response {
    caller.headers_received();
    let mut response = next.run(request).await;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A connection. Until its headers are received, reading fails on timeout or eviction.
pub(super) struct BoundedConnection {
    stream: TcpStream,
    head: HeaderState,
    /// Bytes read so far. Checked against `HEAD_SIZE` until the headers are complete.
    read_bytes: usize,
    header_timeout: Pin<Box<Sleep>>,
    evicted: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl AsyncRead for BoundedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.head.read.load(Ordering::Acquire) {
            if self.read_bytes >= HEAD_SIZE {
                return Poll::Ready(Err(io::Error::other("the headers are too large")));
            }
            if self.header_timeout.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            if self.evicted.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(io::Error::other(
                    "evicted for another client: it had sent no complete request",
                )));
            }
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.read_bytes = self.read_bytes.saturating_add(buffer.filled().len() - before);
        read
    }
}

impl AsyncWrite for BoundedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
