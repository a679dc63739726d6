//! Messages, and what they bring along.

use serde::{Deserialize, Deserializer};

use super::{Member, User, id, ids, maybe_id};
use crate::event::Attached;

/// A message, as far as Discord's object is read here.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::discord) struct Message {
    #[serde(deserialize_with = "id")]
    pub(in crate::discord) id: u64,
    #[serde(deserialize_with = "id")]
    pub(in crate::discord) channel_id: u64,
    /// Missing in what the HTTP interface returns, also in guilds.
    #[serde(default, deserialize_with = "maybe_id")]
    pub(in crate::discord) guild_id: Option<u64>,
    pub(in crate::discord) author: User,
    #[serde(default)]
    pub(in crate::discord) member: Option<Member>,
    #[serde(default)]
    pub(in crate::discord) content: String,
    #[serde(default)]
    pub(in crate::discord) mentions: Vec<User>,
    /// Roles that its text mentions.
    #[serde(default, deserialize_with = "ids")]
    pub(in crate::discord) mention_roles: Vec<u64>,
    #[serde(default, deserialize_with = "maybe_id")]
    pub(in crate::discord) webhook_id: Option<u64>,
    /// 0 is a message, 19 a reply; all others are Discord's own.
    #[serde(rename = "type", default)]
    pub(in crate::discord) kind: u8,
    #[serde(default)]
    pub(in crate::discord) referenced_message: Option<Referenced>,
    /// The messages it forwards.
    #[serde(default, deserialize_with = "forwarded")]
    pub(in crate::discord) message_snapshots: Vec<Forwarded>,
    #[serde(default)]
    pub(in crate::discord) attachments: Vec<File>,
    /// Only in what the HTTP interface returns.
    #[serde(default)]
    pub(in crate::discord) reactions: Vec<Reaction>,
}

/// The reactions of one kind to a message.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::discord) struct Reaction {
    pub(in crate::discord) emoji: Emoji,
    /// The bot's is among them.
    #[serde(default)]
    pub(in crate::discord) me: bool,
}

/// The emoji of a reaction.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::discord) struct Emoji {
    #[serde(default)]
    pub(in crate::discord) name: Option<String>,
}

/// A file that came with a message.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::discord) struct File {
    pub(in crate::discord) filename: String,
    #[serde(default)]
    pub(in crate::discord) content_type: Option<String>,
    #[serde(default)]
    pub(in crate::discord) size: u64,
    pub(in crate::discord) url: String,
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
pub(in crate::discord) struct Edit {
    #[serde(deserialize_with = "id")]
    pub(in crate::discord) id: u64,
    #[serde(deserialize_with = "id")]
    pub(in crate::discord) channel_id: u64,
    #[serde(default, deserialize_with = "maybe_id")]
    pub(in crate::discord) guild_id: Option<u64>,
    #[serde(default)]
    pub(in crate::discord) author: Option<User>,
    #[serde(default)]
    pub(in crate::discord) content: Option<String>,
    #[serde(default, deserialize_with = "users")]
    pub(in crate::discord) mentions: Vec<User>,
    /// None: nobody edited it.
    #[serde(default)]
    pub(in crate::discord) edited_timestamp: Option<String>,
}

/// The message another one replies to.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::discord) struct Referenced {
    pub(in crate::discord) author: User,
    #[serde(default)]
    pub(in crate::discord) content: String,
    #[serde(default)]
    pub(in crate::discord) mentions: Vec<User>,
    #[serde(default)]
    pub(in crate::discord) attachments: Vec<File>,
}

/// A message that another one forwards: Discord does not say who wrote it.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::discord) struct Forwarded {
    #[serde(default)]
    pub(in crate::discord) content: String,
    #[serde(default)]
    pub(in crate::discord) attachments: Vec<File>,
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
