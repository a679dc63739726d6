//! Interactions: the use of a command, button, menu or modal window, and the typing of an option.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Channel, Member, MessageFile, User, id, or_default};
use aetheel_model::plain::short_line;

/// The options of the bot's commands that contain a text of the user.
const PROMPT_OPTIONS: [&str; 2] = ["prompt", "message"];

/// An interaction of any kind. Has no `Debug`, so that the token is never logged.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interaction {
    #[serde(with = "id")]
    pub(crate) id: u64,
    /// 2 is a slash command, 3 a button or menu, 4 the typing of an option and 5 a modal window.
    #[serde(rename = "type")]
    pub(crate) kind: u8,
    pub(crate) token: String,
    #[serde(rename = "guild_id", default, with = "id::maybe")]
    pub(crate) guild: Option<u64>,
    /// The channel or thread.
    #[serde(rename = "channel_id", with = "id")]
    pub(crate) channel: u64,
    #[serde(rename = "channel", default)]
    pub(crate) place: Option<Channel>,
    #[serde(flatten)]
    person: InteractingPerson,
    /// The message with the button.
    #[serde(default)]
    message: Option<PressedMessage>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) data: InteractionData,
}

/// A member of a guild, or a user in a direct message.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum InteractingPerson {
    Member { member: GuildMember },
    User { user: User },
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct GuildMember {
    user: User,
    #[serde(flatten)]
    member: Member,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct PressedMessage {
    #[serde(default, with = "id::maybe")]
    id: Option<u64>,
    #[serde(default)]
    content: Option<String>,
}

/// The command with its options, or the button, menu or window with what was chosen or written.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct InteractionData {
    pub(crate) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) options: Vec<InteractionOption>,
    #[serde(deserialize_with = "or_default")]
    resolved: Resolved,
    pub(crate) custom_id: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) values: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    components: Vec<Value>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct InteractionOption {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) value: Value,
    /// Whether the person is typing the option.
    #[serde(default)]
    pub(crate) focused: bool,
}

/// The files of the options that take one.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
struct Resolved {
    #[serde(default)]
    attachments: BTreeMap<String, MessageFile>,
}

impl Interaction {
    pub(crate) fn user(&self) -> &User {
        match &self.person {
            InteractingPerson::Member { member } => &member.user,
            InteractingPerson::User { user } => user,
        }
    }

    /// Returns the name that other people see in the channel.
    pub(crate) fn name(&self) -> String {
        let nick = match &self.person {
            InteractingPerson::Member { member } => member.member.nick.as_deref(),
            InteractingPerson::User { .. } => None,
        };
        short_line(nick.unwrap_or(self.user().display_name()), 64)
    }

    /// Returns the roles of the person, which are empty in a direct message.
    pub(crate) fn roles(&self) -> &[u64] {
        match &self.person {
            InteractingPerson::Member { member } => &member.member.roles,
            InteractingPerson::User { .. } => &[],
        }
    }

    /// Returns the channel that the thread belongs to, or `None` outside of threads.
    pub(crate) fn parent(&self) -> Option<u64> {
        self.place.as_ref().and_then(Channel::thread_parent)
    }

    /// Returns the text of the user, from the option `prompt` or `message` of a command.
    pub(crate) fn prompt(&self) -> &str {
        let mut options = self.data.options.iter();
        let option = options.find(|option| PROMPT_OPTIONS.contains(&option.name.as_str()));
        option.and_then(|option| option.value.as_str()).unwrap_or_default()
    }

    /// Returns the options with a text, by name.
    pub(crate) fn options(&self) -> Vec<(String, String)> {
        let text = |option: &InteractionOption| {
            Some((option.name.clone(), option.value.as_str()?.to_owned()))
        };
        self.data.options.iter().filter_map(text).collect()
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &MessageFile> {
        self.data.resolved.attachments.values()
    }

    pub(crate) fn message(&self) -> Option<u64> {
        self.message.as_ref().and_then(|message| message.id)
    }

    pub(crate) fn content(&self) -> Option<&str> {
        self.message.as_ref().and_then(|message| message.content.as_deref())
    }

    pub(crate) fn text(&self) -> Option<&str> {
        self.data
            .components
            .iter()
            .flat_map(|row| row["components"].as_array().into_iter().flatten())
            .find_map(|input| input["value"].as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_slash_command_in_a_thread_names_the_parent_and_one_in_a_category_does_not() {
        let slash = |kind: u8| {
            Interaction::deserialize(json!({
                "id": "1", "type": 2, "token": "t", "channel_id": "3", "channel": {"id": "3", "type": kind, "parent_id": "9"}, "guild_id": "4",
                "member": {"user": {"id": "7", "username": "ann"}, "roles": ["8"], "nick": "Annie"},
                "data": {"name": "ask", "options": [{"name": "prompt", "type": 3, "value": "hello"}]},
            }))
            .expect("a slash command")
        };
        assert_eq!((slash(11).parent(), slash(0).parent()), (Some(9), None));
        assert_eq!((slash(0).prompt(), slash(0).roles()), ("hello", [8].as_slice()));
    }

    #[test]
    fn a_window_in_a_direct_message_is_read() {
        let press = Interaction::deserialize(json!({
            "id": "1", "type": 5, "token": "t", "channel_id": "3", "user": {"id": "7", "username": "ann"}, "message": {"content": "Run it?"},
            "data": {"custom_id": "ask:x:why", "components": [{"type": 1, "components": [{"type": 4, "custom_id": "text", "value": "no"}]}]},
        }))
        .expect("read");
        assert_eq!(
            (press.user().id, press.text(), press.content()),
            (7, Some("no"), Some("Run it?"))
        );
    }

    #[test]
    fn people_in_threads_and_direct_messages_are_parsed() {
        let thread = Interaction::deserialize(json!({
            "id": "1", "type": 4, "token": "t", "channel_id": "3", "channel": {"id": "3", "type": 11, "parent_id": "9"}, "guild_id": "4",
            "member": {"user": {"id": "7", "username": "ann"}, "roles": ["8"], "nick": "Annie"},
        }))
        .expect("read");
        assert_eq!(
            (thread.channel, thread.parent(), thread.guild, thread.roles(), thread.name().as_str()),
            (3, Some(9), Some(4), [8].as_slice(), "Annie")
        );
        let direct = json!({"id": "1", "type": 3, "token": "t", "channel_id": "3", "member": null, "user": {"id": "7", "username": "ann"}, "data": {"values": null}});
        let direct = Interaction::deserialize(direct).expect("read");
        assert_eq!(
            (direct.user().id, direct.guild, direct.parent(), direct.name().as_str()),
            (7, None, None, "ann")
        );
    }
}
