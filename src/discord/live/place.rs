//! Where an answer goes.

use crate::discord::interactions::InteractionToken;

/// Where an answer goes.
#[derive(Clone)]
pub(in crate::discord) struct Place {
    pub(in crate::discord) channel: u64,
    /// The message it answers.
    pub(in crate::discord) reply_to: Option<u64>,
    /// The command it answers.
    pub(in crate::discord) token: Option<InteractionToken>,
    /// Whether it answers a command, whose own message comes first; without a token it cannot be
    /// reached any more.
    pub(in crate::discord) command: bool,
    /// The question, above the first message that says something about it; none: people see it
    /// anyway.
    pub(in crate::discord) heading: Option<String>,
}

impl Place {
    /// A channel, in which nothing in particular is answered.
    pub(in crate::discord) fn of(channel: u64) -> Self {
        Self { channel, reply_to: None, token: None, command: false, heading: None }
    }
}
