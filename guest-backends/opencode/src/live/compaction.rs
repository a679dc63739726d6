//! Shortening a conversation on request. The server takes the request and calls it done before it
//! asks the model; what became of it comes as events: that the session was shortened, or an error
//! (1.18.33).

use aetheel_backend_sdk::failure;
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::wit::{Failure, FailureKind, QueryResult};

use super::OpenCode;

/// A conversation that is being shortened.
#[derive(Debug)]
pub(crate) struct Compaction {
    query: u32,
    /// The server took the request.
    taken: bool,
    /// The session is at work since.
    busy: bool,
    /// The last event about it; it may come before the answer to the request.
    told: Option<Told>,
}

/// An event about it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    Busy,
    Shortened,
    Failed(Failure),
    /// The session has nothing to do any more.
    Idle,
}

impl Compaction {
    /// The server is asked, for this query.
    pub(crate) fn new(query: u32) -> Self {
        Self { query, taken: false, busy: false, told: None }
    }

    pub(crate) fn query(&self) -> u32 {
        self.query
    }
}

impl OpenCode {
    /// The server took the request of a session.
    pub(super) fn compaction_taken(&mut self, session: u32, context: &mut LinkContext) {
        if let Some(open) =
            self.sessions.get_mut(&session).and_then(|session| session.compaction.as_mut())
        {
            open.taken = true;
        }
        self.compaction_ends(session, context);
    }

    /// An event says something that may be about it.
    pub(super) fn compaction_told(&mut self, native: &str, told: Told, context: &mut LinkContext) {
        let Some(session) =
            self.sessions.values_mut().find(|session| session.native.as_deref() == Some(native))
        else {
            return;
        };
        let Some(open) = &mut session.compaction else { return };
        match told {
            Told::Busy => open.busy = true,
            // Late words about the turn before.
            Told::Idle if !open.busy => {}
            told => drop(open.told.get_or_insert(told)),
        }
        let key = session.key;
        self.compaction_ends(key, context);
    }

    fn compaction_ends(&mut self, session: u32, context: &mut LinkContext) {
        let Some(session) = self.sessions.get_mut(&session) else { return };
        let Some(Compaction { query, told: Some(told), .. }) =
            session.compaction.take_if(|open| open.taken && open.told.is_some())
        else {
            return;
        };
        let why = match told {
            Told::Shortened => return context.answer(query, QueryResult::Done),
            Told::Failed(why) => why,
            Told::Busy | Told::Idle => failure(
                FailureKind::Other,
                "OpenCode ended without having shortened the conversation",
            ),
        };
        context.refuse(query, why);
    }
}
