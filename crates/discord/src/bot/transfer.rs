//! Channels that move between nodes, with the notes about them.

use std::sync::Arc;

use super::Discord;
use crate::connection::receipt::Receipt;
use crate::inbound::InboundEvent;
use crate::rest::RestError;
use aetheel_model::id::{ChannelId, MessageId};
use aetheel_runtime::supervisor;
use aetheel_store::workspace::FileError;

impl Discord {
    /// Returns the notes about channels, as lines that [`Discord::import_channels`] reads on
    /// another node. Changes nothing.
    pub async fn export_channels(&self, is_theirs: impl Fn(ChannelId) -> bool) -> String {
        self.inner.notes.export(is_theirs).await
    }

    /// Removes the notes that [`Discord::export_channels`] returned, because another node has them.
    ///
    /// # Errors
    /// [`FileError`]. The notes are removed in memory, and the file is saved with the next note.
    pub async fn forget_channels(
        &self,
        is_theirs: impl Fn(ChannelId) -> bool,
    ) -> Result<(), FileError> {
        self.inner.notes.forget(|channel| is_theirs(ChannelId::discord(channel))).await
    }

    /// Imports the notes of another node about channels, from its file `discord.md` or some lines
    /// of it. If both nodes have notes about a channel, the later message counts, so the import can
    /// be repeated. Open questions are closed, because their turns have ended. Returns the
    /// channels, for [`Discord::catch_up`].
    ///
    /// # Errors
    /// [`FileError`]. The notes are used, but a crash may lose them.
    pub async fn import_channels(
        &self,
        body: &str,
        is_theirs: impl Fn(ChannelId) -> bool,
    ) -> Result<Vec<ChannelId>, FileError> {
        let theirs = |channel| is_theirs(ChannelId::discord(channel));
        let channels = self.inner.notes.import(body, theirs).await?;
        let inner = Arc::clone(&self.inner);
        supervisor::spawn_finite("old questions", async move {
            inner.questions.close_stale(&inner.api, inner.options.time_limits.send).await
        });
        Ok(channels.into_iter().map(ChannelId::discord).collect())
    }

    /// Returns whether no event of these channels is being processed and none of them catches up.
    #[must_use]
    pub fn is_idle_in(&self, is_theirs: impl Fn(ChannelId) -> bool) -> bool {
        let busy = self.inbound.channel_queues.lock();
        !busy.keys().any(|channel| is_theirs(ChannelId::discord(*channel)))
    }

    /// Records messages as handled, each with its channel. Returns the channels without earlier
    /// notes. Ignores messages of other chat platforms.
    #[must_use]
    pub fn mark_handled(&self, messages: &[(ChannelId, MessageId)]) -> Vec<ChannelId> {
        let mut new = Vec::new();
        for (id, message) in messages {
            let place = id.as_discord().zip(message.as_discord());
            let Some((channel, message)) = place else { continue };
            if self.inner.notes.last_handled(channel).is_none() {
                new.push(*id);
            }
            self.inner.notes.mark_handled(channel, message);
        }
        new
    }

    /// Handles the messages in these channels since the last handled one, which no node may have
    /// received while the channels moved. Does nothing before [`Discord::listen`].
    pub fn catch_up(&self, channels: Vec<ChannelId>) {
        if let Some(arrivals) = self.inbound.events.get() {
            let channels = channels.into_iter().filter_map(ChannelId::as_discord).collect();
            // Sending fails only if the program ends.
            let _ = arrivals.send((InboundEvent::CatchUp(channels), Receipt::none()));
        }
    }

    /// Returns the channel that a thread belongs to. Returns the channel itself if it is not a
    /// thread or Discord does not know it. Asks Discord unless the channel is known; takes at most
    /// three seconds.
    ///
    /// # Errors
    /// [`RestError`] if Discord cannot answer now.
    pub async fn root_channel(&self, channel: ChannelId) -> Result<ChannelId, RestError> {
        let Some(id) = channel.as_discord() else { return Ok(channel) };
        match self.inbound.lookups.channel(&self.inner.api, id).await {
            Ok(found) => Ok(found.thread_parent().map_or(channel, ChannelId::discord)),
            Err(error) if error == RestError::TokenRefused || error.is_temporary() => Err(error),
            Err(_) => Ok(channel),
        }
    }

    /// Limits this node to its share of the bot's requests, which `nodes` nodes divide equally.
    pub fn share_requests(&self, nodes: usize) {
        let all = self.inner.options.requests_per_second;
        if all > 0 {
            self.inner.api.rest.set_rate((all / nodes.max(1)).max(1));
        }
    }
}
