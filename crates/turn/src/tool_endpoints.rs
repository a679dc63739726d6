//! Finds the link to which a call of the host's MCP server belongs.
//!
//! Agents whose protocol cannot carry calls of host tools use that server. Its address contains a
//! secret of the link and the session. `web` runs the server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot};

use aetheel_model::agent::{HostTool, SessionKey};

/// The largest number of a call.
const MAX_CALL_NUMBER: u32 = (1 << 30) - 1;

/// The SHA-256 of a secret.
type SecretDigest = [u8; 32];

/// The links whose agents may call tools through the MCP server. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ToolEndpoints(Arc<EndpointTable>);

#[derive(Debug, Default)]
struct EndpointTable {
    /// The address of the MCP server, or `None` if the server cannot start.
    address: OnceLock<Option<SocketAddr>>,
    /// Whether links that outlived the gateway are still missing in `links`.
    restoring: AtomicBool,
    /// Only digests are compared, so the time of a search reveals nothing about a secret.
    links: Mutex<HashMap<SecretDigest, mpsc::UnboundedSender<EndpointRequest>>>,
}

/// A request of an agent to its link.
#[derive(Debug)]
pub(crate) enum EndpointRequest {
    /// Return the tools that a session may call.
    List(SessionKey, oneshot::Sender<Vec<HostTool>>),
    /// Carry out a call.
    Call(ServedCall),
}

/// A call that arrived at the MCP server.
#[derive(Debug)]
pub(crate) struct ServedCall {
    pub(crate) session: SessionKey,
    /// The number of the request. A repeated request has the same number.
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) input: String,
    pub(crate) reply_tx: oneshot::Sender<ToolReply>,
}

/// The result of a call, for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolReply {
    /// The result, or the reason why the call failed.
    pub text: String,
    /// Whether the call failed.
    pub failed: bool,
}

/// A session whose agent calls tools through the MCP server.
#[derive(Clone, Debug)]
pub struct ToolEndpoint {
    link: mpsc::UnboundedSender<EndpointRequest>,
    session: SessionKey,
}

impl ToolEndpoints {
    /// Sets the address of the MCP server. Before that, links give no address to their agents. Only
    /// the first address counts.
    pub fn set_address(&self, address: SocketAddr) {
        // An error means that the address is known.
        let _ = self.0.address.set(Some(address));
    }

    /// Notes that the MCP server cannot start. Turns then offer no tools, because the agents that
    /// need the server could not start.
    pub fn set_unavailable(&self) {
        let _ = self.0.address.set(None);
    }

    /// Returns whether the MCP server cannot start.
    #[must_use]
    pub fn are_unavailable(&self) -> bool {
        matches!(self.0.address.get(), Some(None))
    }

    /// Notes whether links that outlived the gateway are still to be added.
    pub(crate) fn set_restoring(&self, restoring: bool) {
        self.0.restoring.store(restoring, Ordering::Release);
    }

    /// Returns whether a link that is not found may still be added.
    #[must_use]
    pub fn are_restoring(&self) -> bool {
        self.0.restoring.load(Ordering::Acquire)
    }

    /// Returns the address of a link without the session, or `None` if there is no server.
    pub(crate) fn address_of(&self, secret: &str) -> Option<String> {
        self.0
            .address
            .get()
            .copied()
            .flatten()
            .map(|address| format!("http://{address}/mcp/{secret}"))
    }

    /// Adds a link, or replaces the one with this secret. Removes links that have ended.
    pub(crate) fn add(&self, secret: &str, link: mpsc::UnboundedSender<EndpointRequest>) {
        let mut links = self.0.links.lock();
        links.retain(|_, link| !link.is_closed());
        links.insert(digest(secret), link);
    }

    /// Returns the session of a link with this secret. The session may not exist.
    #[must_use]
    pub fn find(&self, secret: &str, session: SessionKey) -> Option<ToolEndpoint> {
        let link = self.0.links.lock().get(&digest(secret)).cloned()?;
        Some(ToolEndpoint { link, session })
    }
}

impl ToolEndpoint {
    /// Returns the tools of the session's latest turn.
    pub async fn tools(&self) -> Vec<HostTool> {
        let (reply_tx, reply) = oneshot::channel();
        self.send(EndpointRequest::List(self.session, reply_tx));
        reply.await.unwrap_or_default()
    }

    /// Calls a tool and waits for its result. If the future is dropped, the call continues, and a
    /// call with the same number gets its result. Only the lower 30 bits of the number count.
    pub async fn call(&self, number: u32, name: String, input: String) -> ToolReply {
        let (reply_tx, reply) = oneshot::channel();
        let session = self.session;
        let number = number & MAX_CALL_NUMBER;
        self.send(EndpointRequest::Call(ServedCall { session, number, name, input, reply_tx }));
        reply.await.unwrap_or_else(|_| ToolReply {
            text: "the turn of this call has ended".to_owned(),
            failed: true,
        })
    }

    /// Sends a request. If the link has ended, the request is dropped, which closes its channel.
    fn send(&self, request: EndpointRequest) {
        let _ = self.link.send(request);
    }
}

fn digest(secret: &str) -> SecretDigest {
    Sha256::digest(secret).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_found_by_its_secret_only_and_an_ended_one_is_removed() {
        let endpoints = ToolEndpoints::default();
        let (sender, receiver) = mpsc::unbounded_channel();
        endpoints.add("secret", sender);
        assert!(endpoints.find("secret", 1).is_some());
        assert!(endpoints.find("secre", 1).is_none() && endpoints.find("", 1).is_none());
        drop(receiver);
        let (other, _receiver) = mpsc::unbounded_channel();
        endpoints.add("other", other);
        assert!(endpoints.find("secret", 1).is_none());
    }

    #[tokio::test]
    async fn a_call_of_a_link_that_has_ended_fails() {
        let endpoints = ToolEndpoints::default();
        let (sender, receiver) = mpsc::unbounded_channel();
        endpoints.add("secret", sender);
        let endpoint = endpoints.find("secret", 1).expect("added");
        drop(receiver);
        assert!(endpoint.call(1, "x".to_owned(), String::new()).await.failed);
        assert!(endpoint.tools().await.is_empty());
    }

    #[test]
    fn the_address_is_known_once_the_server_runs() {
        let endpoints = ToolEndpoints::default();
        assert_eq!(endpoints.address_of("s"), None);
        endpoints.set_address(([127, 0, 0, 1], 9).into());
        assert_eq!(endpoints.address_of("s").as_deref(), Some("http://127.0.0.1:9/mcp/s"));
    }
}
