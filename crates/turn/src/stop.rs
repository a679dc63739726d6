//! The reasons why the host stops a turn.

use tokio::sync::watch;

use super::StopReason;

/// The reason why the host stopped the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Asked(StopReason),
    TimedOut,
    Silent,
    Output,
    Rounds,
    /// The turn has more events or tool uses than allowed.
    Excess,
}

/// Waits for a reason to stop.
pub(super) async fn stopped(
    stop: &mut watch::Receiver<Option<StopReason>>,
) -> Result<StopReason, watch::error::RecvError> {
    let reason = *stop.wait_for(Option::is_some).await?;
    reason.map_or_else(|| unreachable!("waited for a value"), Ok)
}
