//! The requests to Discord, one method for each purpose.
//!
//! Mentions are disabled except in questions and in the "answer ready" ping. Every new message has
//! a nonce that Discord enforces, so that a repeated request never posts twice. The Discord server
//! of the tests refuses messages that break these rules.

pub(crate) mod endpoints;
mod foreign_acks;
pub(crate) mod interactions;
mod reactions;
pub(crate) mod responses;
mod unleased;

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::warn;

use self::endpoints::Endpoint;
use self::responses::Responses;
use crate::rest::{Rest, RestError, Timeouts, Upload};
use crate::wire::Message;

#[derive(Debug)]
pub(super) struct PostedMessage {
    pub(super) id: u64,
    /// The text as Discord has it. If Discord already knew the nonce, this is the text of the
    /// earlier message.
    pub(super) content: String,
}

/// Discord's maximum number of characters of a message.
pub(super) const MAX_MESSAGE_CHARS: usize = 2_000;

/// Returns a random nonce, which may have at most 25 characters.
pub(super) fn nonce() -> String {
    let mut nonce = uuid::Uuid::new_v4().simple().to_string();
    nonce.truncate(24);
    nonce
}

/// Returns the nonce of the notice that a message waits. Discord posts only one message with a
/// nonce.
pub(super) fn waiting_nonce(message: u64) -> String {
    format!("wait{message}")
}

/// The part of Discord's API that the bot uses.
#[derive(Clone, Debug)]
pub(super) struct Api {
    pub(super) rest: Rest,
    /// Channels in which the bot cannot reply to messages.
    no_reply_channels: Arc<Mutex<HashSet<u64>>>,
    pub(super) responses: Responses,
}

impl Api {
    pub(super) fn new(rest: Rest) -> Self {
        let responses = Responses::new(rest.clone());
        Self { rest, no_reply_channels: Arc::default(), responses }
    }

    /// Forgets the channels without replies, because permissions have changed somewhere.
    pub(super) fn permissions_changed(&self) {
        self.no_reply_channels.lock().clear();
    }

    /// Returns at most 100 messages after an id, oldest first, and whether there may be more.
    pub(super) async fn messages_after(
        &self,
        channel: u64,
        after: u64,
        timeouts: Timeouts,
    ) -> Result<(Vec<Message>, bool), RestError> {
        let endpoint = Endpoint::MessagesAfter { channel, after };
        let found: Vec<Value> = self.get(endpoint, timeouts).await?;
        let full = found.len() >= 100;
        Ok((sorted_messages(found), full))
    }

    /// Returns the last `limit` messages before an id, or fewer, oldest first.
    pub(super) async fn messages_before(
        &self,
        channel: u64,
        before: u64,
        limit: usize,
        timeouts: Timeouts,
    ) -> Result<Vec<Message>, RestError> {
        let endpoint = Endpoint::MessagesBefore { channel, before, limit };
        Ok(sorted_messages(self.get(endpoint, timeouts).await?))
    }

