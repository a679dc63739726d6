//! How far the bot is with its first login.

use super::StartError;

/// How far the connection is.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    Starting,
    /// Logged in at least once.
    Ready,
    /// It will not work without a person.
    Failed(StartError),
}
