//! The messages before an event in its channel, for an agent that does not remember them.

use std::time::Duration;

use super::context::BotContext;
use crate::ids::{self, DiscordOrigin};
use crate::rest::{RestError, Timeouts};
use crate::text::mention;
use crate::text::quote;
use crate::wire::Message;
use aetheel_dispatch::{RECAP_MESSAGES, RecapMessage};
use aetheel_model::event::Event;
use aetheel_model::plain::short_line;

/// Time limits of the request. Short, because a turn waits for the result.
const TIMEOUTS: Timeouts = Timeouts::new(Duration::from_secs(3), Duration::from_secs(5));
/// An id that is higher than that of every message.
const LAST_ID: u64 = i64::MAX.cast_unsigned();
/// Types of messages with a written text: ordinary, reply, answer to a command and to a context
/// menu.
const WRITTEN: [u8; 4] = [0, 19, 20, 23];

impl BotContext {
    /// Returns the last messages before an event in its channel, oldest first. Returns no messages
    /// if Discord does not provide them.
    pub(crate) async fn recap(&self, event: &Event) -> Vec<RecapMessage> {
        let (channel, before) = match ids::origin(&event.origin) {
            DiscordOrigin::Message { channel, message } => (channel, message),
            DiscordOrigin::Interaction { channel, interaction, .. } => (channel, interaction),
            DiscordOrigin::Internal { .. } | DiscordOrigin::Elsewhere => return Vec::new(),
        };
        let read = self.api.messages_before(channel, before, RECAP_MESSAGES, TIMEOUTS).await;
        let messages = read.unwrap_or_else(|error| {
            tracing::warn!(channel, %error, "cannot read the earlier messages of the channel; the agent gets no recap");
            Vec::new()
        });
        self.recap_messages(&messages)
    }

    /// Returns the last messages of a channel, oldest first.
    ///
    /// # Errors
    /// [`RestError`] if Discord does not provide them.
    pub(crate) async fn latest_messages(
        &self,
        channel: u64,
        limit: usize,
    ) -> Result<Vec<RecapMessage>, RestError> {
        let read = self.api.messages_before(channel, LAST_ID, limit, TIMEOUTS).await?;
        Ok(self.recap_messages(&read))
    }

    fn recap_messages(&self, messages: &[Message]) -> Vec<RecapMessage> {
        let me = self.identity.id;
        messages.iter().filter_map(|message| recap_message(message, me)).collect()
    }
}

/// Converts a message. Returns `None` if it has no text, or is from another bot.
fn recap_message(message: &Message, me: u64) -> Option<RecapMessage> {
    let own = message.author.id == me;
    if !WRITTEN.contains(&message.kind)
        || (!own && (message.author.bot || message.webhook_id.is_some()))
    {
        return None;
    }
    let names: Vec<_> = message
        .mentions
        .iter()
        .flat_map(|user| mention::user_names(user.id, user.display_name()))
        .collect();
    let content = if own { quote::strip_quote(&message.content) } else { &message.content };
    let text = mention::generic_mentions(&mention::readable(content, &names)).trim().to_owned();
    let author = (!own).then(|| short_line(message.author.display_name(), 64));
    (!text.is_empty()).then_some(RecapMessage { author, text })
}
