//! Replaces a holder that confines agents in another way than the gateway's settings demand.

use std::path::Path;
use std::sync::Arc;

use tokio::time::{Duration, Instant, sleep};

use super::connection::HolderConnection;
use super::holder_name;
use super::protocol::HolderRequest;
use super::socket::{self, HolderError};
use crate::Sandbox;

/// How long a holder may take to end its agents and exit.
const END_TIMEOUT: Duration = Duration::from_secs(15);
/// How often the holder's socket is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Returns the sandbox of a holder if it differs from this one. A holder of an earlier version uses
/// the sandbox that each request names.
pub(super) fn other_sandbox(connection: &HolderConnection, sandbox: &Sandbox) -> Option<Sandbox> {
    let holder = connection.hello.sandbox.clone()?;
    (holder.setting() != sandbox.setting()).then_some(holder)
}

/// Ends the agents of a holder, and waits until it has exited.
///
/// # Errors
/// [`HolderError::OtherSandbox`] if the holder does not exit, because a service manager runs it.
pub(super) async fn retire(
    connection: Arc<HolderConnection>,
    state: &Path,
    holder: &Sandbox,
    gateway: &Sandbox,
) -> Result<(), HolderError> {
    let (holder, gateway) = (holder.setting(), gateway.setting());
    let survivors = connection.survivors().await;
    if !survivors.is_empty() {
        holder_name::invalidate(state);
        tracing::warn!(
            agents = survivors.len(),
            before = holder,
            now = gateway,
            "agents that outlived the gateway are ended, because AGENT_SANDBOX was changed"
        );
    }
    for run in survivors {
        connection.send(&HolderRequest::End { run: run.run });
    }
    let leaves = connection.hello.leaves_when_empty;
    connection.leave().await;
    drop(connection);
    let until = Instant::now() + END_TIMEOUT;
    while leaves && Instant::now() < until {
        if socket::connect(state).is_err() {
            return Ok(());
        }
        sleep(POLL_INTERVAL).await;
    }
    Err(HolderError::OtherSandbox { folder: state.to_owned(), holder, gateway })
}
