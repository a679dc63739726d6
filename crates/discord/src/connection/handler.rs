//! The events that serenity delivers, on the gateway's thread.
//!
//! That thread runs one task at a time, in order, and the task of an event never waits here. So
//! events are passed on in the order in which Discord sent them.
//!
//! serenity parses events into types that need every field it knows; an event that lacks one is
//! delivered as raw JSON. Here all events are read from JSON, either as Discord sent it or as
//! serenity writes it again. So `wire` describes events and answers to requests alike, and fields
//! that this crate does not use may change.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use serde::Deserialize as _;
use serde_json::{Value, json};
use serenity::all::{Guild, GuildChannel};
use serenity::client::{Context, RawEventHandler};
use serenity::model::event::Event;
use tokio::sync::watch;
use tracing::warn;

use super::gateway_event::{EventContent, GatewayEvent, Parent, RecentChannel};
use super::gateway_sink::EventCallback;
use super::phase::ConnectionPhase;
use crate::access::identity::Identity;
use crate::text::mention::{self, Name};
use crate::wire::{MISSED_SPAN, User, first_id_at, first_id_since, id_in};

/// Events without which the bot cannot work.
const REQUIRED_EVENTS: [&str; 5] =
    ["READY", "RESUMED", "MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE"];

/// Events after which the bot may have more permissions than before.
const PERMISSION_EVENTS: [&str; 8] = [
    "CHANNEL_UPDATE",
    "THREAD_UPDATE",
    "GUILD_CREATE",
    "GUILD_UPDATE",
    "GUILD_ROLE_CREATE",
    "GUILD_ROLE_UPDATE",
    "GUILD_ROLE_DELETE",
    "GUILD_MEMBER_UPDATE",
];

pub(crate) struct Handler {
    /// The generation of this login, and the current one. An abandoned login may still deliver
    /// events.
    pub(crate) generation: u64,
    pub(crate) current: Arc<AtomicU64>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) on_event: EventCallback,
    pub(crate) phase: Arc<watch::Sender<ConnectionPhase>>,
    pub(crate) warned: Mutex<HashSet<String>>,
}

#[async_trait]
impl RawEventHandler for Handler {
    async fn raw_event(&self, context: Context, event: Event) {
        if self.current.load(Ordering::SeqCst) != self.generation {
            return;
        }
        let (name, data) = match event {
            Event::Ready(_)
            | Event::Resumed(_)
            | Event::MessageCreate(_)
            | Event::MessageUpdate(_)
            | Event::MessageDelete(_)
            | Event::MessageDeleteBulk(_)
            | Event::GuildMemberUpdate(_)
            | Event::InteractionCreate(_) => match name_and_data(&event) {
                Some(written) => written,
                None => return,
            },
            Event::GuildCreate(event) => {
                let recent = recent_channels(&event.guild);
                if !recent.is_empty() {
                    (self.on_event)(GatewayEvent::for_all(EventContent::RecentChannels(recent)));
                }
                return (self.on_event)(GatewayEvent::permissions_changed());
            }
            // Guilds may be large, and their content is not needed.
            Event::ChannelUpdate(_)
            | Event::ThreadUpdate(_)
            | Event::GuildUpdate(_)
            | Event::GuildRoleCreate(_)
            | Event::GuildRoleUpdate(_)
            | Event::GuildRoleDelete(_) => {
                return (self.on_event)(GatewayEvent::permissions_changed());
            }
            Event::Unknown(unknown) => {
                let name = unknown.kind;
                if REQUIRED_EVENTS.contains(&name.as_str())
                    && self.warned.lock().insert(name.clone())
                {
                    warn!(event = %name, "discord sends this event in a form serenity does not know; reading what we need of it");
                }
                (name, unknown.value)
            }
            _ => return,
        };
        let is_login = name == "READY";
        if let Some(gateway_event) = self.gateway_event(&name, data, &context) {
            (self.on_event)(gateway_event);
        }
        if is_login {
            self.phase.send_replace(ConnectionPhase::Ready);
        }
    }
}

/// Returns the name and the content of an event, as Discord would have sent them.
fn name_and_data(event: &Event) -> Option<(String, Value)> {
    let mut written = serde_json::to_value(event).ok()?;
    let Value::String(name) = written["t"].take() else { return None };
    let mut data = written["d"].take();
    if let Event::InteractionCreate(event) = event {
        // serenity does not write this field.
        data["type"] = u8::from(event.interaction.kind()).into();
    }
    Some((name, data))
}

