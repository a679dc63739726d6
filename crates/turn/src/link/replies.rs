//! Replies that callers of a link wait for: the outcome of a message to a running turn, and the answer to a
//! query.

use std::collections::HashMap;

use tokio::sync::oneshot;

use super::QueryReply;
use aetheel_model::agent::{QueryResult, SessionKey, SessionReady, SteerOutcome};

/// See the module. A caller may give up; what it waited for is then dropped.
#[derive(Default)]
pub(super) struct Replies {
    /// Keys are unique among messages and queries.
    last_key: u32,
    steers: HashMap<u32, oneshot::Sender<SteerOutcome>>,
    queries: HashMap<u32, PendingQuery>,
}

/// A query without an answer.
struct PendingQuery {
    /// The session it is about.
    session: Option<SessionKey>,
    /// The agent's new id of that session.
    native: Option<String>,
    reply_tx: oneshot::Sender<QueryReply>,
}

impl Replies {
    fn next_key(&mut self) -> u32 {
        self.last_key += 1;
        self.last_key
    }

    /// A key was given in an earlier life of the gateway; nobody waits for its reply any more.
    pub(super) fn skip(&mut self) {
        self.next_key();
    }

    /// Returns the key of a message to a running turn.
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

    /// Returns the key of a query.
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

    /// Notes the agent's new id of a session for the query about it; false: there is none.
    pub(super) fn session_ready(&mut self, ready: SessionReady) -> bool {
        let about = Some(ready.session);
        let pending = self.queries.values_mut().find(|pending| pending.session == about);
        pending.map(|pending| pending.native = Some(ready.native_id)).is_some()
    }

    /// Whether a query has no answer yet.
    pub(super) fn has_queries(&self) -> bool {
        !self.queries.is_empty()
    }
}
