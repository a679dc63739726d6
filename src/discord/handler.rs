//! The events serenity hands over, on the gateway's thread.
//!
//! That thread runs one task at a time, first come first served, and every event's task begins here
//! without waiting for anything: so arrivals leave in the order Discord sent them.
//!
//! serenity takes events apart into types of its own, which need every field they know; an event
//! that lacks one comes as it was sent. Here each is read in one way, from JSON: as Discord sent it,
//! or as serenity writes it again. So `wire` says what we need of an event and of an answer to a
//! request alike, and a field that we do not use may change.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use serenity::client::{Context, RawEventHandler};
use serenity::model::event::Event;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{info, warn};

use super::api::{Api, nonce};
use super::asker::Asker;
use super::asks::{Asks, Press, Presses};
use super::commands::{self, Verb, Who};
use super::dashboard;
use super::gateway::Phase;
use super::interactions::{Ack, Interactions};
use super::mention::{self, Name};
use super::panel::{Caller, Panels};
use super::reception::{Arrival, CLOSING, Outcome, Parent, stop_text};
use super::rest::Timeouts;
use super::wire::{Edit, Message, Slash, User, id_in};
use super::{Accept, Identity, Inner, Windows};
use crate::dispatch::Dispatcher;
use crate::event::Lane;

/// Discord waits three seconds for the acknowledgement of an interaction.
const ACK_TIMEOUTS: Timeouts =
    Timeouts::new(Duration::from_millis(1_500), Duration::from_millis(2_800));
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
        let (name, data) = match event {
            Event::Ready(_)
            | Event::Resumed(_)
            | Event::MessageCreate(_)
            | Event::MessageUpdate(_)
            | Event::MessageDelete(_)
            | Event::MessageDeleteBulk(_)
            | Event::GuildMemberUpdate(_)
            | Event::InteractionCreate(_) => match written(&event) {
                Some(written) => written,
                None => return,
            },
            // Guilds may be large, and it is enough to hear of them.
            Event::ChannelUpdate(_)
            | Event::ThreadUpdate(_)
            | Event::GuildCreate(_)
            | Event::GuildUpdate(_)
            | Event::GuildRoleCreate(_)
            | Event::GuildRoleUpdate(_)
            | Event::GuildRoleDelete(_) => return self.permissions_changed(),
            Event::Unknown(unknown) => {
                let name = unknown.kind;
                if NEEDED.contains(&name.as_str()) && self.warned.lock().insert(name.clone()) {
                    warn!(event = %name, "discord sends this event in a form serenity does not know; reading what we need of it");
                }
                (name, unknown.value)
            }
            _ => return,
        };
        self.read(&name, &data, &context);
    }
}

/// The name of an event and what it says, as Discord would have sent it.
fn written(event: &Event) -> Option<(String, Value)> {
    let mut written = serde_json::to_value(event).ok()?;
    let Value::String(name) = written["t"].take() else { return None };
    let mut data = written["d"].take();
    if let Event::InteractionCreate(event) = event {
        // The one field that serenity does not write.
        data["type"] = u8::from(event.interaction.kind()).into();
    }
    Some((name, data))
}

impl Handler {
    fn read(&self, name: &str, data: &Value, context: &Context) {
        match name {
            "READY" => {
                let user = data["user"]["username"].as_str().unwrap_or_default().to_owned();
                let guilds = data["guilds"].as_array().map_or(0, Vec::len);
                let _ = self.arrivals.send(Arrival::LoggedIn { user, guilds });
                self.phase.send_replace(Phase::Ready);
                self.connected();
            }
            "RESUMED" => {
                info!("discord session resumed; nothing was missed");
                self.connected();
            }
            "MESSAGE_CREATE" => {
                if let Ok(message) = Message::deserialize(data) {
                    self.message(message, context);
                }
            }
            "MESSAGE_UPDATE" => {
                if let Ok(edit) = Edit::deserialize(data) {
                    self.edit(edit, context);
                }
            }
            "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK" => {
                let ids = data["ids"].as_array().into_iter().flatten();
                let ids = ids.chain(data.get("id")).filter_map(id_in).collect();
                if let Some(channel) = id_in(&data["channel_id"]) {
                    let _ = self.arrivals.send(Arrival::Deleted(channel, ids));
                }
            }
            "INTERACTION_CREATE" => match data["type"].as_u64() {
                Some(2) => {
                    if let Some(slash) = Slash::read(data) {
                        self.slash(slash);
                    }
                }
                Some(4) => self.panels.complete(data),
                Some(3 | 5) => self.press(data),
                _ => {}
            },
            "GUILD_MEMBER_UPDATE" if id_in(&data["user"]["id"]) != Some(self.identity.id) => {}
            name if PERMISSIONS.contains(&name) => self.permissions_changed(),
            _ => {}
        }
    }

    /// Tries again whatever is held up because Discord was away; nobody knows what changed
    /// meanwhile.
    fn connected(&self) {
        self.inner.api.rest.heard_of();
        self.permissions_changed();
    }

    fn permissions_changed(&self) {
        self.inner.api.permissions_changed();
        self.inner.holding.permissions_changed();
        self.inner.standings.forget();
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
        if verb == Verb::Dashboard {
            let answer = dashboard::carry_out(self.inner.sign_in.get(), &slash);
            return self.tell_privately(&slash, answer);
        }
        if let Verb::Panel(order) = verb {
            return self.panels.slash(Caller::from(&slash), order, slash.given);
        }
        let ack =
            self.interactions.add(slash.interaction, slash.token.clone(), self.windows.interaction);
        let (api, interaction, token) = (self.api.clone(), slash.interaction, slash.token.clone());
        let (channel, timeouts) = (slash.channel, self.windows.send);
        let (kept, is_kept) = oneshot::channel();
        let interactions = Arc::clone(&self.interactions);
        tokio::spawn(async move {
            let sent = match is_kept.await.unwrap_or_else(|_| Err(CLOSING.to_owned())) {
                Ok(Outcome::Kept) => None,
                Ok(Outcome::Done(answer)) => {
                    Some(
                        match api.answer_at_once(interaction, &token, &answer, ACK_TIMEOUTS).await {
                            // It is done, whether or not the command can still be answered.
                            Err(_) => {
                                api.post(channel, None, &nonce(), &answer, timeouts).await.map(drop)
                            }
                            sent => sent,
                        },
                    )
                }
                Err(why) => {
                    Some(api.answer_privately(interaction, &token, &why, ACK_TIMEOUTS).await)
                }
            };
            if let Some(sent) = sent {
                interactions.take(interaction);
                ack.send_replace(Ack::Lost);
                if let Err(error) = sent {
                    warn!(interaction, %error, "cannot answer a command");
                }
                return;
            }
            let taken = api.defer(interaction, &token, ACK_TIMEOUTS).await;
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
            let _ = kept.send(Ok(Outcome::Done(stop_text(stopped).into())));
        });
    }

    fn press(&self, value: &Value) {
        if self.panels.press(value) {
            return;
        }
        let Some(press) = Press::read(value) else {
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

    fn refuse(&self, slash: &Slash, text: &str) {
        self.tell_privately(slash, text.to_owned());
    }

    fn tell_privately(&self, slash: &Slash, text: String) {
        let (api, interaction, token) = (self.api.clone(), slash.interaction, slash.token.clone());
        tokio::spawn(async move {
            if let Err(error) = api.answer_privately(interaction, &token, &text, ACK_TIMEOUTS).await
            {
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
