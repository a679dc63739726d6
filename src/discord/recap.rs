//! What stands before a message in its channel, for an agent that does not remember it.

use std::time::Duration;

use super::Inner;
use super::rest::Timeouts;
use super::wire::Message;
use crate::dispatch::{RECAP_MESSAGES, Said};
use crate::event::{Event, Origin};

/// A turn waits no longer for it.
const TIMEOUTS: Timeouts = Timeouts::new(Duration::from_secs(3), Duration::from_secs(5));
/// Kinds of messages that somebody wrote: ordinary, a reply, the answer to a command.
const WRITTEN: [u8; 4] = [0, 19, 20, 23];

impl Inner {
    /// The last messages before an event in its channel, oldest first; none where Discord does not
    /// hand them out.
    pub(super) async fn recap(&self, event: &Event) -> Vec<Said> {
        let (channel, before) = match event.origin {
            Origin::Message { channel, message } => (channel, message),
            Origin::Interaction { channel, interaction, .. } => (channel, interaction),
            Origin::Internal { .. } | Origin::Console => return Vec::new(),
        };
        let read = self.api.messages_before(channel, before, RECAP_MESSAGES, TIMEOUTS).await;
        let messages = read.unwrap_or_else(|error| {
            tracing::warn!(channel, %error, "cannot read what was said before; the agent is not told of it");
            Vec::new()
        });
        messages.into_iter().filter_map(|message| self.said(message)).collect()
    }

    fn said(&self, message: Message) -> Option<Said> {
        let ours = message.author.id == self.identity.id;
        let written = WRITTEN.contains(&message.kind) && !message.content.trim().is_empty();
        written.then(|| Said {
            author: (!ours).then(|| message.author.shown().to_owned()),
            text: message.content,
        })
    }
}
