//! The bot, with the methods that return its state. `connect` creates it, `listen` makes it receive
//! events, and `outlet` delivers answers.

mod connect;
pub(crate) mod dashboard_notices;
mod deferred;
mod listen;
pub(crate) mod listener;
mod outlet;
mod poster;
mod sharing;
mod unposted;
mod unread;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::connection::ConnectionContext;
use crate::delivery::context::BotContext;
use crate::delivery::preview;
use crate::inbound::InboundContext;
use crate::rest::RestError;
use aetheel_dispatch::TurnAnswer;
use aetheel_model::access::LanePermissions;
use aetheel_model::fold::Transcript;
use aetheel_model::id::{ChannelId, UserId};

/// A bot with an accepted token. Delivers answers, and receives events once [`Discord::listen`] is
/// called.
#[derive(Clone)]
pub struct Discord {
    pub(super) inner: Arc<BotContext>,
    pub(super) connection: Arc<ConnectionContext>,
    pub(super) inbound: Arc<InboundContext>,
}

impl Discord {
    /// Returns whether the bot can read messages that do not mention it.
    #[must_use]
    pub fn reads_everything(&self) -> bool {
        self.inner.identity.reads_all
    }

    /// Returns whether this node should be logged in. Always `true` if nodes do not share the bot.
    #[must_use]
    pub fn has_login(&self) -> bool {
        self.connection.logs_in.load(Ordering::SeqCst)
    }

    /// Returns the number of answers with 401, 403 or 429 in the last ten minutes. Discord bans an
    /// address after 10,000.
    #[must_use]
    pub fn invalid_requests(&self) -> usize {
        self.inner.api.rest.invalid_requests()
    }

    /// Returns whether all shards were connected within the last two seconds.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        let (up, all) = self.shards();
        up == all && all > 0
    }

    /// Returns how many shards were connected within the last two seconds, and how many there are.
    /// Both are 0 if this node should not be logged in.
    #[must_use]
    pub fn shards(&self) -> (usize, usize) {
        self.connection.shards.connected()
    }

    /// Returns the current permissions of a user in a channel; none if the channel does not exist
    /// or the user is not a member.
    ///
    /// # Errors
    /// [`RestError`] if Discord did not answer. The caller must then grant nothing.
    pub async fn user_permissions(
        &self,
        user: UserId,
        channel: ChannelId,
    ) -> Result<LanePermissions, RestError> {
        // A user of another platform has no permissions in Discord, and its channels are not here.
        let Some((user, channel)) = user.as_discord().zip(channel.as_discord()) else {
            return Ok(LanePermissions::default());
        };
        let (api, identity) = (&self.inner.api, &self.inner.identity);
        self.inbound.permission_cache.permissions_of(api, identity, user, channel).await
    }

    /// Renders a finished answer, or the text of `shown` if there is no answer yet, as Discord
    /// messages. Both must be without secrets. Leaves out the prompt of a command, questions, files
    /// and buttons.
    #[must_use]
    pub fn preview(&self, shown: &Transcript, answer: Option<&TurnAnswer>) -> Vec<String> {
        preview::preview(&self.inner.options, shown, answer)
    }
}
