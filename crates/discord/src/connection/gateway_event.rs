//! An event of the gateway, parsed once by the login that receives it.
//!
//! Nodes pass events to each other in Discord's own form. An event has a channel, and a key by which
//! duplicates from several logins are recognised. The node that gets the event handles it in the
//! module `router`.

use std::fmt::{self, Debug, Formatter};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::access::identity::Identity;
use crate::text::mention::Name;
use crate::wire::{Interaction, Message, MessageDeletion, MessageEdit};
use aetheel_model::id::ChannelId;

/// A channel or thread with new messages, which the bot may have missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecentChannel {
    pub(crate) guild: u64,
    pub(crate) channel: u64,
    pub(crate) parent: Option<u64>,
    /// The id after which the new messages begin.
    pub(crate) after: u64,
}

impl RecentChannel {
    /// Returns the channel that the thread belongs to, or the channel itself.
    pub(crate) fn root(&self) -> ChannelId {
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
    /// Returns the parent of an interaction's channel.
    pub(crate) fn of(interaction: &Interaction) -> Self {
        match &interaction.place {
            Some(place) if place.is_thread() => {
                place.parent_id.map_or(Self::Unknown, |parent| Self::Known(Some(parent)))
            }
            None if interaction.guild.is_some() => Self::Unknown,
            _ => Self::Known(None),
        }
    }

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

/// The content of an event. The names are Discord's, or defined here for derived events.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", content = "data")]
pub(crate) enum EventContent {
    #[serde(rename = "READY")]
    Ready { user: String, guilds: usize },
    #[serde(rename = "RESUMED")]
    Resumed(()),
    #[serde(rename = "MESSAGE_CREATE")]
    Message(Box<Message>),
    #[serde(rename = "MESSAGE_UPDATE")]
    Edited(Box<MessageEdit>),
    #[serde(rename = "MESSAGE_DELETE", alias = "MESSAGE_DELETE_BULK")]
    Deleted(MessageDeletion),
    #[serde(rename = "INTERACTION_CREATE")]
    Interaction(Box<Interaction>),
    /// A person pressed a button which the channel's node does not know. Another node may have
    /// posted the button, for example below a notice to the operator.
    #[serde(rename = "PRESS")]
    ForwardedPress(Box<Interaction>),
    /// The bot's permissions may have changed. Replaces several events of Discord.
    #[serde(rename = "PERMISSIONS")]
    PermissionsChanged(()),
    /// Channels of a guild have new messages. Only the node that is logged in processes it.
    #[serde(rename = "RECENT_CHANNELS")]
    RecentChannels(Vec<RecentChannel>),
}

/// An event of the gateway, with facts that only the login that received it knows. Contains
/// people's messages and tokens of interactions, which `Debug` leaves out.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct GatewayEvent {
    #[serde(flatten)]
    pub(crate) content: EventContent,
    /// Readable names of the mentions in it: the form in the text, and the name.
    pub(crate) names: Vec<Name>,
    /// The channel that the thread of the event belongs to.
    pub parent: Parent,
    /// Whether the message may be for the bot. Otherwise it matters only if the bot already takes
    /// part in the channel or reads everything, so it is not passed on if no node serves the
    /// channel.
    pub addressed: bool,
}

impl GatewayEvent {
    /// Creates an event for every node.
    pub(crate) fn for_all(content: EventContent) -> Self {
        Self { content, names: Vec::new(), parent: Parent::Unknown, addressed: true }
    }

    pub(crate) fn ready(data: &Value) -> Self {
        let user = data["user"]["username"].as_str().unwrap_or_default().to_owned();
        let guilds = data["guilds"].as_array().map_or(0, Vec::len);
        Self::for_all(EventContent::Ready { user, guilds })
    }

    pub(crate) fn permissions_changed() -> Self {
        Self::for_all(EventContent::PermissionsChanged(()))
    }