impl Handler {
    /// Parses an event and adds the facts that only this login knows. Returns `None` if the event
    /// is not relevant.
    fn gateway_event(&self, name: &str, data: Value, context: &Context) -> Option<GatewayEvent> {
        match name {
            "READY" => return Some(GatewayEvent::ready(&data)),
            "RESUMED" => return Some(GatewayEvent::for_all(EventContent::Resumed(()))),
            "MESSAGE_CREATE"
            | "MESSAGE_UPDATE"
            | "MESSAGE_DELETE"
            | "MESSAGE_DELETE_BULK"
            | "INTERACTION_CREATE" => {}
            "GUILD_MEMBER_UPDATE" if id_in(&data["user"]["id"]) != Some(self.identity.id) => {
                return None;
            }
            _ => {
                let changed = PERMISSION_EVENTS.contains(&name);
                return changed.then(GatewayEvent::permissions_changed);
            }
        }
        let content = self.read(name, data)?;
        let (names, parent, addressed) = match &content {
            // Messages of bots are never for this bot, and not examined further.
            EventContent::Message(message) if message.author.bot => return None,
            EventContent::Message(message) => {
                let names = names(&message.content, &message.mentions, message.guild_id, context);
                let parent = parent(message.channel_id, message.guild_id, context);
                (names, parent, parent.may_address(&self.identity, message))
            }
            // Without the time of an edit, Discord only added previews. Edits of bots are frequent
            // and never relevant.
            EventContent::Edited(edit)
                if edit.edited_timestamp.is_none()
                    || edit.author.as_ref().is_some_and(|author| author.bot) =>
            {
                return None;
            }
            EventContent::Edited(edit) => {
                let content = edit.content.as_deref().unwrap_or_default();
                let names = names(content, &edit.mentions, edit.guild_id, context);
                (names, parent(edit.channel_id, edit.guild_id, context), false)
            }
            EventContent::Deleted(deletion) => {
                (Vec::new(), parent(deletion.channel_id, deletion.guild_id, context), false)
            }
            EventContent::Interaction(interaction) => (Vec::new(), Parent::of(interaction), true),
            _ => return None,
        };
        Some(GatewayEvent { content, names, parent, addressed })
    }

    /// Parses an event. Logs the first of each kind that cannot be parsed.
    fn read(&self, name: &str, data: Value) -> Option<EventContent> {
        EventContent::deserialize(json!({"name": name, "data": data}))
            .inspect_err(|error| {
                if self.warned.lock().insert(format!("{name} (unreadable)")) {
                    warn!(event = name, %error, "an event of discord cannot be read and is dropped");
                }
            })
            .ok()
    }
}

/// Returns the channels and threads of a guild that have messages which the bot still answers. The
/// bot was not there for messages from before it joined.
fn recent_channels(guild: &Guild) -> Vec<RecentChannel> {
    let after = first_id_since(MISSED_SPAN).max(first_id_at(guild.joined_at.unix_timestamp()));
    let is_recent =
        |channel: &&GuildChannel| channel.last_message_id.is_some_and(|id| id.get() > after);
    let of_guild = |channel: &GuildChannel| RecentChannel {
        guild: guild.id.get(),
        channel: channel.id.get(),
        parent: channel.thread_metadata.and(channel.parent_id).map(|id| id.get()),
        after,
    };
    guild.channels.values().chain(&guild.threads).filter(is_recent).map(of_guild).collect()
}

/// Returns the channel that a thread belongs to, as far as this login knows.
fn parent(channel: u64, guild: Option<u64>, context: &Context) -> Parent {
    let Some(guild) = guild else { return Parent::Known(None) };
    let Some(guild) = context.cache.guild(guild) else { return Parent::Unknown };
    if let Some(thread) = guild.threads.iter().find(|thread| thread.id == channel) {
        Parent::Known(thread.parent_id.map(|id| id.get()))
    } else if guild.channels.keys().any(|id| id.get() == channel) {
        Parent::Known(None)
    } else {
        Parent::Unknown
    }
}

fn names(content: &str, mentions: &[User], guild: Option<u64>, context: &Context) -> Vec<Name> {
    let mut names: Vec<Name> = mentions
        .iter()
        .flat_map(|user| mention::user_names(user.id, user.display_name()))
        .collect();
    if let Some(guild) = guild.and_then(|id| context.cache.guild(id)) {
        for id in mention::ids_behind(content, "<#") {
            if let Some((_, channel)) = guild.channels.iter().find(|(known, _)| known.get() == id) {
                names.push((format!("<#{id}>"), format!("#{}", channel.name)));
            }
        }
        for id in mention::ids_behind(content, "<@&") {
            if let Some((_, role)) = guild.roles.iter().find(|(known, _)| known.get() == id) {
                names.push((format!("<@&{id}>"), format!("@{}", role.name)));
            }
        }
    }
    names
}