    /// Opens a public thread on a message. The thread has the id of the message. Returns `false` if
    /// the thread exists already.
    pub(super) async fn thread(
        &self,
        channel: u64,
        message: u64,
        name: &str,
        timeouts: Timeouts,
    ) -> Result<bool, RestError> {
        let endpoint = Endpoint::OpenThread { channel, message };
        match self.send(endpoint, Some(json!({"name": name})), timeouts).await {
            // 160004: the thread exists. An earlier attempt opened it, but Discord's answer was
            // lost.
            Err(RestError::Refused { code: 160_004, .. }) => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Posts files as a message of their own. The same nonce never posts twice.
    pub(super) async fn post_files(
        &self,
        channel: u64,
        nonce: &str,
        files: &[Upload],
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let body =
            json!({"allowed_mentions": {"parse": []}, "nonce": nonce, "enforce_nonce": true});
        let call = Endpoint::Post { channel }.request(Some(body));
        self.rest.send_files(&call, files, timeouts).await.map(drop)
    }

    /// Posts a text, as a reply if `reply_to` still exists and may be read. The same nonce never
    /// posts twice.
    pub(super) async fn post(
        &self,
        channel: u64,
        reply_to: Option<u64>,
        nonce: &str,
        text: &str,
        timeouts: Timeouts,
    ) -> Result<PostedMessage, RestError> {
        let message = NewMessage { reply_to, ..NewMessage::new(nonce, text, &Value::Null) };
        self.post_message(channel, message, timeouts).await
    }

    /// Posts a message, as a reply if the other message still exists and may be read. The same
    /// nonce never posts twice.
    pub(super) async fn post_message(
        &self,
        channel: u64,
        mut message: NewMessage<'_>,
        timeouts: Timeouts,
    ) -> Result<PostedMessage, RestError> {
        let unread = || self.no_reply_channels.lock();
        message.reply_to = message.reply_to.filter(|_| !unread().contains(&channel));
        let endpoint = Endpoint::Post { channel };
        let mut sent = self.send(endpoint, Some(message.body()), timeouts).await;
        if message.reply_to.take().is_some() && sent.as_ref().is_err_and(RestError::forbids_replies)
        {
            if unread().insert(channel) {
                warn!(
                    channel,
                    "cannot reply to messages in this channel; answers are posted without what they reply to; hint: the bot needs Read Message History there"
                );
            }
            sent = self.send(endpoint, Some(message.body()), timeouts).await;
        }
        posted(&sent?)
    }

    /// Changes the text, and the buttons and menus unless `components` is null.
    pub(super) async fn edit_with(
        &self,
        channel: u64,
        message: u64,
        content: &str,
        components: &Value,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let body = message_body(content, components);
        self.send(Endpoint::Edit { channel, message }, Some(body), timeouts).await.map(drop)
    }

    /// Deletes a message. Succeeds if it does not exist any more.
    pub(super) async fn delete(
        &self,
        channel: u64,
        message: u64,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        match self.send(Endpoint::Delete { channel, message }, None, timeouts).await {
            Err(error) if !error.is_gone() => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        endpoint: Endpoint<'_>,
        timeouts: Timeouts,
    ) -> Result<T, RestError> {
        let value = self.send(endpoint, None, timeouts).await?;
        serde_json::from_value(value)
            .map_err(|error| unreadable(endpoint.name(), &error.to_string()))
    }

    pub(super) async fn send(
        &self,
        endpoint: Endpoint<'_>,
        body: Option<Value>,
        timeouts: Timeouts,
    ) -> Result<Value, RestError> {
        self.rest.send(&endpoint.request(body), timeouts).await
    }
}

#[derive(Clone, Copy)]
pub(super) struct NewMessage<'a> {
    pub(super) reply_to: Option<u64>,
    /// The only user whom a mention in the text pings.
    pub(super) ping: Option<u64>,
    pub(super) nonce: &'a str,
    pub(super) text: &'a str,
    /// Buttons and menus, or null.
    pub(super) components: &'a Value,
}

impl<'a> NewMessage<'a> {
    pub(super) fn new(nonce: &'a str, text: &'a str, components: &'a Value) -> Self {
        Self { reply_to: None, ping: None, nonce, text, components }
    }

    fn body(&self) -> Value {
        let mut body = message_body(self.text, self.components);
        set_nonce(&mut body, self.nonce);
        if let Some(user) = self.ping {
            body["allowed_mentions"]["users"] = json!([user.to_string()]);
        }
        if let Some(message) = self.reply_to {
            body["message_reference"] = reference(message);
        }
        body
    }
}

/// Returns the body of a message without mentions, with buttons and menus unless `components` is
/// null.
fn message_body(content: &str, components: &Value) -> Value {
    let mut body = json!({"content": content, "allowed_mentions": {"parse": []}});
    if !components.is_null() {
        body["components"] = components.clone();
    }
    body
}

/// Makes a message visible to one user only.
fn private(mut body: Value) -> Value {
    body["flags"] = json!(64);
    body
}

/// Makes Discord post only one message with this nonce.
fn set_nonce(body: &mut Value, nonce: &str) {
    body["nonce"] = json!(nonce);
    body["enforce_nonce"] = json!(true);
}

/// Returns the reference of a reply to a message, which may be deleted already.
fn reference(message: u64) -> Value {
    json!({"message_id": message.to_string(), "fail_if_not_exists": false})
}

fn posted(value: &Value) -> Result<PostedMessage, RestError> {
    let id = value["id"]
        .as_str()
        .and_then(|id| id.parse().ok())
        .ok_or_else(|| unreadable("message", "no id"))?;
    Ok(PostedMessage { id, content: value["content"].as_str().unwrap_or_default().to_owned() })
}

fn unreadable(what: &str, why: &str) -> RestError {
    RestError::Refused {
        status: 200,
        code: 0,
        message: format!("answer to {what} is not understood: {why}"),
    }
}

/// Parses messages and sorts them, oldest first. Leaves out messages that cannot be parsed.
fn sorted_messages(found: Vec<Value>) -> Vec<Message> {
    let mut messages: Vec<Message> =
        found.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect();
    messages.sort_by_key(|message| message.id);
    messages
}
