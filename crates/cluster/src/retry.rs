//! Repeats calls of the database.

use std::future::pending;
use std::time::Duration;

use crate::ClusterError;

/// Delay before the database is called again.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// Calls the database, and repeats the call while the database cannot be reached or refuses this
/// node. Returns `None` if the database can never accept the values of the call. Never returns once
/// another node has replaced this one, because the program is about to end.
pub(crate) async fn until_answered<T, F>(call: impl Fn() -> F) -> Option<T>
where
    F: Future<Output = Result<T, ClusterError>>,
{
    loop {
        match call().await {
            Ok(answer) => return Some(answer),
            Err(ClusterError::Away(why) | ClusterError::Untrusted(why)) => {
                tracing::debug!(why, "a call of the cluster's database failed; trying again");
                tokio::time::sleep(RETRY_DELAY).await;
            }
            Err(ClusterError::Fenced) => pending().await,
            Err(ClusterError::Refused(why)) => {
                tracing::error!(why, "the database of the cluster refused an operation");
                return None;
            }
        }
    }
}
