//! Compacts a conversation on request. The server answers the request before it calls the model.
//! The result arrives as an event: the session was compacted, or an error (1.18.33).

use aetheel_backend_sdk::failure;
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::wit::{Failure, FailureKind, QueryResult};

use super::OpenCode;

/// A compaction in progress.
#[derive(Debug)]
pub(crate) struct Compaction {
    query: u32,
    /// Whether the server accepted the request.
    taken: bool,
    /// Whether the session was busy since the request.
    busy: bool,
    /// The result. It may arrive before the answer to the request.
    result: Option<CompactionEvent>,
}

/// An event about the session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CompactionEvent {
    Busy,
    Shortened,
    Failed(Failure),
    /// The session became idle.
    Idle,
}

impl Compaction {
    /// Creates the state for the query that requested it.
    pub(crate) fn new(query: u32) -> Self {
        Self { query, taken: false, busy: false, result: None }
    }

    pub(crate) fn query(&self) -> u32 {
        self.query
    }
}

impl OpenCode {
    /// Handles the server's answer to the request.
    pub(super) fn compaction_taken(&mut self, session: u32, context: &mut LinkContext) {
        if let Some(open) =
            self.sessions.get_mut(&session).and_then(|session| session.compaction.as_mut())
        {
            open.taken = true;
        }
        self.compaction_ends(session, context);
    }

    /// Handles an event that may belong to a compaction.
    pub(super) fn compaction_event(
        &mut self,
        native: &str,
        event: CompactionEvent,
        context: &mut LinkContext,
    ) {
        let Some(session) =
            self.sessions.values_mut().find(|session| session.native.as_deref() == Some(native))
        else {
            return;
        };
        let Some(open) = &mut session.compaction else { return };
        match event {
            CompactionEvent::Busy => open.busy = true,
            // A late event of the previous turn.
            CompactionEvent::Idle if !open.busy => {}
            event => drop(open.result.get_or_insert(event)),
        }
        let key = session.key;
        self.compaction_ends(key, context);
    }

    fn compaction_ends(&mut self, session: u32, context: &mut LinkContext) {
        let Some(session) = self.sessions.get_mut(&session) else { return };
        let Some(Compaction { query, result: Some(result), .. }) =
            session.compaction.take_if(|open| open.taken && open.result.is_some())
        else {
            return;
        };
        let why = match result {
            CompactionEvent::Shortened => return context.answer(query, QueryResult::Done),
            CompactionEvent::Failed(why) => why,
            CompactionEvent::Busy | CompactionEvent::Idle => {
                failure(FailureKind::Other, "OpenCode did not shorten the conversation")
            }
        };
        context.refuse(query, why);
    }
}
