//! Messages that people edit or delete while they wait in the queue.

use tracing::{debug, info};

use super::flow::Rank;
use super::mention::{self, Name};
use super::reception::{Reception, key};
use super::wire::Edit;

/// Put on an edited message whose new text was accepted.
const PENCIL: &str = "✏️";

impl Reception {
    /// Processes an edit. If the message still waits, its new text is used. A running or finished
    /// turn is not changed.
    pub(super) fn edited(&self, edit: &Edit, names: &[Name]) {
        let (channel, message) = (edit.channel_id, edit.id);
        let prompt = mention::prompt(
            edit.content.as_deref().unwrap_or_default(),
            self.identity.id,
            self.people.known_role(edit.guild_id),
            names,
        );
        // The bot may not read it, or it contains no prompt.
        if prompt.is_empty() {
            return;
        }
        match self.dispatcher.amend(&key(message), &prompt) {
            Ok(true) => {
                let (api, timeouts) = (self.api.clone(), self.timeouts);
                tokio::spawn(async move {
                    if let Err(error) =
                        api.react(channel, message, PENCIL, timeouts.of(Rank::Marker)).await
                    {
                        debug!(channel, %error, "cannot mark an edited message; hint: the bot needs Add Reactions there");
                    }
                });
            }
            Ok(false) => debug!(channel, message_id = message, "an edited message was not waiting"),
            Err(refusal) => self.report(channel, message, refusal.to_string()),
        }
    }

    /// Processes deleted messages: waiting prompts are withdrawn.
    pub(super) fn deleted(&self, channel: u64, messages: &[u64]) {
        for &message in messages {
            if self.dispatcher.withdraw(&key(message)) {
                self.waiting.forget(message);
                info!(
                    channel,
                    message_id = message,
                    "a waiting message was deleted and is not answered"
                );
            }
        }
    }
}
