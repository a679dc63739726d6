//! Tests that a machine between a node and its database learns nothing.

use std::sync::Arc;
use std::time::Duration;

use aetheel_cluster::Cluster;
use rcgen::{CertificateParams, KeyPair};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

use super::{LEASE, TIMEOUT, options};

/// The message with which a client of PostgreSQL asks for TLS.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Accepts TLS with a self-signed certificate for this address.
fn unknown_certificate() -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// Accepts one connection and answers its request for TLS: with a handshake if `tls` is set,
/// otherwise with a refusal. Returns the client's further messages as the machine in the middle can
/// read them.
async fn in_the_middle(listener: TcpListener, tls: Option<TlsAcceptor>) -> Vec<u8> {
    let (mut stream, _): (TcpStream, _) = listener.accept().await.unwrap();
    let mut asked = [0; 8];
    stream.read_exact(&mut asked).await.unwrap();
    assert_eq!(asked, TLS_REQUEST, "it asks for TLS before it sends anything else");
    let mut said = Vec::new();
    match tls {
        None => {
            stream.write_all(b"N").await.unwrap();
            let _ = stream.read_to_end(&mut said).await;
        }
        Some(tls) => {
            stream.write_all(b"S").await.unwrap();
            if let Ok(mut stream) = tls.accept(stream).await {
                let _ = stream.read_to_end(&mut said).await;
            }
        }
    }
    said
}

/// Has a node join through a machine in the middle. Returns everything that the machine could read.
async fn intercepted_from_a_node(tls: Option<TlsAcceptor>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // For the address of another machine, `require` is the default.
    let url = format!("postgres://ann:hunter2@127.0.0.1:{port}/x?sslmode=require");
    let mut joining =
        tokio::spawn(
            async move { Cluster::join(&url, options("ann", "ann", LEASE)).await.map(drop) },
        );
    let learned = in_the_middle(listener, tls);
    let learned = tokio::time::timeout(TIMEOUT, learned).await.expect("the node gives up");
    if let Ok(joined) = tokio::time::timeout(Duration::ZERO, &mut joining).await {
        assert!(joined.unwrap().is_err(), "it joined");
    }
    joining.abort();
    String::from_utf8_lossy(&learned).into_owned()
}

#[tokio::test]
async fn a_server_that_refuses_tls_learns_neither_user_nor_password() {
    assert_eq!(intercepted_from_a_node(None).await, "");
}

#[tokio::test]
async fn a_server_with_an_untrusted_certificate_learns_neither_user_nor_password() {
    assert_eq!(intercepted_from_a_node(Some(unknown_certificate())).await, "");
}