    /// Returns a key of at most 100 characters, which is the same if several logins receive the
    /// event or Discord sends it repeatedly. The key of an event for every node is its name.
    #[must_use]
    pub fn key(&self) -> String {
        let key = match &self.content {
            EventContent::Message(message) => format!("message:{}", message.id),
            EventContent::Edited(edit) => {
                format!("edit:{}:{}", edit.id, edit.edited_timestamp.as_deref().unwrap_or_default())
            }
            EventContent::Deleted(MessageDeletion { id: Some(id), .. }) => format!("deletion:{id}"),
            EventContent::Deleted(deletion) => {
                format!("deletions:{:x}", Sha256::digest(format!("{:?}", deletion.ids)))
            }
            EventContent::Interaction(interaction) => format!("interaction:{}", interaction.id),
            EventContent::Ready { .. } => "ready".to_owned(),
            EventContent::Resumed(()) => "resumed".to_owned(),
            EventContent::ForwardedPress(_) => "press".to_owned(),
            EventContent::PermissionsChanged(()) => "permissions".to_owned(),
            EventContent::RecentChannels(_) => "recent_channels".to_owned(),
        };
        key.chars().take(100).collect()
    }

    /// Returns the channel or thread of the event, or `None` if the event is for every node.
    #[must_use]
    pub fn channel(&self) -> Option<ChannelId> {
        match &self.content {
            EventContent::Message(message) => Some(message.channel_id),
            EventContent::Edited(edit) => Some(edit.channel_id),
            EventContent::Deleted(deletion) => Some(deletion.channel_id),
            EventContent::Interaction(interaction) => Some(interaction.channel),
            _ => None,
        }
        .map(ChannelId::discord)
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

    pub(crate) fn addressed_message(&self) -> Option<&Message> {
        match &self.content {
            EventContent::Message(message) if self.addressed => Some(message),
            _ => None,
        }
    }
}

impl Debug for GatewayEvent {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("GatewayEvent")
            .field("key", &self.key())
            .field("channel", &self.channel())
            .field("parent", &self.parent)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(name: &str, data: &Value) -> GatewayEvent {
        let content = EventContent::deserialize(json!({"name": name, "data": data}));
        GatewayEvent::for_all(content.expect("it can be read"))
    }

    fn interaction(data: &Value) -> GatewayEvent {
        let mut all = json!({"id": "5", "type": 3, "channel_id": "6", "token": "s3cret", "user": {"id": "7", "username": "ann"}});
        all.as_object_mut().expect("an object").extend(data.as_object().expect("one").clone());
        event("INTERACTION_CREATE", &all)
    }

    #[test]
    fn an_event_has_the_same_key_on_every_login_and_no_other_event_has_it() {
        let author = json!({"id": "7", "username": "ann"});
        let all = [
            event("MESSAGE_CREATE", &json!({"id": "5", "channel_id": "6", "author": author})),
            event(
                "MESSAGE_UPDATE",
                &json!({"id": "5", "channel_id": "6", "edited_timestamp": "1"}),
            ),
            event(
                "MESSAGE_UPDATE",
                &json!({"id": "5", "channel_id": "6", "edited_timestamp": "2"}),
            ),
            event("MESSAGE_DELETE", &json!({"id": "5", "channel_id": "6"})),
            event("MESSAGE_DELETE_BULK", &json!({"ids": ["5"], "channel_id": "6"})),
            event("MESSAGE_DELETE_BULK", &json!({"ids": ["5", "7"], "channel_id": "6"})),
            interaction(&json!({})),
        ];
        let keys: std::collections::HashSet<String> = all.iter().map(GatewayEvent::key).collect();
        assert_eq!(keys.len(), all.len(), "{keys:?}");
        for event in all {
            assert_eq!(event.channel(), Some(ChannelId::discord(6)));
            let again = GatewayEvent { names: vec![("<@1>".into(), "@a".into())], ..event.clone() };
            assert_eq!(again.key(), event.key());
            assert!(!format!("{event:?}").contains("s3cret"));
        }
        let EventContent::Interaction(press) = interaction(&json!({})).content else {
            panic!("an interaction")
        };
        for event in [
            GatewayEvent::permissions_changed(),
            GatewayEvent::ready(&Value::Null),
            GatewayEvent::for_all(EventContent::ForwardedPress(press)),
        ] {
            assert_eq!(event.channel(), None);
        }
    }

