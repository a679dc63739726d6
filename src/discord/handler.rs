//! What serenity hands over, on the gateway's thread.
//!
//! That thread runs one task at a time, first come first served, and every event's task begins here
//! without waiting for anything: so arrivals leave in the order Discord sent them. serenity drops
//! events whose form it does not know without a word; we read them ourselves and say so.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde::Deserialize;
use serenity::client::{Context, RawEventHandler};
use serenity::model::application::{CommandInteraction, Interaction, ResolvedValue};
use serenity::model::channel::ChannelType;
use serenity::model::event::Event;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{info, warn};

use super::api::{Api, nonce};
use super::asker::Asker;
use super::asks::{Asks, Press, Presses};
use super::commands::{self, Verb, Who};
use super::gateway::Phase;
use super::interactions::{Ack, Interactions};
use super::mention::{self, Name};
use super::panel::{Caller, Panels};
use super::reception::{Arrival, CLOSING, Heard, Parent, stop_text};
use super::rest::Patience;
use super::wire::{Edit, Message, Slash, User, WORDS};
use super::{Accept, Identity, Inner, Windows};
use crate::dispatch::Dispatcher;
use crate::event::Lane;

/// Discord waits three seconds for the acknowledgement of an interaction.
const ACK: Patience = Patience::new(Duration::from_millis(1_500), Duration::from_millis(2_800));
/// Events without which we are deaf.
const NEEDED: [&str; 5] =
    ["READY", "RESUMED", "MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE"];

/// Events behind which the bot may do more than before.
const PERMISSIONS: [&str; 8] = [
    "CHANNEL_UPDATE",
    "THREAD_UPDATE",
    "GUILD_CREATE",
    "GUILD_UPDATE",
    "GUILD_ROLE_CREATE",
    "GUILD_ROLE_UPDATE",
    "GUILD_ROLE_DELETE",
    "GUILD_MEMBER_UPDATE",
];

/// Takes events of one login.
pub(super) struct Handler {
    /// Which login this is, and which one counts: an abandoned one may still speak.
    pub(super) generation: u64,
    pub(super) current: Arc<AtomicU64>,
    pub(super) inner: Arc<Inner>,
    pub(super) api: Api,
    pub(super) identity: Arc<Identity>,
    pub(super) interactions: Arc<Interactions>,
    pub(super) asks: Arc<Asks>,
    pub(super) panels: Arc<Panels>,
    pub(super) dispatcher: Dispatcher,
    pub(super) accept: Option<Accept>,
    pub(super) arrivals: mpsc::UnboundedSender<Arrival>,
    pub(super) phase: Arc<watch::Sender<Phase>>,
    pub(super) windows: Windows,
    pub(super) alias: Option<String>,
    pub(super) warned: Mutex<HashSet<String>>,
}

