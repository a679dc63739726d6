//! Limits for connections: their number, and the time and size of a request's headers.
//!
//! A request's handler cannot limit these itself: clients that connect and send nothing, or send
//! headers without end. The limits do not lock out other clients; see [`super::crowd`]. Each
//! connection carries one request.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::crowd::{Crowd, Place};

/// Time limit from the connection to the last byte of the headers.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest total size of method, URL and headers, in bytes.
const HEAD_SIZE: usize = 32 << 10;

/// A listener that limits the number of connections.
pub(super) struct Door {
    listener: TcpListener,
    crowd: Crowd,
}

impl Door {
    /// Creates a listener that accepts at most `most` connections at the same time.
    pub(super) fn new(listener: TcpListener, most: usize) -> Self {
        Self { listener, crowd: Crowd::new(most) }
    }
}

impl Listener for Door {
    type Io = Visit;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Visit, SocketAddr) {
        // The method of the trait retries after errors.
        let (stream, address) = Listener::accept(&mut self.listener).await;
        // If this fails, responses are only slower.
        let _ = stream.set_nodelay(true);
        let place = self.crowd.enter_in_time(address.ip()).await;
        let taken = Box::pin(place.taken().clone().cancelled_owned());
        let head = Head { read: Arc::default(), place: Arc::new(place) };
        (
            Visit {
                stream,
                head,
                seen: 0,
                late: Box::pin(tokio::time::sleep(HEAD_TIMEOUT)),
                taken,
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
struct Head {
    read: Arc<AtomicBool>,
    place: Arc<Place>,
}

/// The client of a request, for its handler.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) address: SocketAddr,
    head: Head,
}

impl Caller {
    /// Marks the headers as received. From now on the handler limits what is read.
    pub(super) fn head_is_read(&self) {
        self.head.read.store(true, Ordering::Release);
        self.head.place.served();
    }
}

impl Connected<IncomingStream<'_, Door>> for Caller {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        Self { address: *stream.remote_addr(), head: stream.io().head.clone() }
    }
}

/// A connection. Until its headers are received, reading fails on timeout or eviction.
pub(super) struct Visit {
    stream: TcpStream,
    head: Head,
    /// Bytes read so far. Checked against `HEAD_SIZE` until the headers are complete.
    seen: usize,
    late: Pin<Box<Sleep>>,
    taken: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl AsyncRead for Visit {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.head.read.load(Ordering::Acquire) {
            if self.seen >= HEAD_SIZE {
                return Poll::Ready(Err(io::Error::other("the headers are too large")));
            }
            if self.late.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            if self.taken.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(io::Error::other(
                    "evicted for another client: it had sent no complete request",
                )));
            }
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.seen = self.seen.saturating_add(buffer.filled().len() - before);
        read
    }
}

impl AsyncWrite for Visit {
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
