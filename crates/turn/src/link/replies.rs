//! The replies that callers of a link wait for: outcomes of messages to running turns, and answers
//! to queries.

use std::collections::HashMap;

use tokio::sync::oneshot;

use super::QueryReply;
use aetheel_model::agent::{QueryResult, SessionKey, SessionReady, SteerOutcome};

/// The pending replies. If a caller stops waiting, its reply is dropped.
#[derive(Default)]
pub(super) struct Replies {
    /// The last key. Keys are unique among messages and queries.
    last_key: u32,
    steers: HashMap<u32, oneshot::Sender<SteerOutcome>>,
    queries: HashMap<u32, PendingQuery>,
}

struct PendingQuery {
    /// The session that the query is about.
    session: Option<SessionKey>,
    /// The agent's new id of that session, if it changed.
    native: Option<String>,
    reply_tx: oneshot::Sender<QueryReply>,
}

impl Replies {
    fn next_key(&mut self) -> u32 {
        self.last_key += 1;
        self.last_key
    }

    /// Skips a key that was used before a restart of the gateway.
    pub(super) fn skip(&mut self) {
        self.next_key();
    }

    /// Returns the last key.
    pub(super) fn last_key(&self) -> u32 {
        self.last_key
    }

    /// Skips the keys up to this one, which were used before a restart of the gateway.
    pub(super) fn skip_to(&mut self, key: u32) {
        self.last_key = self.last_key.max(key);
    }

    /// Registers a message to a running turn and returns its key.
    pub(super) fn steer(&mut self, reply_tx: oneshot::Sender<SteerOutcome>) -> u32 {
        let message = self.next_key();
        self.steers.insert(message, reply_tx);
        message
    }

    pub(super) fn steered(&mut self, message: u32, outcome: SteerOutcome) {
        if let Some(reply_tx) = self.steers.remove(&message) {
            let _ = reply_tx.send(outcome);
        }
    }

    /// Registers a query and returns its key.
    pub(super) fn query(
        &mut self,
        session: Option<SessionKey>,
        reply_tx: oneshot::Sender<QueryReply>,
    ) -> u32 {
        let query = self.next_key();
        self.queries.insert(query, PendingQuery { session, native: None, reply_tx });
        query
    }

    pub(super) fn answered(&mut self, query: u32, result: QueryResult) {
        if let Some(PendingQuery { native, reply_tx, .. }) = self.queries.remove(&query) {
            let _ = reply_tx.send(QueryReply { result, native });
        }
    }

    /// Stores the agent's new id of a session for the query about it. Returns false if no query is
    /// about this session.
    pub(super) fn session_ready(&mut self, ready: SessionReady) -> bool {
        let about = Some(ready.session);
        let pending = self.queries.values_mut().find(|pending| pending.session == about);
        pending.map(|pending| pending.native = Some(ready.native_id)).is_some()
    }

    /// Returns whether a query is still unanswered.
    pub(super) fn has_queries(&self) -> bool {
        !self.queries.is_empty()
    }
}
