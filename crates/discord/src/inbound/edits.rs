//! Messages that people edit or delete while they wait in the queue.

use tracing::{debug, info};

use super::{InboundProcessor, event_key};
use crate::rest::rate_share::Rank;
use crate::text::mention::{self, Name};
use crate::wire::{MessageDeletion, MessageEdit};

/// Put on an edited message whose new text was accepted.
const PENCIL: &str = "✏️";

impl InboundProcessor {
    /// Processes an edit. If the message still waits, its new text is used. A running or finished
    /// turn is not changed.
    pub(crate) fn edited(&self, edit: &MessageEdit, names: &[Name]) {
        let (channel, message) = (edit.channel_id, edit.id);
        let prompt = mention::prompt(
            edit.content.as_deref().unwrap_or_default(),
            self.inner.identity.id,
            self.lookups.known_role(edit.guild_id),
            names,
        );
        // The bot may not read it, or it contains no prompt.
        if prompt.is_empty() {
            return;
        }
        match self.services.intake.amend(&event_key(message), &prompt) {
            Ok(true) => {
                let (api, timeouts) = (self.inner.api.clone(), self.inner.options.time_limits.send);
                tokio::spawn(async move {
                    if let Err(error) =
                        api.react(channel, message, PENCIL, timeouts.with_rank(Rank::Marker)).await
                    {
                        debug!(channel, %error, "cannot mark an edited message; hint: the bot needs Add Reactions there");
                    }
                });
            }
            Ok(false) => debug!(channel, message_id = message, "an edited message was not waiting"),
            Err(refusal) => self.notices.report(channel, message, refusal.to_string()),
        }
    }

    /// Processes deleted messages: waiting prompts are withdrawn.
    pub(crate) fn deleted(&self, deletion: &MessageDeletion) {
        for &message in deletion.ids.iter().chain(&deletion.id) {
            if self.services.intake.withdraw(&event_key(message)) {
                self.inner.queue_markers.forget(message);
                info!(
                    channel = deletion.channel_id,
                    message_id = message,
                    "a waiting message was deleted and is not answered"
                );
            }
        }
    }
}
