//! Messages and their parts.

use serde::{Deserialize, Deserializer, Serialize};

use super::{Member, User, id, or_default};
use aetheel_model::event::AttachedFile;

/// A message, with the fields that are used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Message {
    #[serde(with = "id")]
    pub(crate) id: u64,
    #[serde(with = "id")]
    pub(crate) channel_id: u64,
    /// The guild. Missing in messages from Discord's HTTP interface, even in guilds.
    #[serde(default, with = "id::maybe")]
    pub(crate) guild_id: Option<u64>,
    pub(crate) author: User,
    #[serde(default)]
    pub(crate) member: Option<Member>,
    #[serde(default)]
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) mentions: Vec<User>,
    #[serde(default, with = "id::list")]
    pub(crate) mention_roles: Vec<u64>,
    #[serde(default, with = "id::maybe")]
    pub(crate) webhook_id: Option<u64>,
    /// Discord's message type: 0 is a message and 19 a reply. Discord itself creates those of all
    /// other types.
    #[serde(rename = "type", default)]
    pub(crate) kind: u8,
    #[serde(default)]
    pub(crate) referenced_message: Option<ReferencedMessage>,
    /// The messages that this message forwards.
    #[serde(default, deserialize_with = "forwarded")]
    pub(crate) message_snapshots: Vec<ForwardedMessage>,
    #[serde(default)]
    pub(crate) attachments: Vec<MessageFile>,
    /// The reactions. Present only in messages from Discord's HTTP interface.
    #[serde(default)]
    pub(crate) reactions: Vec<Reaction>,
}

/// The reactions to a message with one emoji.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reaction {
    pub(crate) emoji: Emoji,
    /// Whether the bot is among those who reacted.
    #[serde(default)]
    pub(crate) me: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Emoji {
    #[serde(default)]
    pub(crate) name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MessageFile {
    pub(crate) filename: String,
    #[serde(default)]
    pub(crate) content_type: Option<String>,
    #[serde(default)]
    pub(crate) size: u64,
    pub(crate) url: String,
}

impl From<MessageFile> for AttachedFile {
    fn from(file: MessageFile) -> Self {
        Self {
            name: file.filename,
            media_type: file.content_type,
            size: file.size,
            source: file.url,
        }
    }
}

/// A message that was changed by its author, or by Discord, which adds previews of links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MessageEdit {
    #[serde(with = "id")]
    pub(crate) id: u64,
    #[serde(with = "id")]
    pub(crate) channel_id: u64,
    #[serde(default, with = "id::maybe")]
    pub(crate) guild_id: Option<u64>,
    #[serde(default)]
    pub(crate) author: Option<User>,
    #[serde(default)]
    pub(crate) content: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) mentions: Vec<User>,
    /// The time of the edit. `None` if the author did not edit the message.
    #[serde(default)]
    pub(crate) edited_timestamp: Option<String>,
}

/// The deletion of one message, or of several at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MessageDeletion {
    #[serde(default, with = "id::maybe")]
    pub(crate) id: Option<u64>,
    #[serde(default, with = "id::list")]
    pub(crate) ids: Vec<u64>,
    #[serde(with = "id")]
    pub(crate) channel_id: u64,
    #[serde(
        default,
        serialize_with = "id::maybe::serialize",
        deserialize_with = "id::maybe::or_none"
    )]
    pub(crate) guild_id: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReferencedMessage {
    pub(crate) author: User,
    #[serde(default)]
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) mentions: Vec<User>,
    #[serde(default)]
    pub(crate) attachments: Vec<MessageFile>,
}

/// A message that another one forwards. Discord does not send its author.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ForwardedMessage {
    #[serde(default)]
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) attachments: Vec<MessageFile>,
}

/// Parses forwarded messages, wrapped as Discord sends them or bare as serenity writes them.
fn forwarded<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<ForwardedMessage>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Snapshot {
        Wrapped { message: ForwardedMessage },
        Bare(ForwardedMessage),
    }
    let bare = |snapshot| match snapshot {
        Snapshot::Wrapped { message } | Snapshot::Bare(message) => message,
    };
    Ok(Vec::<Snapshot>::deserialize(deserializer)?.into_iter().map(bare).collect())
}
