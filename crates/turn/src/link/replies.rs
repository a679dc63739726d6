//! The keys of messages to running turns and of queries.

use std::collections::BTreeMap;

use aetheel_model::agent::{SessionKey, SessionReady};

#[derive(Default)]
pub(super) struct ReplyKeys {
    /// The last key. Keys are unique among messages and queries.
    last: u32,
    queries: BTreeMap<u32, OpenQuery>,
}

struct OpenQuery {
    /// The session that the query is about.
    session: Option<SessionKey>,
    /// The agent's new id of that session, if it changed.
    native: Option<String>,
}

impl ReplyKeys {
    /// Returns the key of the next message or query.
    pub(super) fn next(&self) -> u32 {
        self.last + 1
    }

    pub(super) fn last(&self) -> u32 {
        self.last
    }

    /// Skips the keys up to this one, which were used.
    pub(super) fn skip_to(&mut self, key: u32) {
        self.last = self.last.max(key);
    }

    pub(super) fn begin_query(&mut self, query: u32, session: Option<SessionKey>) {
        self.skip_to(query);
        self.queries.insert(query, OpenQuery { session, native: None });
    }

    /// Ends a query. Returns the agent's new id of its session, if it changed.
    pub(super) fn end_query(&mut self, query: u32) -> Option<String> {
        self.queries.remove(&query)?.native
    }

    /// Stores the agent's new id of a session for the query about it. Returns false if no query is
    /// about this session.
    pub(super) fn session_ready(&mut self, ready: SessionReady) -> bool {
        let about = Some(ready.session);
        let open = self.queries.values_mut().find(|query| query.session == about);
        open.map(|query| query.native = Some(ready.native_id)).is_some()
    }

    /// Returns whether a query is unanswered.
    pub(super) fn has_queries(&self) -> bool {
        !self.queries.is_empty()
    }

    /// Forgets the open queries, because nobody waits for their answers after a restart of the
    /// gateway.
    pub(super) fn forget_queries(&mut self) {
        self.queries.clear();
    }
}
