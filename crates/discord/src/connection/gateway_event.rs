//! An event of the gateway, in the form in which nodes pass it to each other.
//!
//! Defines the transmitted parts of an event, its key (by which duplicates from several logins are
//! recognised), and its channel. The node that receives the event interprets it in the module
//! `router`.

use std::fmt::{self, Debug, Formatter};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::access::identity::Identity;
use crate::text::mention::Name;
use crate::wire::{Message, id_in};
use aetheel_model::id::ChannelId;

/// The name of the derived event that the bot's permissions may have changed. It replaces several
/// events of Discord.
pub(crate) const PERMISSIONS_CHANGED: &str = "PERMISSIONS";

/// The name of the derived event that a person pressed a button which the channel's node does not
/// know. Another node may have posted the button, for example below a notice to the operator.
pub(crate) const FORWARDED_PRESS: &str = "PRESS";

/// The name of the derived event with the channels of a guild that have new messages. Only the node
/// that is logged in processes it.
const RECENT_CHANNELS: &str = "RECENT_CHANNELS";

/// A channel or thread with new messages, which the bot may have missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentChannel {
    pub(crate) guild: u64,
    pub(crate) channel: u64,
    /// The channel that a thread belongs to.
    pub(crate) parent: Option<u64>,
    /// The id after which the new messages begin.
    pub(crate) after: u64,
}

impl RecentChannel {
    /// Returns the channel that the thread belongs to, or the channel itself.
    #[must_use]
    pub fn root(&self) -> ChannelId {
        ChannelId::discord(self.parent.unwrap_or(self.channel))
    }
}

/// The channel that a thread belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parent {
    /// The channel has to be requested from Discord.
    Unknown,
    /// The channel, or `None` if the place is not a thread.
    Known(Option<u64>),
}

impl Parent {
    /// Returns whether a message here may be for the bot even if the bot takes no part in the
    /// channel yet. `InboundProcessor::is_for_us` makes the final decision, with lookups in Discord.
    pub(crate) fn may_address(self, bot: &Identity, message: &Message) -> bool {
        // In threads that the bot opened or was addressed in, messages need no mention.
        let perhaps_ours = bot.reads_all && self != Self::Known(None);
        message.guild_id.is_none()
            || perhaps_ours
            || !message.mention_roles.is_empty()
            || message.mentions.iter().any(|user| user.id == bot.id)
            || message
                .referenced_message
                .as_ref()
                .is_some_and(|message| message.author.id == bot.id)
    }
}

/// An event of the gateway, with facts that only the login that received it knows. Contains
/// people's messages and tokens of interactions, which `Debug` leaves out.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct GatewayEvent {
    /// Discord's name of the event, or a name defined here for a derived event.
    pub name: String,
    /// The content as Discord sends it. For a login, only the account's name and the number of
    /// guilds.
    pub data: Value,
    /// Readable names of the mentions in it: the form in the text, and the name.
    pub names: Vec<(String, String)>,
    /// The channel that the thread of the event belongs to.
    pub parent: Parent,
    /// Whether the message may be for the bot. Otherwise it matters only if the bot already takes
    /// part in the channel or reads everything, so it is not passed on if no node serves the
    /// channel.
    pub addressed: bool,
}

impl GatewayEvent {
    /// Creates an event for every node.
    pub(crate) fn for_all(name: &str, data: Value) -> Self {
        let (names, parent) = (Vec::new(), Parent::Unknown);
        Self { name: name.to_owned(), data, names, parent, addressed: true }
    }

    /// Creates the event of a successful login.
    pub(crate) fn ready(data: &Value) -> Self {
        let guilds = data["guilds"].as_array().map_or(0, Vec::len);
        Self::for_all("READY", json!({"user": data["user"]["username"], "guilds": guilds}))
    }

    /// Creates the event that the bot's permissions may have changed.
    pub(crate) fn permissions_changed() -> Self {
        Self::for_all(PERMISSIONS_CHANGED, Value::Null)
    }

