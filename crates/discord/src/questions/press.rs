//! A button, menu or modal window that a person used.

use serde::Deserialize as _;
use serde_json::Value;

use crate::wire::{Channel, User, id_in, interacting_user};

/// The response to a press.
#[derive(Debug)]
pub(super) enum PressResponse {
    /// Changes nothing, because the message will be edited soon.
    Accept,
    /// Changes the text and the buttons of the message.
    Show(String, Value),
    /// Changes the text of the message, removes its buttons, and shows a private text.
    Close(String, String),
    /// Opens a modal window.
    Window(Value),
    /// Shows a text that only the person who pressed can see.
    Private(String),
}

/// The use of a button, menu or modal window. Has no `Debug`, so that the token is never logged.
#[derive(Clone)]
pub(crate) struct Press {
    pub(super) interaction: u64,
    pub(super) token: String,
    pub(super) guild: Option<u64>,
    /// The channel or thread.
    pub(super) channel: Option<u64>,
    /// The channel of the thread.
    pub(super) parent: Option<u64>,
    pub(super) user: User,
    pub(super) roles: Vec<u64>,
    pub(super) nick: Option<String>,
    /// The message with the button, and its text.
    pub(super) message: Option<u64>,
    pub(super) content: Option<String>,
    pub(super) custom_id: String,
    /// The values chosen in a menu.
    pub(super) values: Vec<String>,
    /// The text written in a modal window.
    pub(super) text: Option<String>,
}

impl Press {
    /// Parses an interaction of type 3 (button or menu) or 5 (modal window).
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let (user, member) = interacting_user(value)?;
        let data = &value["data"];
        let inputs = data["components"].as_array().into_iter().flatten();
        let text = inputs
            .flat_map(|row| row["components"].as_array().into_iter().flatten())
            .find_map(|input| input["value"].as_str());
        Some(Self {
            interaction: id_in(&value["id"])?,
            token: value["token"].as_str()?.to_owned(),
            guild: id_in(&value["guild_id"]),
            channel: id_in(&value["channel_id"]).or_else(|| id_in(&value["channel"]["id"])),
            parent: Channel::deserialize(&value["channel"])
                .ok()
                .and_then(|channel| channel.thread_parent()),
            user,
            roles: member.roles,
            nick: member.nick,
            message: id_in(&value["message"]["id"]),
            content: value["message"]["content"].as_str().map(str::to_owned),
            custom_id: data["custom_id"].as_str()?.to_owned(),
            values: data["values"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            text: text.map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_window_in_a_direct_message_is_read() {
        let press = Press::read(&json!({
            "id": "1", "type": 5, "token": "t", "user": {"id": "7", "username": "ann"}, "message": {"content": "Run it?"},
            "data": {"custom_id": "ask:x:why", "components": [{"type": 1, "components": [{"type": 4, "custom_id": "text", "value": "no"}]}]},
        }))
        .expect("read");
        assert_eq!(
            (press.user.id, press.text.as_deref(), press.content.as_deref()),
            (7, Some("no"), Some("Run it?"))
        );
    }
}
