//! What people are told beside any answer, and the button that brings an event or a lost reply back.
//!
//! A button says only which event it is about; whether it may still be pressed, and by whom, is decided when it is. Pinned by
//! `tests/discord/notices.rs`.

use serde_json::{Value, json};
use tracing::{debug, warn};

use super::Inner;
use super::api::nonce;
use super::below::MESSAGE;
use super::mention::one_line;
use crate::dispatch::{Again, DeliveryError, Notice, Offer, Person};

/// What the id of an offer's button begins with.
const PREFIX: &str = "again:";
/// What is said below an answer that was given up in the middle.
const UNFINISHED: &str = "-# ✂️ This is not finished: I was interrupted here.";
/// What is said below a failure whose reply was delivered.
const DELIVERED: &str = "-# 📬";

/// Posts a notice, as a reply to the message it is about.
pub(super) async fn post(inner: &Inner, notice: Notice) -> Result<(), DeliveryError> {
    let Some(channel) = notice.channel.or(inner.options.output_channel) else {
        return Err(DeliveryError("there is no channel for notices; set OUTPUT_CHANNEL_ID".to_owned()));
    };
    let text = inner.options.redactor.clean(notice.text);
    let (rows, nonce) = match &notice.offer {
        // The same offer twice within minutes, after a crash in between, is one message.
        Some(offer) => (row(offer), format!("{PREFIX}{:.18}", offer.id)),
        None => (Value::Null, nonce()),
    };
    let posted = inner.api.post_with(channel, notice.about, &nonce, (&text, &rows), inner.options.windows.send).await;
    posted.map(drop).map_err(|error| {
        let hint = if error.is_forbidden() { "\nhint: the bot needs View Channel and Send Messages there" } else { "" };
        warn!(channel, length = text.chars().count(), %error, "cannot send a notice to discord{hint}");
        DeliveryError(error.to_string())
    })
}

/// Says of a message that it is not the answer it looks like.
pub(super) async fn leave_unfinished(inner: &Inner, channel: u64, message: u64) {
    let patience = inner.options.windows.send;
    let left = async {
        let content = inner.api.message(channel, message, patience).await?.content;
        if content.ends_with(UNFINISHED) {
            return Ok(());
        }
        let room = MESSAGE - UNFINISHED.chars().count() - 1;
        let shown: String = content.chars().take(room).collect();
        inner.api.edit(channel, message, &format!("{shown}\n{UNFINISHED}"), patience).await
    };
    if let Err(error) = left.await {
        debug!(channel, message, %error, "cannot say of a half-written answer that it is one");
    }
}

/// The button of an offer.
pub(super) fn row(offer: &Offer) -> Value {
    let button = json!({"type": 2, "style": 1, "label": one_line(&offer.label, 80), "custom_id": format!("{PREFIX}{}", offer.id)});
    json!([{"type": 1, "components": [button]}])
}

/// Takes the button of a lost reply away, because the reply was delivered.
pub(super) async fn settle(inner: &Inner, channel: u64, message: u64) {
    let patience = inner.options.windows.send;
    let settled = async {
        let content = inner.api.message(channel, message, patience).await?.content;
        if content.contains(DELIVERED) {
            return Ok(());
        }
        let told = format!("{content}\n{DELIVERED} The reply came later.");
        let told = if told.chars().count() > MESSAGE { content } else { told };
        inner.api.edit_with(channel, message, &told, &json!([]), patience).await
    };
    if let Err(error) = settled.await {
        debug!(channel, message, %error, "cannot take the button of a delivered reply away");
    }
}

/// The offer a button is about; none: it is another button.
pub(super) fn offer_of(custom_id: &str) -> Option<&str> {
    custom_id.strip_prefix(PREFIX)
}

/// What a message says once somebody took its offer up.
pub(super) fn taken_up(content: &str, by: &Person, what: Again) -> String {
    let name = match by {
        Person::User { name, .. } => one_line(name, 64),
        Person::Terminal => "you".to_owned(),
    };
    let name = super::asks::escape(&name);
    let said = match what {
        Again::Started => format!("{content}\n-# 🔁 Started again by {name}."),
        Again::Delivered => format!("{content}\n{DELIVERED} Delivered for {name}."),
    };
    // What there was of an answer may fill its message.
    if said.chars().count() > MESSAGE { content.to_owned() } else { said }
}
