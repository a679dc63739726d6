//! TLS for the local Discord: the certificate authority of one test, and streams with or without
//! encryption.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::NamedTempFile;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

/// A certificate authority that only readers of its file trust.
pub(super) struct Authority {
    file: NamedTempFile,
    acceptor: TlsAcceptor,
}

impl Authority {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut authority = CertificateParams::new(Vec::new()).expect("no names");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "authority of one test");
        let file = NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), authority.self_signed(&key).expect("a certificate").pem())
            .expect("written");

        let own = KeyPair::generate().expect("a key");
        let mut server = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("an address");
        server.distinguished_name.push(DnType::CommonName, "local discord");
        let certificate =
            server.signed_by(&own, &Issuer::from_params(&authority, &key)).expect("a certificate");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], own.into())
            .expect("a certificate and its key");
        Self { file, acceptor: TlsAcceptor::from(Arc::new(config)) }
    }

    /// Returns the PEM file of its certificate.
    pub(super) fn file(&self) -> &Path {
        self.file.path()
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.clone()
    }
}

/// An accepted connection.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Does the TLS handshake if there is an acceptor.
    pub(super) async fn open(stream: TcpStream, acceptor: Option<TlsAcceptor>) -> io::Result<Self> {
        let Some(acceptor) = acceptor else { return Ok(Self::Plain(stream)) };
        let shaking: Accept<TcpStream> = acceptor.accept(stream);
        Ok(Self::Tls(Box::new(shaking.await?)))
    }

    /// Makes dropping the stream reset the connection.
    pub(super) fn reset(&self) {
        let tcp = match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        };
        let _ = tcp.set_zero_linger();
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// Passes connections to the HTTP server after the TLS handshake. A slow handshake does not delay
/// other connections.
pub(super) struct Front {
    address: SocketAddr,
    ready: mpsc::UnboundedReceiver<(Stream, SocketAddr)>,
}

impl Front {
    pub(super) fn new(listener: TcpListener, acceptor: Option<TlsAcceptor>) -> Self {
        let address = listener.local_addr().expect("an address");
        let (hand_over, ready) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (stream, peer) = tokio::select! {
                    taken = listener.accept() => match taken {
                        Ok(taken) => taken,
                        Err(_) => continue,
                    },
                    () = hand_over.closed() => return,
                };
                let (acceptor, hand_over) = (acceptor.clone(), hand_over.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = Stream::open(stream, acceptor).await {
                        let _ = hand_over.send((stream, peer));
                    }
                });
            }
        });
        Self { address, ready }
    }
}

impl axum::serve::Listener for Front {
    type Io = Stream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Stream, SocketAddr) {
        match self.ready.recv().await {
            Some(taken) => taken,
            // The task that accepts connections ends only when this is dropped.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
