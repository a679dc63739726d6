//! Questions to a link outside a turn.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::super::link::{Link, LinkQuery, LinkRequest, QueryReply};
use aetheel_model::agent::{Descriptor, QueryKind, SessionKey};

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

/// Asks a question and waits for the answer.
///
/// # Errors
/// [`QueryError`] if the agent ends or needs more than `query_timeout`, at most [`QUERY_LIMIT`].
pub(super) async fn ask(
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
