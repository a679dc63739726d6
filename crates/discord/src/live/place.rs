//! Where an answer goes.

use crate::interactions::InteractionToken;

/// Where an answer goes.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) channel: u64,
    /// The message it answers.
    pub(crate) reply_to: Option<u64>,
    /// The command it answers.
    pub(crate) token: Option<InteractionToken>,
    /// Whether it answers a command, whose own message comes first; without a token it cannot be
    /// reached any more.
    pub(crate) command: bool,
    /// The question, above the first message that says something about it; none: people see it
    /// anyway.
    pub(crate) heading: Option<String>,
}

impl Place {
    /// A channel, in which nothing in particular is answered.
    pub(crate) fn of(channel: u64) -> Self {
        Self { channel, reply_to: None, token: None, command: false, heading: None }
    }
}