    /// Creates the event that channels have new messages. Returns `None` if `channels` is empty.
    pub(crate) fn recent_channels_event(channels: &[RecentChannel]) -> Option<Self> {
        let has_some = !channels.is_empty();
        has_some.then(|| Self::for_all(RECENT_CHANNELS, json!(channels)))
    }

    /// Returns the channels that have new messages, or `None` if this is another event.
    #[must_use]
    pub fn recent_channels(&self) -> Option<Vec<RecentChannel>> {
        (self.name == RECENT_CHANNELS)
            .then(|| Deserialize::deserialize(&self.data).unwrap_or_default())
    }

    /// Creates the event that a person used a command, a button or a menu. The channel is taken
    /// from `data`.
    pub(crate) fn interaction(data: Value) -> Self {
        let channel = &data["channel"];
        let parent = match (channel["type"].as_u64(), data.get("guild_id")) {
            (Some(10..=12), _) => id_in(&channel["parent_id"])
                .map_or(Parent::Unknown, |parent| Parent::Known(Some(parent))),
            (Some(_), _) | (None, None | Some(Value::Null)) => Parent::Known(None),
            (None, Some(_)) => Parent::Unknown,
        };
        Self { parent, ..Self::for_all("INTERACTION_CREATE", data) }
    }

    /// Creates the event that a person used a button that this node does not know.
    pub(crate) fn forwarded_press(data: Value) -> Self {
        Self::for_all(FORWARDED_PRESS, data)
    }

    /// Creates the event of a channel: a message, an edit or a deletion.
    pub(crate) fn in_channel(
        (name, data): (&str, Value),
        names: Vec<Name>,
        parent: Parent,
        addressed: bool,
    ) -> Self {
        Self { name: name.to_owned(), data, names, parent, addressed }
    }

    /// Returns a key of at most 100 characters, which is the same if several logins receive the
    /// event or Discord sends it repeatedly. The key of an event for every node is its name.
    #[must_use]
    pub fn key(&self) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let id = text(&self.data["id"]);
        match self.name.as_str() {
            "MESSAGE_CREATE" => format!("message:{id}"),
            "MESSAGE_UPDATE" => format!("edit:{id}:{}", text(&self.data["edited_timestamp"])),
            "MESSAGE_DELETE" => format!("deletion:{id}"),
            "MESSAGE_DELETE_BULK" => {
                let digest = Sha256::digest(self.data["ids"].to_string());
                format!("deletions:{digest:x}")
            }
            "INTERACTION_CREATE" => format!("interaction:{id}"),
            other => other.to_ascii_lowercase(),
        }
        .chars()
        .take(100)
        .collect()
    }

    /// Returns the channel or thread of the event, or `None` if the event is for every node.
    #[must_use]
    pub fn channel(&self) -> Option<ChannelId> {
        let number = match self.name.as_str() {
            "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK" => {
                id_in(&self.data["channel_id"])
            }
            // Without a channel, the id of the interaction decides which node gets it.
            "INTERACTION_CREATE" => id_in(&self.data["channel_id"])
                .or_else(|| id_in(&self.data["channel"]["id"]))
                .or_else(|| id_in(&self.data["id"])),
            _ => None,
        };
        number.map(ChannelId::discord)
    }

    /// Returns the channel that the event's thread belongs to, or the channel of the event itself
    /// if it is not in a thread. Returns `None` if Discord has to be asked.
    #[must_use]
    pub fn root(&self) -> Option<ChannelId> {
        match self.parent {
            Parent::Known(Some(parent)) => Some(ChannelId::discord(parent)),
            Parent::Known(None) => self.channel(),
            Parent::Unknown => None,
        }
    }

    /// Sets the channel that [`GatewayEvent::root`] returns.
    pub fn set_root(&mut self, root: ChannelId) {
        if let Some(parent) = root.as_discord() {
            self.parent = Parent::Known((self.channel() != Some(root)).then_some(parent));
        }
    }

    /// Returns whether the event is a message that may be for the bot.
    #[must_use]
    pub fn is_addressed_message(&self) -> bool {
        self.addressed && self.name == "MESSAGE_CREATE"
    }

    /// Returns the id of the interaction, or `None` for any other event.
    pub(crate) fn interaction_id(&self) -> Option<u64> {
        (self.name == "INTERACTION_CREATE").then(|| id_in(&self.data["id"])).flatten()
    }
}

