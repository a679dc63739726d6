//! Messages, and what they bring along.

use serde::Deserialize;
use serenity::model::channel::{Message as GatewayMessage, MessageSnapshot};
use serenity::model::event::MessageUpdateEvent;

use super::{Member, User, id, ids, maybe_id};
use crate::event::Attached;

/// A message.
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
    /// Roles it names.
    #[serde(default, deserialize_with = "ids")]
    pub(in crate::discord) mention_roles: Vec<u64>,
    #[serde(default, deserialize_with = "maybe_id")]
    pub(in crate::discord) webhook_id: Option<u64>,
    /// 0 is a message, 19 a reply; all others are Discord's own.
    #[serde(rename = "type", default)]
    pub(in crate::discord) kind: u8,
    #[serde(default)]
    pub(in crate::discord) referenced_message: Option<Referenced>,
    /// What it forwards.
    #[serde(default)]
    pub(in crate::discord) message_snapshots: Vec<Snapshot>,
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

/// What a reaction shows.
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
    #[serde(default)]
    pub(in crate::discord) mentions: Vec<User>,
    /// None: nobody edited it.
    #[serde(default)]
    pub(in crate::discord) edited_timestamp: Option<String>,
}

impl From<&MessageUpdateEvent> for Edit {
    fn from(event: &MessageUpdateEvent) -> Self {
        Self {
            id: event.id.get(),
            channel_id: event.channel_id.get(),
            guild_id: event.guild_id.map(|id| id.get()),
            author: event.author.as_ref().map(User::from),
            content: event.content.clone(),
            mentions: event.mentions.iter().flatten().map(User::from).collect(),
            edited_timestamp: event.edited_timestamp.map(|at| at.to_string()),
        }
    }
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
pub(in crate::discord) struct Snapshot {
    pub(in crate::discord) message: Forwarded,
}

/// See [`Snapshot`].
#[derive(Clone, Debug, Deserialize)]
pub(in crate::discord) struct Forwarded {
    #[serde(default)]
    pub(in crate::discord) content: String,
    #[serde(default)]
    pub(in crate::discord) attachments: Vec<File>,
}

impl From<&GatewayMessage> for Message {
    fn from(message: &GatewayMessage) -> Self {
        Self {
            id: message.id.get(),
            channel_id: message.channel_id.get(),
            guild_id: message.guild_id.map(|id| id.get()),
            author: User::from(&message.author),
            member: message.member.as_ref().map(|member| Member {
                roles: member.roles.iter().map(|role| role.get()).collect(),
                nick: member.nick.clone(),
            }),
            content: message.content.clone(),
            mentions: message.mentions.iter().map(User::from).collect(),
            webhook_id: message.webhook_id.map(|id| id.get()),
            kind: u8::from(message.kind),
            mention_roles: message.mention_roles.iter().map(|role| role.get()).collect(),
            referenced_message: message.referenced_message.as_deref().map(Referenced::from),
            message_snapshots: message.message_snapshots.iter().map(Snapshot::from).collect(),
            reactions: Vec::new(),
            attachments: message.attachments.iter().map(File::from).collect(),
        }
    }
}

impl From<&GatewayMessage> for Referenced {
    fn from(message: &GatewayMessage) -> Self {
        Self {
            author: User::from(&message.author),
            content: message.content.clone(),
            mentions: message.mentions.iter().map(User::from).collect(),
            attachments: message.attachments.iter().map(File::from).collect(),
        }
    }
}

impl From<&MessageSnapshot> for Snapshot {
    fn from(message: &MessageSnapshot) -> Self {
        let attachments = message.attachments.iter().map(File::from).collect();
        Self { message: Forwarded { content: message.content.clone(), attachments } }
    }
}

impl From<&serenity::model::channel::Attachment> for File {
    fn from(file: &serenity::model::channel::Attachment) -> Self {
        Self {
            filename: file.filename.clone(),
            content_type: file.content_type.clone(),
            size: file.size.into(),
            url: file.url.clone(),
        }
    }
}
