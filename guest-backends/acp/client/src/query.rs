//! Answers the host's queries.

use aetheel_backend_sdk::failure;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::wit::{FailureKind, Query, QueryKind, QueryResult, SessionInfo};

use crate::agent::Agent;
use crate::client::{Call, Client};
use crate::failure;

impl<A: Agent> Client<A> {
    /// Answers a query, or forwards it to the agent. Starts the agent if necessary.
    pub(crate) fn queried(&mut self, query: Query, context: &mut LinkContext) {
        let unsupported = |why| QueryResult::Failed(failure(FailureKind::Unsupported, why));
        let answer = match &query.kind {
            QueryKind::Compact => unsupported("the agent does not support this query"),
            _ if context.is_leaving() => unsupported("the agent is leaving"),
            _ if !context.is_ready() => return context.later(query),
            QueryKind::Health => QueryResult::Health(format!("{} answers", self.can.name)),
            QueryKind::Models => {
                let models = self
                    .sessions
                    .values()
                    .map(|session| session.config.models())
                    .find(|models| !models.is_empty());
                models.map_or_else(
                    || unsupported("the agent reports its models when a conversation is open"),
                    QueryResult::Models,
                )
            }
            QueryKind::Sessions if self.can.list => {
                return self.calls.request(
                    context.proc(),
                    "session/list",
                    "{}",
                    Call::List(query.query),
                    context.out(),
                );
            }
            QueryKind::Sessions => unsupported("the agent does not support this query"),
        };
        context.answer(query.query, answer);
    }
}

pub(crate) fn listed(result: Result<&Value, &Value>) -> QueryResult {
    let read = |session: &Value| {
        let text = |key| session.text(key).map(str::to_owned);
        Some(SessionInfo {
            native_id: text("sessionId")?,
            title: text("title"),
            cwd: text("cwd"),
            updated: text("updatedAt"),
        })
    };
    match result {
        Ok(result) => {
            QueryResult::Sessions(result.list("sessions").iter().filter_map(read).collect())
        }
        Err(error) => QueryResult::Failed(failure::failure(error)),
    }
}