impl Debug for GatewayEvent {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("GatewayEvent")
            .field("name", &self.name)
            .field("channel", &self.channel())
            .field("parent", &self.parent)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str, data: Value) -> GatewayEvent {
        GatewayEvent::in_channel((name, data), Vec::new(), Parent::Unknown, true)
    }

    #[test]
    fn an_event_has_the_same_key_on_every_login_and_no_other_event_has_it() {
        let all = [
            message("MESSAGE_CREATE", json!({"id": "5", "channel_id": "6"})),
            message(
                "MESSAGE_UPDATE",
                json!({"id": "5", "channel_id": "6", "edited_timestamp": "1"}),
            ),
            message(
                "MESSAGE_UPDATE",
                json!({"id": "5", "channel_id": "6", "edited_timestamp": "2"}),
            ),
            message("MESSAGE_DELETE", json!({"id": "5", "channel_id": "6"})),
            message("MESSAGE_DELETE_BULK", json!({"ids": ["5"], "channel_id": "6"})),
            message("MESSAGE_DELETE_BULK", json!({"ids": ["5", "7"], "channel_id": "6"})),
            GatewayEvent::interaction(json!({"id": "5", "channel_id": "6", "token": "s3cret"})),
        ];
        let keys: std::collections::HashSet<String> = all.iter().map(GatewayEvent::key).collect();
        assert_eq!(keys.len(), all.len(), "{keys:?}");
        for event in all {
            assert_eq!(event.channel(), Some(ChannelId::discord(6)));
            let again = GatewayEvent { names: vec![("<@1>".into(), "@a".into())], ..event.clone() };
            assert_eq!(again.key(), event.key());
            assert!(!format!("{event:?}").contains("s3cret"));
        }
        for event in [
            GatewayEvent::permissions_changed(),
            GatewayEvent::ready(&Value::Null),
            GatewayEvent::forwarded_press(json!({"channel_id": "6"})),
        ] {
            assert_eq!(event.channel(), None);
        }
    }

    #[test]
    fn any_event_survives_serialization_and_its_key_is_short() {
        let long = "9".repeat(10_000);
        let strange = ["", "-1", "1\u{0}2", "\u{202e}", "\"}", "ä", long.as_str()];
        for name in
            ["MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE_BULK", "INTERACTION_CREATE", "?"]
        {
            for text in strange {
                for data in [
                    json!(null),
                    json!([text]),
                    json!({"id": text, "channel_id": text, "edited_timestamp": text, "ids": [text, 1, null]}),
                ] {
                    for parent in
                        [Parent::Unknown, Parent::Known(None), Parent::Known(Some(u64::MAX))]
                    {
                        let names = vec![(text.to_owned(), text.to_owned())];
                        let event = GatewayEvent { names, parent, ..message(name, data.clone()) };
                        let carried = serde_json::to_string(&event).expect("it can be written");
                        let read: GatewayEvent =
                            serde_json::from_str(&carried).expect("it can be read");
                        assert!(read == event && event.key().chars().count() <= 100, "{carried}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_interaction_names_its_channel_and_parent() {
        let parent = |data| GatewayEvent::interaction(data).parent;
        let thread = json!({"guild_id": "4", "channel": {"id": "3", "type": 11, "parent_id": "9"}});
        assert_eq!(parent(thread), Parent::Known(Some(9)));
        let in_category =
            json!({"guild_id": "4", "channel": {"id": "3", "type": 0, "parent_id": "9"}});
        let odd = json!({"guild_id": "4", "channel": {"id": "3", "type": 11}});
        assert_eq!(parent(odd), Parent::Unknown);
        assert_eq!(parent(in_category), Parent::Known(None));
        assert_eq!(parent(json!({"channel_id": "3"})), Parent::Known(None), "in private");
        assert_eq!(parent(json!({"guild_id": "4", "channel_id": "3"})), Parent::Unknown);
        assert_eq!(
            GatewayEvent::interaction(json!({"id": "5"})).channel(),
            Some(ChannelId::discord(5))
        );
    }
}
