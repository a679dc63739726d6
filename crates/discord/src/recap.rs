//! The messages before an event in its channel, for an agent that does not remember them.

use std::time::Duration;

use super::rest::Timeouts;
use super::wire::Message;
use super::{Inner, heading, mention};
use aetheel_dispatch::{RECAP_MESSAGES, Said};
use aetheel_model::event::{Event, Origin};
use aetheel_model::plain::short_line;

/// Short, because a turn waits for it.
const TIMEOUTS: Timeouts = Timeouts::new(Duration::from_secs(3), Duration::from_secs(5));
/// Types of messages with a written text: ordinary, reply, answer to a command and to a context
/// menu.
const WRITTEN: [u8; 4] = [0, 19, 20, 23];

impl Inner {
    /// Returns the last messages before an event in its channel, oldest first. Returns no messages
    /// if Discord does not provide them.
    pub(super) async fn recap(&self, event: &Event) -> Vec<Said> {
        let (channel, before) = match event.origin {
            Origin::Message { channel, message } => (channel, message),
            Origin::Interaction { channel, interaction, .. } => (channel, interaction),
            Origin::Internal { .. } | Origin::Console => return Vec::new(),
        };
        let read = self.api.messages_before(channel, before, RECAP_MESSAGES, TIMEOUTS).await;
        let messages = read.unwrap_or_else(|error| {
            tracing::warn!(channel, %error, "cannot read the earlier messages of the channel; the agent gets no recap");
            Vec::new()
        });
        let me = self.identity.id;
        messages.iter().filter_map(|message| said(message, me)).collect()
    }
}

/// Returns `None` if the message has no text, or is from another bot.
fn said(message: &Message, me: u64) -> Option<Said> {
    let own = message.author.id == me;
    if !WRITTEN.contains(&message.kind)
        || (!own && (message.author.bot || message.webhook_id.is_some()))
    {
        return None;
    }
    let names: Vec<_> = message
        .mentions
        .iter()
        .flat_map(|user| mention::user_names(user.id, user.shown()))
        .collect();
    let content = if own { heading::without(&message.content) } else { &message.content };
    let text = mention::in_words(&mention::readable(content, &names)).trim().to_owned();
    let author = (!own).then(|| short_line(message.author.shown(), 64));
    (!text.is_empty()).then_some(Said { author, text })
}
