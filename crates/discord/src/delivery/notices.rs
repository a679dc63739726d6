//! Notices to people that are not answers, and their buttons.
//!
//! The id of a button contains only what it is about. Whether it may still be pressed, and by whom, is
//! checked when it is pressed. Tested by `tests/discord/notices.rs`.

use std::sync::Arc;

use serde_json::json;
use tracing::{debug, warn};

use super::context::BotContext;
use crate::api::endpoints::Endpoint;
use crate::api::{MAX_MESSAGE_CHARS, NewMessage, PostedMessage, nonce};
use crate::ids;
use crate::questions::offers::{self, DELIVERED};
use crate::text::quote;
use crate::wire::Message;
use aetheel_dispatch::{DeliveryError, Notice, PriorDelivery, WaitTopic};
use aetheel_model::event::Event;
use aetheel_model::id::MessageId;

/// The line below an answer that was given up before it was complete.
const UNFINISHED: &str = "-# ✂️ This is not finished: I was interrupted here.";

/// The line below the notice of a wait that has another reason now.
const OTHER_REASON: &str = "⏭️ It waits for another reason now.";

/// Posts a notice, as a reply to the message it is about.
pub(crate) async fn post(
    inner: &BotContext,
    notice: Notice,
) -> Result<PostedMessage, DeliveryError> {
    let nonce = match notice.offers.first() {
        // The same offer twice within minutes, after a crash in between, is posted once.
        Some(offer) => format!("again:{:.18}", offer.id),
        None => nonce(),
    };
    post_under(inner, &notice, &nonce).await
}

/// Posts a notice about a wait, unless it is open.
pub(crate) async fn announce_wait(
    inner: &Arc<BotContext>,
    wait: &WaitTopic,
    notice: Notice,
) -> Result<(), DeliveryError> {
    match inner.notes.wait(&wait.topic) {
        Some(open) if open.has_reason(&wait.reason) => return Ok(()),
        Some(_) => end_wait(inner, &wait.topic, OTHER_REASON),
        None => {}
    }
    let channel = ids::notice_channel(notice.channel, inner.options.settings.output_channel);
    let posted = post(inner, notice).await?;
    channel.iter().for_each(|channel| inner.notes.wait_opened(wait, *channel, posted.id));
    Ok(())
}

/// Closes the open notice about a wait. Returns at once.
pub(crate) fn end_wait(inner: &Arc<BotContext>, topic: &str, line: &str) {
    let Some(wait) = inner.notes.take_wait(topic) else { return };
    let (inner, line) = (Arc::clone(inner), format!("-# {line}"));
    tokio::spawn(async move {
        close(&inner, wait.channel, wait.message, &line).await;
        inner.notes.wait_closed(&wait);
    });
}

/// Removes the buttons of a message and adds a line.
async fn close(inner: &BotContext, channel: u64, message: u64, line: &str) {
    let timeouts = inner.options.time_limits.send;
    let closed = async {
        let content = inner
            .api
            .get::<Message>(Endpoint::Message { channel, message }, timeouts)
            .await?
            .content;
        let text = format!("{content}\n{line}");
        let text = if text.chars().count() > MAX_MESSAGE_CHARS { content } else { text };
        inner.api.edit_with(channel, message, &text, &json!([]), timeouts).await
    };
    if let Err(error) = closed.await {
        debug!(channel, message, %error, "cannot close a notice about a wait");
    }
}