    #[test]
    fn any_event_survives_serialization_and_its_key_is_short() {
        let long = "9".repeat(10_000);
        for text in ["", "-1", "1\u{0}2", "\u{202e}", "\"}", "ä", long.as_str()] {
            let author = json!({"id": "7", "username": text, "global_name": null});
            let mut events = vec![
                GatewayEvent::permissions_changed(),
                GatewayEvent::for_all(EventContent::Resumed(())),
                GatewayEvent::ready(&json!({"user": author, "guilds": [text]})),
                event("MESSAGE_DELETE_BULK", &json!({"ids": [text, "1"], "channel_id": "6"})),
                event(
                    "MESSAGE_CREATE",
                    &json!({
                        "id": "5", "channel_id": "6", "guild_id": "4", "author": author, "content": text, "mentions": [author],
                        "member": {"roles": ["8"], "nick": text}, "mention_roles": ["8"], "referenced_message": {"author": author},
                        "message_snapshots": [{"message": {"content": text, "attachments": [{"filename": text, "url": text}]}}],
                    }),
                ),
                event(
                    "MESSAGE_UPDATE",
                    &json!({"id": "5", "channel_id": "6", "author": author, "mentions": null, "edited_timestamp": text}),
                ),
                interaction(&json!({
                    "member": {"user": author, "roles": ["8"], "nick": text}, "channel": {"type": 11, "parent_id": "9"}, "message": {"id": "3", "content": text},
                    "data": {"name": text, "options": [{"name": text, "value": 1}], "values": [text], "components": [{"components": [{"value": text}]}]},
                })),
            ];
            for parent in [Parent::Unknown, Parent::Known(None), Parent::Known(Some(u64::MAX))] {
                for event in &mut events {
                    event.names = vec![(text.to_owned(), text.to_owned())];
                    event.parent = parent;
                    let carried = serde_json::to_string(event).expect("it can be written");
                    let read: GatewayEvent =
                        serde_json::from_str(&carried).expect("it can be read");
                    assert!(read == *event && event.key().chars().count() <= 100, "{carried}");
                }
            }
        }
    }

    #[test]
    fn events_of_earlier_versions_are_read() {
        for (name, data) in [
            ("RESUMED", json!(null)),
            ("PERMISSIONS", json!(null)),
            ("READY", json!({"user": "bot", "guilds": 2})),
            ("MESSAGE_DELETE_BULK", json!({"ids": ["5"], "channel_id": "6", "guild_id": "4"})),
        ] {
            let old = json!({"name": name, "data": data, "names": [["<@1>", "@a"]], "parent": {"known": null}, "addressed": true});
            let read = GatewayEvent::deserialize(old).expect("it can be read");
            let expected = event(name, &data);
            assert!(read.content == expected.content && read.parent == Parent::Known(None));
        }
    }

    #[test]
    fn an_interaction_names_its_channel_and_parent() {
        let parent = |data| match interaction(&data).content {
            EventContent::Interaction(interaction) => Parent::of(&interaction),
            _ => panic!("an interaction"),
        };
        let thread = json!({"guild_id": "4", "channel": {"id": "3", "type": 11, "parent_id": "9"}});
        assert_eq!(parent(thread), Parent::Known(Some(9)));
        let in_category =
            json!({"guild_id": "4", "channel": {"id": "3", "type": 0, "parent_id": "9"}});
        let odd = json!({"guild_id": "4", "channel": {"id": "3", "type": 11}});
        assert_eq!(parent(odd), Parent::Unknown);
        assert_eq!(parent(in_category), Parent::Known(None));
        assert_eq!(parent(json!({"channel_id": "3"})), Parent::Known(None), "in private");
        assert_eq!(parent(json!({"guild_id": "4", "channel_id": "3"})), Parent::Unknown);
    }
}
