//! Questions to a link outside a turn.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::super::link::{Link, LinkQuery, LinkRequest, QueryReply};
use aetheel_model::agent::{Descriptor, QueryKind, SessionKey};

/// Maximum wait for an answer.
const QUERY_LIMIT: Duration = Duration::from_secs(120);

pub(super) async fn ask(
    link: &Link,
    session: Option<SessionKey>,
    kind: QueryKind,
    query_timeout: Duration,
    descriptor: &Descriptor,
) -> Result<QueryReply, String> {
    let (reply_tx, reply) = oneshot::channel();
    link.send(LinkRequest::Query(LinkQuery { session, kind, reply_tx }));
    let limit = query_timeout.min(QUERY_LIMIT);
    match timeout(limit, reply).await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(_)) => {
            Err(format!("the agent of backend `{}` ended without an answer", descriptor.name))
        }
        Err(_) => Err(format!(
            "the agent of backend `{}` gave no answer within {} s",
            descriptor.name,
            limit.as_secs()
        )),
    }
}