/// Posts a notice about a reply that was given up, and marks the last message of the reply, or else
/// the command's own message, as unfinished. The reply may have one more message than is recorded.
/// The notice is first posted with the nonce of that message: if the message exists, Discord
/// returns it instead of posting the notice.
pub(crate) async fn give_up(
    inner: &BotContext,
    event: &Event,
    notice: Notice,
    traces: &PriorDelivery,
) -> Result<(), DeliveryError> {
    let channel = ids::notice_channel(notice.channel, inner.options.settings.output_channel).ok();
    // 0 is a separator, not the id of a message.
    let posted: Vec<u64> =
        traces.posted.iter().filter_map(|id| id.as_discord()).filter(|id| *id > 0).collect();
    match (channel, posted.last()) {
        (Some(channel), Some(last)) => mark_unfinished(inner, channel, *last).await,
        (Some(channel), None) => mark_command_unfinished(inner, event, channel).await,
        (None, _) => {}
    }
    let message = post_under(inner, &notice, &format!("{}.{}", traces.stem, posted.len())).await?;
    if message.content.trim() == inner.options.redactor.redact(notice.text.clone()).trim() {
        return Ok(());
    }
    if let Some(channel) = channel {
        mark_unfinished(inner, channel, message.id).await;
    }
    post(inner, notice).await.map(drop)
}

/// Writes into a command's own message that no answer follows there.
async fn mark_command_unfinished(inner: &BotContext, event: &Event, channel: u64) {
    let place = inner.command_target(channel, event);
    let Some(mut token) = place.token else { return };
    if !token.is_usable().await {
        return;
    }
    let (application, timeouts) = (inner.identity.application, inner.options.time_limits.send);
    let text = quote::with_quote(place.heading.as_deref(), UNFINISHED);
    if let Err(error) = inner
        .api
        .responses
        .edit(application, token.interaction, &token.value, &text, &json!([]), timeouts)
        .await
    {
        debug!(channel, %error, "cannot mark a command as interrupted");
    }
}

async fn post_under(
    inner: &BotContext,
    notice: &Notice,
    nonce: &str,
) -> Result<PostedMessage, DeliveryError> {
    let channel = ids::notice_channel(notice.channel, inner.options.settings.output_channel)
        .map_err(DeliveryError::Refused)?;
    let text = inner.options.redactor.redact(notice.text.clone());
    let rows = offers::rows(&notice.offers);
    let about = notice.about.and_then(MessageId::as_discord);
    let message = NewMessage { reply_to: about, ..NewMessage::new(nonce, &text, &rows) };
    let posted = inner.api.post_message(channel, message, inner.options.time_limits.send).await;
    posted.map_err(|error| {
        let hint = if error.is_forbidden() { "; hint: the bot needs View Channel and Send Messages there" } else { "" };
        warn!(channel, length = text.chars().count(), %error, "cannot send a notice to discord{hint}");
        DeliveryError::Refused(error.to_string())
    })
}

async fn mark_unfinished(inner: &BotContext, channel: u64, message: u64) {
    let timeouts = inner.options.time_limits.send;
    let left = async {
        let content = inner
            .api
            .get::<Message>(Endpoint::Message { channel, message }, timeouts)
            .await?
            .content;
        let room = MAX_MESSAGE_CHARS - UNFINISHED.chars().count() - 1;
        let shown: String = content.chars().take(room).collect();
        let text =
            if content.ends_with(UNFINISHED) { content } else { format!("{shown}\n{UNFINISHED}") };
        // The turn does not run any more, so its stop button is removed.
        inner.api.edit_with(channel, message, &text, &json!([]), timeouts).await
    };
    if let Err(error) = left.await {
        debug!(channel, message, %error, "cannot mark an answer as unfinished");
    }
}

/// Removes the button of a lost reply that was delivered.
pub(crate) async fn remove_button(inner: &BotContext, channel: u64, message: u64) {
    let timeouts = inner.options.time_limits.send;
    let settled = async {
        let content = inner
            .api
            .get::<Message>(Endpoint::Message { channel, message }, timeouts)
            .await?
            .content;
        if content.contains(DELIVERED) {
            return Ok(());
        }
        let text = format!("{content}\n{DELIVERED} The reply came later.");
        let text = if text.chars().count() > MAX_MESSAGE_CHARS { content } else { text };
        inner.api.edit_with(channel, message, &text, &json!([]), timeouts).await
    };
    if let Err(error) = settled.await {
        debug!(channel, message, %error, "cannot remove the button of a delivered reply");
    }
}
