//! The notice that a message waits for the cluster's database.

use std::time::Duration;

use serde::Deserialize as _;
use tracing::debug;

use super::Discord;
use crate::access::asker::Asker;
use crate::api::waiting_nonce;
use crate::connection::gateway_event::{GatewayEvent, Parent};
use crate::rest::Timeouts;
use crate::wire::Message;

const WAITS: &str = "I have received this and am waiting for my database. I will answer as soon as I can. (storage)";
const TIMEOUTS: Timeouts = Timeouts::new(Duration::from_secs(5), Duration::from_secs(10));

impl Discord {
    /// Notifies the author of a prompt that it was received and waits for the database. People who
    /// may not use the bot there get no notice. Without the database, no node knows which node
    /// serves the channel, so the notice is sent without a lease. All nodes use the same nonce for
    /// a message, so that Discord posts one notice.
    pub async fn report_waiting(&self, event: &GatewayEvent) {
        let Ok(message) = Message::deserialize(&event.data) else { return };
        let identity = &self.inner.identity;
        let parent = match event.parent {
            Parent::Known(parent) => parent,
            Parent::Unknown => None,
        };
        let asker = Asker::author_of(&message, parent, identity);
        if !identity.is_from_person(&message) || identity.admit(&asker).is_err() {
            return;
        }
        let (channel, id) = (message.channel_id, message.id);
        let nonce = waiting_nonce(id);
        let posted = self.inner.api.post_unleased(channel, id, &nonce, WAITS, TIMEOUTS).await;
        if let Err(error) = posted {
            debug!(channel, message = id, %error, "cannot send the notice that a message waits");
        }
    }
}
