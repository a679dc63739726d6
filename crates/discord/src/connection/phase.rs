//! The state of the bot's first login.

use crate::setup::start_error::StartError;

/// The state of the bot's first login.
#[derive(Clone, Debug)]
pub(crate) enum ConnectionPhase {
    Starting,
    /// Logged in at least once.
    Ready,
    /// The login failed and needs an action of the operator.
    Failed(StartError),
}