#[async_trait]
impl RawEventHandler for Handler {
    async fn raw_event(&self, context: Context, event: Event) {
        if self.current.load(Ordering::SeqCst) != self.generation {
            return;
        }
        match event {
            Event::Ready(event) => {
                let (user, guilds) = (event.ready.user.name.clone(), event.ready.guilds.len());
                let _ = self.arrivals.send(Arrival::LoggedIn { user, guilds });
                self.phase.send_replace(Phase::Ready);
                self.connected();
            }
            Event::Resumed(_) => {
                info!("discord session resumed; nothing was missed");
                self.connected();
            }
            Event::MessageCreate(event) => self.message(Message::from(&event.message), &context),
            Event::MessageUpdate(event) => self.edit(Edit::from(&event), &context),
            Event::MessageDelete(event) => {
                self.deleted(event.channel_id.get(), vec![event.message_id.get()])
            }
            Event::MessageDeleteBulk(event) => {
                self.deleted(event.channel_id.get(), event.ids.iter().map(|id| id.get()).collect())
            }
            Event::InteractionCreate(event) => match &event.interaction {
                Interaction::Command(command) => self.slash(slash(command)),
                Interaction::Autocomplete(typed) => {
                    self.complete(serde_json::to_value(typed).ok().as_ref())
                }
                // Written again, so that there is one reading of them.
                Interaction::Component(press) => {
                    self.press(serde_json::to_value(press).ok().as_ref())
                }
                Interaction::Modal(press) => self.press(serde_json::to_value(press).ok().as_ref()),
                _ => {}
            },
            Event::ChannelUpdate(_)
            | Event::ThreadUpdate(_)
            | Event::GuildCreate(_)
            | Event::GuildUpdate(_)
            | Event::GuildRoleCreate(_)
            | Event::GuildRoleUpdate(_)
            | Event::GuildRoleDelete(_) => self.permissions_changed(),
            Event::GuildMemberUpdate(event) if event.user.id.get() == self.identity.id => {
                self.permissions_changed()
            }
            Event::Unknown(unknown) if PERMISSIONS.contains(&unknown.kind.as_str()) => {
                self.permissions_changed()
            }
            Event::Unknown(unknown) if NEEDED.contains(&unknown.kind.as_str()) => {
                if self.warned.lock().insert(unknown.kind.clone()) {
                    warn!(event = %unknown.kind, "discord sends this event in a form serenity does not know; reading what we need of it");
                }
                match unknown.kind.as_str() {
                    "MESSAGE_CREATE" => {
                        if let Ok(message) = Message::deserialize(&unknown.value) {
                            self.message(message, &context);
                        }
                    }
                    "MESSAGE_UPDATE" => {
                        if let Ok(edit) = Edit::deserialize(&unknown.value) {
                            self.edit(edit, &context);
                        }
                    }
                    "INTERACTION_CREATE" => {
                        if let Some(slash) = Slash::read(&unknown.value) {
                            self.slash(slash);
                        } else if unknown.value["type"] == 4 {
                            self.complete(Some(&unknown.value));
                        } else if matches!(unknown.value["type"].as_u64(), Some(3 | 5)) {
                            self.press(Some(&unknown.value));
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

impl Handler {
    /// What is held up because Discord was away is tried again; nobody knows what changed
    /// meanwhile.
    fn connected(&self) {
        self.inner.api.rest.heard_of();
        self.permissions_changed();
    }

    fn permissions_changed(&self) {
        self.inner.api.permissions_changed();
        self.inner.holding.permissions_changed();
    }

    fn message(&self, message: Message, context: &Context) {
        // Most messages are none of our business: look no further at those of programs.
        if message.author.bot {
            return;
        }
        let names = names(&message.content, &message.mentions, message.guild_id, context);
        let mut parent =
            if message.guild_id.is_none() { Parent::Known(None) } else { Parent::Unknown };
        if let Some(guild) = message.guild_id.and_then(|id| context.cache.guild(id)) {
            let thread = guild.threads.iter().find(|thread| thread.id == message.channel_id);
            if let Some(thread) = thread {
                parent = Parent::Known(thread.parent_id.map(|id| id.get()));
            } else if guild.channels.keys().any(|id| id.get() == message.channel_id) {
                parent = Parent::Known(None);
            }
        }
        let _ = self.arrivals.send(Arrival::Message { message: Box::new(message), names, parent });
    }

    fn edit(&self, edit: Edit, context: &Context) {
        // Without the time, Discord only added previews; programs edit all the time, we ourselves
        // most of all.
        if edit.edited_timestamp.is_none() || edit.author.as_ref().is_some_and(|author| author.bot)
        {
            return;
        }
        let names = names(
            edit.content.as_deref().unwrap_or_default(),
            &edit.mentions,
            edit.guild_id,
            context,
        );
        let _ = self.arrivals.send(Arrival::Edited(Box::new(edit), names));
    }

    fn deleted(&self, channel: u64, messages: Vec<u64>) {
        let _ = self.arrivals.send(Arrival::Deleted(channel, messages));
    }

    fn slash(&self, slash: Slash) {
        let asker = Asker {
            user: slash.user.id,
            roles: slash.roles.clone(),
            channel: slash.channel,
            parent: slash.parent,
            guild: slash.guild,
            owner: self.identity.owners.contains(&slash.user.id),
        };
        let Some(command) = commands::command(&slash.name, self.alias.as_deref()) else {
            return self.refuse(&slash, "I do not know this command any more. Use `/ask`.");
        };
        let verb = command.verb;
        if let Err(why) = self.identity.admit(&asker) {
            self.identity.log_refusal(&asker, &why);
            return self.refuse(&slash, "You may not use me here.");
        }
        if let Some(parent) = slash.parent {
            self.dispatcher.learn(slash.channel, parent);
        }
        if command.who == Who::Owners && !asker.owner {
            self.identity.log_refusal(&asker, &format!("`/{}` is for owners", command.name));
            return self.refuse(&slash, "Only my owner may do that.");
        }
        if let Verb::Panel(order) = verb {
            return self.panels.slash(Caller::from(&slash), order, slash.given);
        }
        let ack = self.interactions.open(
            slash.interaction,
            slash.token.clone(),
            self.windows.interaction,
        );
        let (api, interaction, token) = (self.api.clone(), slash.interaction, slash.token.clone());
        let (channel, patience) = (slash.channel, self.windows.send);
        let (kept, is_kept) = oneshot::channel();
        let doors = Arc::clone(&self.interactions);
        tokio::spawn(async move {
            let told = match is_kept.await.unwrap_or_else(|_| Err(CLOSING.to_owned())) {
                Ok(Heard::Kept) => None,
                Ok(Heard::Done(answer)) => {
                    Some(match api.answer_at_once(interaction, &token, &answer, ACK).await {
                        // It is done, whether or not the command can still be answered.
                        Err(_) => {
                            api.post(channel, None, &nonce(), &answer, patience).await.map(drop)
                        }
                        said => said,
                    })
                }
                Err(why) => Some(api.answer_privately(interaction, &token, &why, ACK).await),
            };
            if let Some(told) = told {
                doors.take(interaction);
                ack.send_replace(Ack::Lost);
                if let Err(error) = told {
                    warn!(interaction, %error, "cannot answer a command");
                }
                return;
            }
            let taken = api.defer(interaction, &token, ACK).await;
            if let Err(error) = &taken {
                warn!(interaction, %error, "cannot acknowledge a command in time; the answer comes as a message");
            }
            ack.send_replace(if taken.is_ok() { Ack::Taken } else { Ack::Lost });
        });
        if verb != Verb::Stop {
            let _ = self.arrivals.send(Arrival::Slash(Box::new(slash), verb, kept));
            return;
        }
        // Stopping does not wait its turn. It is told when it is on disk.
        let dispatcher = self.dispatcher.clone();
        tokio::spawn(async move {
            let stopped = dispatcher.stop_for_good(&Lane::Channel(channel)).await;
            let _ = kept.send(Ok(Heard::Done(stop_text(stopped).into())));
        });
    }

    fn complete(&self, value: Option<&serde_json::Value>) {
        if let Some(value) = value {
            self.panels.complete(value);
        }
    }

    fn press(&self, value: Option<&serde_json::Value>) {
        if value.is_some_and(|value| self.panels.press(value)) {
            return;
        }
        let Some(press) = value.and_then(Press::read) else {
            return warn!("discord sends the press of a button in a form that is not known");
        };
        let presses = Presses {
            api: self.api.clone(),
            identity: Arc::clone(&self.identity),
            asks: Arc::clone(&self.asks),
            dispatcher: self.dispatcher.clone(),
            accept: self.accept.clone(),
        };
        tokio::spawn(async move { presses.answer(press).await });
    }

    fn refuse(&self, slash: &Slash, text: &'static str) {
        let (api, interaction, token) = (self.api.clone(), slash.interaction, slash.token.clone());
        tokio::spawn(async move {
            if let Err(error) = api.answer_privately(interaction, &token, text, ACK).await {
                warn!(interaction, %error, "cannot answer a command");
            }
        });
    }
}

/// Readable names of what a message mentions.
fn names(content: &str, mentions: &[User], guild: Option<u64>, context: &Context) -> Vec<Name> {
    let mut names: Vec<Name> =
        mentions.iter().flat_map(|user| mention::user_names(user.id, user.shown())).collect();
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

fn slash(command: &CommandInteraction) -> Slash {
    let channel = command.channel.as_ref();
    let in_thread = channel.is_some_and(|c| {
        matches!(
            c.kind,
            ChannelType::PublicThread | ChannelType::PrivateThread | ChannelType::NewsThread
        )
    });
    let prompt = command.data.options().into_iter().find_map(|option| match option.value {
        ResolvedValue::String(text) if WORDS.contains(&option.name) => Some(text.to_owned()),
        _ => None,
    });
    let given = command.data.options().into_iter().filter_map(|option| match option.value {
        ResolvedValue::String(text) => Some((option.name.to_owned(), text.to_owned())),
        _ => None,
    });
    Slash {
        interaction: command.id.get(),
        token: command.token.clone(),
        channel: command.channel_id.get(),
        parent: channel
            .filter(|_| in_thread)
            .and_then(|channel| channel.parent_id)
            .map(|id| id.get()),
        guild: command.guild_id.map(|id| id.get()),
        user: (&command.user).into(),
        roles: command
            .member
            .iter()
            .flat_map(|member| &member.roles)
            .map(|role| role.get())
            .collect(),
        nick: command.member.as_ref().and_then(|member| member.nick.clone()),
        name: command.data.name.clone(),
        prompt: prompt.unwrap_or_default(),
        given: given.collect(),
    }
}
