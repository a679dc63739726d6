//! Discord as the [`Outlet`] of the dispatcher, for answers, questions and notices.

use std::sync::Arc;

use async_trait::async_trait;

use super::Discord;
use crate::delivery::live::ReplyTarget;
use crate::delivery::notices;
use crate::delivery::null_reply::NullReply;
use crate::delivery::reply::ChannelReply;
use crate::delivery::threads;
use crate::ids::{self, DiscordOrigin};
use aetheel_dispatch::{
    ChannelError, DeliveryError, Notice, OpenedThread, Outlet, PriorDelivery, RecapMessage, Reply,
    WaitTopic,
};
use aetheel_model::access::LanePermissions;
use aetheel_model::event::{AttachedFile, Event, EventOrigin};
use aetheel_model::id::{ChannelId, MessageId, UserId};

#[async_trait]
impl Outlet for Discord {
    fn open(&self, event: &Event) -> Box<dyn Reply> {
        self.open_tracked(event, PriorDelivery::untracked())
    }

    fn open_tracked(&self, event: &Event, traces: PriorDelivery) -> Box<dyn Reply> {
        let origin = ids::origin(&event.origin);
        let channel = ids::answer_channel(event, self.inner.options.settings.output_channel);
        let place = channel.map(|channel| match origin {
            DiscordOrigin::Message { message, .. } => {
                ReplyTarget { reply_to: Some(message), ..ReplyTarget::in_channel(channel) }
            }
            DiscordOrigin::Interaction { .. } => self.inner.command_target(channel, event),
            _ => ReplyTarget::in_channel(channel),
        });
        let marker = match origin {
            DiscordOrigin::Message { message: id, .. }
            | DiscordOrigin::Interaction { interaction: id, .. } => {
                self.inner.queue_markers.take(id)
            }
            _ => None,
        };
        if let (DiscordOrigin::Message { channel, message }, None) = (origin, &marker) {
            self.inner.remove_stale_marker(event, channel, message);
        }
        let unasked = matches!(event.origin, EventOrigin::Internal { .. });
        match place {
            Some(place) => Box::new(ChannelReply::begin(
                &self.inner,
                place,
                marker,
                (!unasked).then_some(event.sequence),
                traces,
            )),
            None => Box::new(NullReply(event.lane.clone())),
        }
    }

    async fn probe(&self) {
        // Like an answer, this spawns a task and locks the state that all requests share, so it
        // does not return if either is blocked.
        let inner = Arc::clone(&self.inner);
        let _ = tokio::spawn(async move { inner.api.rest.invalid_requests() }).await;
    }

    async fn fetch(&self, attached: &AttachedFile, limit: u64) -> Result<Vec<u8>, String> {
        self.inner.files.fetch(attached, limit).await.map_err(|error| error.to_string())
    }

    async fn recap(&self, event: &Event) -> Vec<RecapMessage> {
        self.inner.recap(event).await
    }

    async fn permissions(
        &self,
        user: UserId,
        channel: ChannelId,
    ) -> Result<LanePermissions, ChannelError> {
        let found = self.user_permissions(user, channel).await;
        found.map_err(|error| ChannelError(error.to_string()))
    }

    async fn read_channel(
        &self,
        channel: ChannelId,
        limit: usize,
    ) -> Result<Vec<RecapMessage>, ChannelError> {
        let elsewhere = || ChannelError("it is not a channel of Discord".to_owned());
        let channel = channel.as_discord().ok_or_else(elsewhere)?;
        let read = self.inner.latest_messages(channel, limit).await;
        read.map_err(|error| ChannelError(error.to_string()))
    }

    async fn notify(&self, notice: Notice) -> Result<(), DeliveryError> {
        notices::post(&self.inner, notice).await.map(drop)
    }

    async fn announce_wait(&self, wait: WaitTopic, notice: Notice) -> Result<(), DeliveryError> {
        notices::announce_wait(&self.inner, &wait, notice).await
    }

    fn end_wait(&self, topic: &str, line: &str) {
        notices::end_wait(&self.inner, topic, line);
    }

    async fn open_thread(
        &self,
        event: &Event,
        traces: PriorDelivery,
    ) -> Result<OpenedThread, String> {
        threads::open(&self.inner, event, traces).await.map_err(|error| error.to_string())
    }

    async fn give_up_reply(
        &self,
        event: &Event,
        notice: Notice,
        traces: PriorDelivery,
    ) -> Result<(), DeliveryError> {
        notices::give_up(&self.inner, event, notice, &traces).await
    }

    async fn remove_waiting_marker(&self, event: &Event) {
        self.inner.clear_marker(event).await;
    }

    fn continue_questions(&self, ids: &[String]) {
        self.inner.questions.keep_open(ids);
    }

    fn close_question(&self, id: &str) {
        let (inner, id) = (Arc::clone(&self.inner), id.to_owned());
        tokio::spawn(async move {
            inner.questions.close_resuming(&inner.api, &id, inner.options.time_limits.send).await;
        });
    }

    async fn remove_offer_button(&self, channel: ChannelId, message: MessageId) {
        if let Some((channel, message)) = channel.as_discord().zip(message.as_discord()) {
            notices::remove_button(&self.inner, channel, message).await;
        }
    }
}
