//! A client that calls webhooks. It signs like the supported schemes and writes HTTP byte by byte.
#![allow(dead_code, reason = "several test modules use parts of it")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A generous limit for every answer, because the machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);

/// A call of a webhook, as a sender makes it.
#[derive(Clone)]
pub struct Call {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub status: u16,
    /// Names in lower case, without `date`.
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Call {
    /// Makes a call with a JSON body.
    pub fn post(webhook: &str, body: &str) -> Self {
        let path = format!("/webhooks/{webhook}");
        Self { method: "POST", path, headers: Vec::new(), body: body.into() }
            .with("Content-Type", "application/json")
    }

    /// Sets a header and replaces an existing one.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.also(name, value)
    }

    /// Adds a header and keeps an existing one.
    pub fn also(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// Signs as in Standard Webhooks, with a time that is `off` seconds from now.
    pub fn standard(self, secret: &str, id: &str, off: i64) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed();
        let time = (now + off).to_string();
        let key = STANDARD.decode(secret.trim_start_matches("whsec_")).unwrap();
        let signature =
            STANDARD.encode(tag(&key, &[id.as_bytes(), b".", time.as_bytes(), b".", &self.body]));
        self.with("webhook-id", id)
            .with("webhook-timestamp", &time)
            .with("webhook-signature", &format!("v1,{signature}"))
    }

    /// Signs as GitHub does.
    pub fn github(self, secret: &str, event: &str, delivery: &str) -> Self {
        let signature: String = tag(secret.as_bytes(), &[&self.body])
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let signature = format!("sha256={signature}");
        self.with("X-GitHub-Event", event)
            .with("X-GitHub-Delivery", delivery)
            .with("X-Hub-Signature-256", &signature)
    }

    pub fn bearer(self, token: &str) -> Self {
        self.with("Authorization", &format!("Bearer {token}"))
    }

    /// Method, path and headers, without the empty line.
    pub fn head(&self) -> String {
        let headers: String =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{} {} HTTP/1.1\r\nHost: localhost\r\n{headers}", self.method, self.path)
    }

    pub async fn send(&self, address: SocketAddr) -> Answered {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut bytes =
            format!("{}Content-Length: {}\r\n\r\n", self.head(), self.body.len()).into_bytes();
        bytes.extend_from_slice(&self.body);
        // A server that has already refused may have stopped reading.
        let _ = stream.write_all(&bytes).await;
        answer(&mut stream).await
    }
}

/// Reads an answer to the end of the connection.
pub async fn answer(stream: &mut TcpStream) -> Answered {
    let mut bytes = Vec::new();
    let read =
        tokio::time::timeout(LIMIT, stream.read_to_end(&mut bytes)).await.expect("it answers");
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) =
        text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?} {read:?}"));
    let mut lines = head.lines();
    let status =
        lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    Answered {
        status,
        headers: headers.filter(|(name, _)| name != "date").collect(),
        body: body.to_owned(),
    }
}

fn tag(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut tag = Hmac::<Sha256>::new_from_slice(key).unwrap();
    parts.iter().for_each(|part| tag.update(part));
    tag.finalize().into_bytes().to_vec()
}
