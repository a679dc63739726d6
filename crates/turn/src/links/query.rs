//! Questions to a link outside a turn.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Links;
use super::kept::FoundSession;
use crate::link::{Link, LinkQuery, LinkRequest, QueryReply};
use aetheel_model::agent::descriptor::LinkSharing;
use aetheel_model::agent::{Descriptor, QueryKind, QueryResult, SessionKey};
use aetheel_model::event::Lane;
use aetheel_recording::Backend;

/// Maximum wait for an answer.
const QUERY_LIMIT: Duration = Duration::from_secs(120);

/// The reason why a question outside a turn got no answer. The texts are for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The backend starts its agent for each turn.
    #[error("backend `{0}` starts its agent for each turn and answers no questions outside a turn")]
    NoAgent(String),
    /// The agent ended before it answered.
    #[error("the agent of backend `{0}` ended without an answer")]
    Ended(String),
    /// The agent did not answer in time.
    #[error("the agent of backend `{backend}` gave no answer within {} s", limit.as_secs())]
    Timeout {
        /// The name of the backend.
        backend: String,
        /// The time that the agent had.
        limit: Duration,
    },
}

impl Links {
    /// Asks a backend a question outside a turn, over an open link or one opened for the question.
    ///
    /// # Errors
    /// [`QueryError`] if the backend starts its agent for each turn, or if no answer arrived in
    /// time.
    pub async fn query(
        &self,
        backend: &Arc<dyn Backend>,
        kind: QueryKind,
        query_timeout: Duration,
    ) -> Result<QueryResult, QueryError> {
        let descriptor = backend.descriptor();
        if descriptor.sharing == LinkSharing::Turn {
            return Err(QueryError::NoAgent(descriptor.name.clone()));
        }
        let (link, temporary) = match self.0.kept.any_open(&descriptor.name) {
            Some(link) => (link, false),
            None => {
                let mut id = uuid::Uuid::new_v4().simple().to_string();
                id.truncate(8);
                (self.open(&id, backend, self.0.host.cwd.clone()), true)
            }
        };
        let reply = ask(&link, None, kind, query_timeout, descriptor).await;
        if temporary {
            link.send(LinkRequest::Retire);
        }
        reply.map(|reply| reply.result)
    }

    /// Sends a query about the session that a lane has open. Returns the answer and the agent's new
    /// id of the session if the id changed, or `None` if the session is not open. Opens no link.
    ///
    /// # Errors
    /// [`QueryError`] if no answer arrived in time.
    pub async fn query_session(
        &self,
        lane: &Lane,
        backend: &Arc<dyn Backend>,
        native: &str,
        kind: QueryKind,
        query_timeout: Duration,
    ) -> Result<Option<(QueryResult, Option<String>)>, QueryError> {
        let descriptor = backend.descriptor();
        let found = self.0.kept.find_session(&descriptor.name, lane, native);
        let Some(FoundSession { key, link, session }) = found else { return Ok(None) };
        let reply = ask(&link, Some(session), kind, query_timeout, descriptor).await?;
        if let Some(native) = &reply.native {
            self.0.kept.set_native(&key, lane, session, native);
        }
        Ok(Some((reply.result, reply.native)))
    }
}

/// Asks a question and waits for the answer.
///
/// # Errors
/// [`QueryError`] if the agent ends or needs more than `query_timeout`, at most [`QUERY_LIMIT`].
async fn ask(
    link: &Link,
    session: Option<SessionKey>,
    kind: QueryKind,
    query_timeout: Duration,
    descriptor: &Descriptor,
) -> Result<QueryReply, QueryError> {
    let (reply_tx, reply) = oneshot::channel();
    link.send(LinkRequest::Query(LinkQuery { session, kind, reply_tx }));
    let limit = query_timeout.min(QUERY_LIMIT);
    match timeout(limit, reply).await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(_)) => Err(QueryError::Ended(descriptor.name.clone())),
        Err(_) => Err(QueryError::Timeout { backend: descriptor.name.clone(), limit }),
    }
}
