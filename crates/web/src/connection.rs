//! Connections: how many there are, and how long and how large what comes before a body may be.
//!
//! The bounds here are on things a request's handler cannot see: callers that connect and say
//! nothing, or send headers for ever. They keep nobody out: see [`super::crowd`]. Each connection
//! carries one request.

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

/// From the connection to the last byte of the headers.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest size of method, address and headers together, bytes.
const HEAD_SIZE: usize = 32 << 10;

/// A listener that lets in only so many.
pub(super) struct Door {
    listener: TcpListener,
    crowd: Crowd,
}

impl Door {
    /// One that so many connections go through at the same time.
    pub(super) fn new(listener: TcpListener, most: usize) -> Self {
        Self { listener, crowd: Crowd::new(most) }
    }
}

impl Listener for Door {
    type Io = Visit;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Visit, SocketAddr) {
        // The trait's, which goes on after errors.
        let (stream, address) = Listener::accept(&mut self.listener).await;
        // Only costs time where it cannot be set.
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

/// Whether all headers of a connection's request have come; until then its place is for whoever
/// comes.
#[derive(Clone, Debug)]
struct Head {
    read: Arc<AtomicBool>,
    place: Arc<Place>,
}

/// The caller, for the handler of its request.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) address: SocketAddr,
    head: Head,
}

impl Caller {
    /// Says that the headers have come: from now on the handler bounds what is read.
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

/// A connection; until its headers are read, it fails when its time is over or its place taken.
pub(super) struct Visit {
    stream: TcpStream,
    head: Head,
    /// Bytes read so far, held against `HEAD_SIZE` until the headers are whole.
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
                return Poll::Ready(Err(io::Error::other("others came, and it said nothing")));
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
