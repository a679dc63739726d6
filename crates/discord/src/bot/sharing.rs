//! The bot as a part of a cluster: exchanges its events with other nodes, and moves channels with
//! the notes about them.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::Discord;
use super::poster::{DISCORD_EVENT, Poster};
use super::unposted::Unposted;
use crate::connection::gateway_event::GatewayEvent;
use crate::connection::receipt::Receipt;
use crate::connection::sharing::SharedEvents;
use crate::inbound::InboundEvent;
use crate::rest::RestError;
use aetheel_dispatch::{ChannelFilter, ClusterChat};
use aetheel_model::id::{ChannelId, MessageId};
use aetheel_runtime::supervisor;
use aetheel_store::workspace::{FileError, Workspace};

impl Discord {
    /// Starts to exchange the bot's events with the other nodes. The settings of the channels in
    /// `workspace` determine which events matter. Must be called after [`Discord::listen`].
    pub fn share_events(&self, events: SharedEvents, workspace: Workspace) {
        let SharedEvents { outgoing, incoming, nodes } = events;
        let _ = self.inbound.from_nodes.set(incoming);
        let unposted = Unposted::default();
        let poster = Poster::new(nodes, self.clone(), workspace, unposted.clone());
        let (to_post, posting) = mpsc::unbounded_channel();
        supervisor::spawn_finite("discord events", unposted.clone().follow(outgoing, to_post));
        supervisor::spawn_finite("waiting notices", unposted.report(self.clone()));
        supervisor::spawn_finite("messages to other nodes", poster.run(posting));
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
}

#[async_trait]
impl ClusterChat for Discord {
    fn receive(&self, kind: &str, body: &str, done: Box<dyn FnOnce() + Send>) -> bool {
        if kind != DISCORD_EVENT {
            return false;
        }
        let Ok(event) = serde_json::from_str::<GatewayEvent>(body) else { return false };
        if let Some(router) = self.inbound.from_nodes.get() {
            // Sending fails only if the program ends.
            let _ = router.send((event, Receipt::new(done)));
        }
        true
    }

    async fn report_closed(&self, body: &str, until: i64) {
        if let Ok(event) = serde_json::from_str(body) {
            self.notify_closed(&event, until).await;
        }
    }

    fn share_requests(&self, nodes: usize) {
        let all = self.inner.options.settings.requests_per_second;
        if all > 0 {
            self.inner.api.rest.set_rate((all / nodes.max(1)).max(1));
        }
    }

    fn is_idle_in(&self, is_theirs: &ChannelFilter<'_>) -> bool {
        let busy = self.inbound.channel_queues.lock();
        !busy.keys().any(|channel| is_theirs(ChannelId::discord(*channel)))
    }

    async fn export_channels(&self, is_theirs: &ChannelFilter<'_>) -> String {
        self.inner.notes.export(is_theirs).await
    }

    async fn forget_channels(&self, is_theirs: &ChannelFilter<'_>) -> Result<(), FileError> {
        self.inner.notes.forget(|channel| is_theirs(ChannelId::discord(channel))).await
    }

    async fn import_channels(
        &self,
        body: &str,
        is_theirs: &ChannelFilter<'_>,
    ) -> Result<Vec<ChannelId>, FileError> {
        let theirs = |channel| is_theirs(ChannelId::discord(channel));
        let channels = self.inner.notes.import(body, theirs).await?;
        let inner = Arc::clone(&self.inner);
        supervisor::spawn_finite("old questions", async move {
            inner.questions.close_stale(&inner.api, inner.options.time_limits.send).await
        });
        Ok(channels.into_iter().map(ChannelId::discord).collect())
    }

    fn mark_handled(&self, messages: &[(ChannelId, MessageId)]) -> Vec<ChannelId> {
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

    fn catch_up(&self, channels: Vec<ChannelId>) {
        if let Some(arrivals) = self.inbound.events.get() {
            let channels = channels.into_iter().filter_map(ChannelId::as_discord).collect();
            // Sending fails only if the program ends.
            let _ = arrivals.send((InboundEvent::CatchUp(channels), Receipt::none()));
        }
    }
}
