//! The port through which people reach into a running turn.

use tokio::sync::oneshot;

use crate::agent::{Part, SteerOutcome};

/// A further message for a running turn. Sent only to backends with the feature `steer`.
#[derive(Debug)]
pub struct Steering {
    /// The message, neutralised.
    pub parts: Vec<Part>,
    /// Told what became of it. Dropped unused when the turn ends first: the message did not reach the agent.
    pub outcome: oneshot::Sender<SteerOutcome>,
}
