//! Somebody who wants to use the bot, and whether the operator's lists let them in.

use super::Identity;
use crate::access::{self, Access, Request};

/// Somebody who wants to use the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asker {
    /// The Discord id of the user.
    pub(super) user: u64,
    /// The user's roles in the guild; empty in direct messages.
    pub(super) roles: Vec<u64>,
    /// The channel or thread.
    pub(super) channel: u64,
    /// The channel the thread belongs to.
    pub(super) parent: Option<u64>,
    /// None: a direct message.
    pub(super) guild: Option<u64>,
    /// Whether the user owns the bot's application, alone or in a team.
    pub(super) owner: bool,
}

impl Identity {
    /// Decides from memory whether somebody may use the bot there.
    ///
    /// # Errors
    /// Why not, for the operator's log.
    pub(super) fn admit(&self, asker: &Asker) -> Result<(), String> {
        let owners = if asker.owner { vec![asker.user] } else { Vec::new() };
        let request = Request {
            author: asker.user,
            is_bot: false,
            is_webhook: false,
            is_self: false,
            roles: &asker.roles,
            channel: asker.channel,
            parent_channel: asker.parent,
            guild: asker.guild,
            owners: &owners,
        };
        match access::decide(&self.allowed, &request) {
            Access::Allowed => Ok(()),
            Access::Ignored(why) => Err(why.to_string()),
            Access::Refused(why) => Err(why.to_string()),
        }
    }
}
