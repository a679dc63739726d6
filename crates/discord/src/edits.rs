//! Messages that people edit or delete while they wait.

use tracing::{debug, info};

use super::flow::Rank;
use super::mention::{self, Name};
use super::reception::{Reception, key};
use super::wire::Edit;

/// Says on an edited message that the new words count.
const PENCIL: &str = "✏️";

impl Reception {
    /// Somebody changed a message: where it still waits, its new words count. A message whose turn
    /// runs, or is over, stays as it was asked.
    pub(super) fn edited(&self, edit: &Edit, names: &[Name]) {
        let (channel, message) = (edit.channel_id, edit.id);
        let prompt = mention::prompt(
            edit.content.as_deref().unwrap_or_default(),
            self.identity.id,
            self.people.known_role(edit.guild_id),
            names,
        );
        // Without the right to read it, or nothing to ask.
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
                        debug!(channel, %error, "cannot mark an edited message; the permission Add Reactions lets me");
                    }
                });
            }
            Ok(false) => debug!(channel, message_id = message, "an edited message was not waiting"),
            Err(refusal) => self.report(channel, message, refusal.to_string()),
        }
    }

    /// Somebody deleted messages: what waits because of them is not answered.
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
