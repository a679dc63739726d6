//! Messages, and what they bring along.

use serde::{Deserialize, Deserializer};

use super::{Member, User, id, ids, maybe_id};
use aetheel_model::event::Attached;

/// A message, as far as Discord's object is read here.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Message {
    #[serde(deserialize_with = "id")]
    pub(crate) id: u64,
    #[serde(deserialize_with = "id")]
    pub(crate) channel_id: u64,
    /// Missing in what the HTTP interface returns, also in guilds.
    #[serde(default, deserialize_with = "maybe_id")]
    pub(crate) guild_id: Option<u64>,
    pub(crate) author: User,
    #[serde(default)]
    pub(crate) member: Option<Member>,
    #[serde(default)]
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) mentions: Vec<User>,
    /// Roles that its text mentions.
    #[serde(default, deserialize_with = "ids")]
    pub(crate) mention_roles: Vec<u64>,
    #[serde(default, deserialize_with = "maybe_id")]
    pub(crate) webhook_id: Option<u64>,
    /// 0 is a message, 19 a reply; all others are Discord's own.
    #[serde(rename = "type", default)]
    pub(crate) kind: u8,
    #[serde(default)]
    pub(crate) referenced_message: Option<Referenced>,
    /// The messages it forwards.
    #[serde(default, deserialize_with = "forwarded")]
    pub(crate) message_snapshots: Vec<Forwarded>,
    #[serde(default)]
    pub(crate) attachments: Vec<File>,
    /// Only in what the HTTP interface returns.
    #[serde(default)]
    pub(crate) reactions: Vec<Reaction>,
}

/// The reactions of one kind to a message.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Reaction {
    pub(crate) emoji: Emoji,
    /// The bot's is among them.
    #[serde(default)]
    pub(crate) me: bool,
}

/// The emoji of a reaction.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Emoji {
    #[serde(default)]
    pub(crate) name: Option<String>,
}

/// A file that came with a message.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct File {
    pub(crate) filename: String,
    #[serde(default)]
    pub(crate) content_type: Option<String>,
    #[serde(default)]
    pub(crate) size: u64,
    pub(crate) url: String,
}

impl From<File> for Attached {
    fn from(file: File) -> Self {
        Self {
            name: file.filename,
            media_type: file.content_type,
            size: file.size,
            source: file.url,
        }
    }
}

/// A message that was changed: by its author, or by Discord, which adds previews of links.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Edit {
    #[serde(deserialize_with = "id")]
    pub(crate) id: u64,
    #[serde(deserialize_with = "id")]
    pub(crate) channel_id: u64,
    #[serde(default, deserialize_with = "maybe_id")]
    pub(crate) guild_id: Option<u64>,
    #[serde(default)]
    pub(crate) author: Option<User>,
    #[serde(default)]
    pub(crate) content: Option<String>,
    #[serde(default, deserialize_with = "users")]
    pub(crate) mentions: Vec<User>,
    /// None: nobody edited it.
    #[serde(default)]
    pub(crate) edited_timestamp: Option<String>,
}

/// The message another one replies to.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Referenced {
    pub(crate) author: User,
    #[serde(default)]
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) mentions: Vec<User>,
    #[serde(default)]
    pub(crate) attachments: Vec<File>,
}

/// A message that another one forwards: Discord does not say who wrote it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Forwarded {
    #[serde(default)]
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) attachments: Vec<File>,
}

/// Reads messages as Discord wraps them, and bare, as serenity writes them.
fn forwarded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Forwarded>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Snapshot {
        Wrapped { message: Forwarded },
        Bare(Forwarded),
    }
    let bare = |snapshot| match snapshot {
        Snapshot::Wrapped { message } | Snapshot::Bare(message) => message,
    };
    Ok(Vec::<Snapshot>::deserialize(deserializer)?.into_iter().map(bare).collect())
}

/// Reads users; serenity writes null where Discord left them out.
fn users<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<User>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
