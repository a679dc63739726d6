//! Messages in channels that no node of the cluster serves yet.

use std::time::Duration;

use tracing::debug;

use super::Discord;
use crate::access::lookups::LOOK_UP_TIMEOUTS;
use crate::connection::gateway_event::{EventContent, GatewayEvent, Parent, RecentChannel};
use crate::rest::RestError;
use crate::text::mention;
use crate::wire::Message;

/// Delay before a request is repeated that Discord could not answer.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Discord {
    /// Returns the events of the new messages in a channel, oldest first: those that may be for the
    /// bot, or with `all` those of all people. Repeats requests until Discord answers. Returns no
    /// events if the bot may not read the channel.
    pub(super) async fn unread_messages(
        &self,
        place: RecentChannel,
        all: bool,
    ) -> Vec<GatewayEvent> {
        loop {
            match self.read_messages(place, all).await {
                Ok(events) => return events,
                Err(error) if error.is_temporary() => tokio::time::sleep(RETRY_DELAY).await,
                Err(error) => {
                    debug!(channel = place.channel, %error, "cannot read new messages");
                    return Vec::new();
                }
            }
        }
    }

    async fn read_messages(
        &self,
        place: RecentChannel,
        all: bool,
    ) -> Result<Vec<GatewayEvent>, RestError> {
        let (mut after, mut messages) = (place.after, Vec::new());
        loop {
            let api = &self.inner.api;
            let (page, full) = api.messages_after(place.channel, after, LOOK_UP_TIMEOUTS).await?;
            after = page.last().map_or(after, |message| message.id);
            messages.extend(page);
            if !full {
                break;
            }
        }
        let mut events = Vec::new();
        for message in messages {
            events.extend(self.unread_event(place, message, all).await?);
        }
        Ok(events)
    }

    /// Adds what Discord sends with an event, but not in a page of messages. Returns `None` if the
    /// message is not wanted.
    async fn unread_event(
        &self,
        place: RecentChannel,
        mut message: Message,
        all: bool,
    ) -> Result<Option<GatewayEvent>, RestError> {
        let identity = &self.inner.identity;
        let parent = Parent::Known(place.parent);
        message.guild_id = Some(place.guild);
        let addressed = parent.may_address(identity, &message);
        if !identity.is_from_person(&message) || !(addressed || all) {
            return Ok(None);
        }
        let (api, author) = (&self.inner.api, message.author.id);
        message.member = self.inbound.lookups.member(api, place.guild, author).await?;
        let names = message.mentions.iter();
        let names =
            names.flat_map(|user| mention::user_names(user.id, user.display_name())).collect();
        let content = EventContent::Message(Box::new(message));
        Ok(Some(GatewayEvent { content, names, parent, addressed }))
    }
}
