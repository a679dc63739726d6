//! Notices about messages that are not in the cluster's database.

use std::time::Duration;

use tracing::{debug, warn};

use super::Discord;
use crate::access::asker::Asker;
use crate::api::waiting_nonce;
use crate::connection::gateway_event::{GatewayEvent, Parent};
use crate::rest::{RestError, Timeouts};
use crate::wire::Message;

const WAITS: &str = "I have received this and am waiting for my database. I will answer as soon as I can. (storage)";
const REFUSED: &str = "My database cannot store this message, so I have not accepted it. Please write it in other words. (storage)";
/// Delay before a notice is tried again that Discord could not accept.
const RETRY_DELAY: Duration = Duration::from_secs(2);
const TIMEOUTS: Timeouts = Timeouts::new(Duration::from_secs(5), Duration::from_secs(10));

impl Discord {
    /// Notifies the author of a prompt that it was received and waits for the database. People who
    /// may not use the bot there get no notice. Without the database, no node knows which node
    /// serves the channel, so the notice is sent without a lease. All nodes use the same nonce for
    /// a message, so that Discord posts one notice.
    ///
    /// Notes nothing about the channel: a position here would hide the earlier messages from this
    /// node when it takes over the channel.
    pub async fn report_waiting(&self, event: &GatewayEvent) {
        let Some(Message { channel_id: channel, id, .. }) = self.prompt_in(event) else { return };
        if let Err(error) =
            self.post_waiting_notice(*channel, *id, &waiting_nonce(*id), WAITS).await
        {
            debug!(channel, message = id, %error, "cannot send the notice that a message waits");
        }
    }

    pub(super) async fn notify_closed(&self, event: &GatewayEvent, until: i64) {
        let Some(Message { channel_id: channel, id, .. }) = self.prompt_in(event) else { return };
        let text = format!(
            "I have received this. The machine that served this channel stopped while an agent worked here. I will answer when it is back, or <t:{until}:R>. (machine)"
        );
        if let Err(error) =
            self.post_waiting_notice(*channel, *id, &waiting_nonce(*id), &text).await
        {
            debug!(channel, message = id, %error, "cannot send the notice that a channel is closed");
        }
    }

    /// Notifies the author of a prompt that the database cannot store it. Tries again while Discord
    /// cannot accept the notice.
    pub(super) async fn report_refused(&self, event: &GatewayEvent) {
        let Some(Message { channel_id: channel, id, .. }) = self.prompt_in(event) else { return };
        // Another nonce, because the author may have got the notice that the message waits.
        let nonce = format!("no{id}");
        while let Err(error) = self.post_waiting_notice(*channel, *id, &nonce, REFUSED).await {
            warn!(channel, message = id, %error, "cannot send the notice that a message was refused");
            if !error.is_temporary() {
                return;
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    /// Returns the event's message, if it is for the bot and its author
    /// may use the bot there.
    fn prompt_in<'a>(&self, event: &'a GatewayEvent) -> Option<&'a Message> {
        let message = event.addressed_message()?;
        let identity = &self.inner.identity;
        let parent = match event.parent {
            Parent::Known(parent) => parent,
            Parent::Unknown => None,
        };
        let asker = Asker::author_of(message, parent, identity);
        let is_admitted = identity.is_from_person(message) && identity.admit(&asker).is_ok();
        is_admitted.then_some(message)
    }

    async fn post_waiting_notice(
        &self,
        channel: u64,
        message: u64,
        nonce: &str,
        text: &str,
    ) -> Result<(), RestError> {
        self.inner.api.post_unleased(channel, message, nonce, text, TIMEOUTS).await
    }
}
