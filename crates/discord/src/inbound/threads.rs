//! Decides which messages without a mention are for the bot.

use super::InboundProcessor;
use crate::connection::gateway_event::Parent;
use crate::ids;
use crate::rest::RestError;
use crate::wire::{Channel, Message};

impl InboundProcessor {
    /// Returns whether a message without a mention is for the bot: in a channel where the bot reads
    /// everything, or in a thread that the bot opened or was addressed in. A message that mentions
    /// or answers another person is not for the bot.
    ///
    /// # Errors
    /// [`RestError`] if Discord cannot answer now.
    pub(super) async fn belongs_to_us(
        &self,
        message: &Message,
        parent: Parent,
    ) -> Result<bool, RestError> {
        let to_others = !message.mentions.is_empty() || message.referenced_message.is_some();
        if !self.inner.identity.reads_all || message.guild_id.is_none() || to_others {
            return Ok(false);
        }
        let (channel, me) = (message.channel_id, self.inner.identity.id);
        if self.services.settings.reads_all(&ids::lane(channel)).await {
            return Ok(true);
        }
        let parent = match parent {
            Parent::Known(parent) => parent,
            Parent::Unknown => {
                self.visible_channel(channel).await?.and_then(|channel| channel.thread_parent())
            }
        };
        let Some(parent) = parent else { return Ok(false) };
        // The dispatcher does not know the parent of a thread in which the bot was never addressed.
        if self.services.settings.reads_all(&ids::lane(parent)).await {
            return Ok(true);
        }
        if self.services.settings.knows(&ids::lane(channel)).await {
            return Ok(true);
        }
        Ok(self.visible_channel(channel).await?.is_some_and(|channel| channel.owner_id == Some(me)))
    }

    /// Returns a channel, or `None` if it does not exist or the bot may not see it.
    async fn visible_channel(&self, channel: u64) -> Result<Option<Channel>, RestError> {
        match self.lookups.channel(&self.inner.api, channel).await {
            Ok(channel) => Ok(Some(channel)),
            Err(error) if error.is_temporary() => Err(error),
            Err(_) => Ok(None),
        }
    }
}
