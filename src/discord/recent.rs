//! The last words of a channel, for an agent that begins there anew.

use super::api::Api;
use super::mention;
use super::rest::{RestError, Timeouts};
use super::wire::Message;
use super::{Discord, heading};
use crate::plain::short_line;

/// Messages that Discord hands out at once, at most.
const PAGE: usize = 100;

/// What somebody wrote in a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The name others know them by, on one line.
    pub author: String,
    /// Their words, with readable mentions and without the secrets we know.
    pub text: String,
    /// The bot wrote it.
    pub own: bool,
}

impl Discord {
    /// Reads what people and the bot last wrote in a channel or thread, oldest first, before a
    /// message or up to now; of at most `most` messages, 100 of them if there are more. Gives up
    /// as soon as answers do. Without Message Content Intent Discord hands out only what names the
    /// bot, what is private and what the bot wrote.
    ///
    /// # Errors
    /// Why Discord does not hand it out, for a log.
    pub async fn recent(
        &self,
        channel: u64,
        before: Option<u64>,
        most: usize,
    ) -> Result<Vec<Said>, String> {
        let inner = &self.inner;
        let found = inner
            .api
            .messages_before(channel, before, most.clamp(1, PAGE), inner.options.windows.send)
            .await
            .map_err(|error| error.to_string())?;
        let said = found.iter().filter_map(|message| said(message, inner.identity.id));
        Ok(said
            .map(|said| Said { text: inner.options.redactor.clean(said.text), ..said })
            .collect())
    }
}

/// None: it is neither a person's nor ours, or has no words.
fn said(message: &Message, me: u64) -> Option<Said> {
    let own = message.author.id == me;
    // Messages, replies, and answers to commands.
    let words = matches!(message.kind, 0 | 19 | 20);
    if !words || (!own && (message.author.bot || message.webhook_id.is_some())) {
        return None;
    }
    let names: Vec<_> = message
        .mentions
        .iter()
        .flat_map(|user| mention::user_names(user.id, user.shown()))
        .collect();
    let content = if own { heading::without(&message.content) } else { &message.content };
    let text = mention::in_words(&mention::readable(content, &names)).trim().to_owned();
    let author = short_line(message.author.shown(), 64);
    (!text.is_empty()).then_some(Said { author, text, own })
}

impl Api {
    /// The last messages before one, or of all, oldest first.
    async fn messages_before(
        &self,
        channel: u64,
        before: Option<u64>,
        most: usize,
        timeouts: Timeouts,
    ) -> Result<Vec<Message>, RestError> {
        let before = before.map(|id| format!("&before={id}")).unwrap_or_default();
        let path = format!("/channels/{channel}/messages?limit={most}{before}");
        let found: Vec<serde_json::Value> =
            self.get(path, ("GET messages", channel), timeouts).await?;
        // One message we cannot read must not hide the others.
        let mut messages: Vec<Message> =
            found.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect();
        messages.sort_by_key(|message| message.id);
        Ok(messages)
    }
}
