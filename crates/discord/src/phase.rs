//! The state of the bot's first login.

use super::start_error::StartError;

/// The state of the bot's first login.
#[derive(Clone, Debug)]
pub(super) enum ConnectionPhase {
    Starting,
    /// Logged in at least once.
    Ready,
    /// The login failed and needs an action of the operator.
    Failed(StartError),
}
