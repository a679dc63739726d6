//! What arrives from Discord, in order: who may ask, what was asked, what was missed.
//!
//! One task takes arrivals one by one, so that the order of a channel's messages is the order of its events. It does
//! no sending of its own that could hold the next arrival up. Acknowledging interactions is not its affair: the
//! gateway's thread does that before anything comes here. Pinned by `tests/discord.rs`.

mod missed;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use super::Identity;
use super::api::{Api, nonce};
use super::commands::Verb;
use super::intake::{Asker, Desk};
use super::interactions::Interactions;
use super::marks::Marks;
use super::mention::{self, Name};
use super::rest::{Patience, RestError};
use super::waiting::Waiting;
use super::wire::{Channel, Edit, Message, Slash};
use crate::dispatch::Accepted;
use crate::event::{Attached, EventKind, Lane, NewEvent, Origin};
pub(super) use missed::Recent;

/// Channels remembered.
const CHANNELS_KEPT: usize = 4_096;
/// Between two tries to read missed messages that Discord did not hand out.
const READ_AGAIN: Duration = Duration::from_secs(2);
/// A refusal is told at most this often in a channel.
const REFUSAL_EVERY: Duration = Duration::from_secs(10);
/// Requests made while the next arrival waits. What they cannot find out is asked for again later.
const LOOK_UP: Patience = Patience::new(Duration::from_secs(5), Duration::from_secs(3));

const HINT: &str = "Yes? Write what I should do behind my name, or use `/ask`.";
pub(super) const CLOSING: &str = "I am shutting down. Please ask again in a minute.";

/// Something that came from the gateway.
pub(super) enum Arrival {
    /// The gateway let us in anew: there may be messages we missed.
    LoggedIn { user: String, guilds: usize },
    /// A message, with readable names of what it mentions, and the parent where it is known to be in a thread.
    Message { message: Box<Message>, names: Vec<Name>, parent: Parent },
    /// A message was edited by its author.
    Edited(Box<Edit>, Vec<Name>),
    /// Messages of a channel were deleted.
    Deleted(u64, Vec<u64>),
    /// An acknowledged slash command.
    Slash(Box<Slash>, Verb),
}

/// The channel a thread belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parent {
    /// It has to be asked for.
    Unknown,
    /// None: not a thread.
    Known(Option<u64>),
}

/// Takes arrivals.
pub(super) struct Reception {
    pub(super) api: Api,
    pub(super) identity: Arc<Identity>,
    pub(super) interactions: Arc<Interactions>,
    pub(super) waiting: Arc<Waiting>,
    pub(super) desk: Desk,
    pub(super) closing: Arc<AtomicBool>,
    /// For sending answers of our own.
    pub(super) patience: Patience,
    pub(super) recent: Recent,
    pub(super) channels: HashMap<u64, Channel>,
    pub(super) told: HashMap<u64, Instant>,
    /// Channels with messages that could not be taken in yet, and after which one they begin. What comes in them
    /// meanwhile is read with those.
    pub(super) owed: HashMap<u64, u64>,
    pub(super) marks: Marks,
}

impl Reception {
    /// Runs until the last sender of arrivals is gone.
    pub(super) async fn run(mut self, mut arrivals: mpsc::UnboundedReceiver<Arrival>) {
        let mut again = tokio::time::Instant::now();
        loop {
            let arrival = tokio::select! {
                biased;
                () = tokio::time::sleep_until(again), if !self.owed.is_empty() => {
                    self.read_missed().await;
                    again = tokio::time::Instant::now() + READ_AGAIN;
                    continue;
                }
                arrival = arrivals.recv() => match arrival {
                    Some(arrival) => arrival,
                    None => return,
                },
            };
            if self.owed.is_empty() {
                again = tokio::time::Instant::now() + READ_AGAIN;
            }
            match arrival {
                Arrival::LoggedIn { user, guilds } => {
                    info!(%user, guilds, "discord is ready");
                    self.catch_up().await;
                }
                Arrival::Message { message, names, parent } => self.message(&message, &names, parent).await,
                Arrival::Edited(edit, names) => self.edited(&edit, &names),
                Arrival::Deleted(channel, messages) => self.deleted(channel, &messages),
                Arrival::Slash(slash, verb) => self.slash(&slash, verb).await,
            }
        }
    }

    async fn message(&mut self, message: &Message, names: &[Name], parent: Parent) {
        if self.owed.contains_key(&message.channel_id) || self.recent.has(message.id) {
            return;
        }
        match self.is_for_us(message, parent).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(_) => return self.owe(message),
        }
        let parent = match (parent, message.guild_id) {
            (Parent::Known(parent), _) => parent,
            (Parent::Unknown, None) => None,
            (Parent::Unknown, Some(_)) => match self.channel(message.channel_id).await {
                Ok(channel) => channel.thread_parent(),
                // Who may write in a thread can depend on where it belongs.
                Err(error) if error.is_passing() => return self.owe(message),
                Err(_) => None,
            },
        };
        self.recent.note(message.id);
        let member = message.member.clone().unwrap_or_default();
        let asker = Asker {
            user: message.author.id,
            roles: member.roles,
            channel: message.channel_id,
            parent,
            guild: message.guild_id,
            owner: self.identity.owners.contains(&message.author.id),
        };
        if let Err(why) = self.desk.gate.admit(&asker) {
            self.identity.log_refusal(&asker, &why);
            return;
        }
        if let Some(parent) = parent {
            self.desk.intake.learn(message.channel_id, parent);
        }
        let prompt = mention::prompt(&message.content, self.identity.id, names);
        let taken = if prompt.is_empty() && message.attachments.is_empty() {
            Err(HINT.to_owned())
        } else {
            let author = mention::one_line(member.nick.as_deref().unwrap_or(message.author.shown()), 64);
            let origin = Origin::Message { channel: message.channel_id, message: message.id };
            self.submit(NewEvent {
                author: Some(author),
                asker: Some(message.author.id),
                parent,
                attached: message.attachments.iter().cloned().map(Attached::from).collect(),
                key: Some(key(message.id)),
                ..NewEvent::new(EventKind::Message, Lane::Channel(message.channel_id), origin, prompt)
            })
        };
        let (channel, id) = (message.channel_id, message.id);
        match taken {
            // Before it is safe a crash would lose it, and only catching up brings it back. Taken back, it was visibly refused.
            Ok(accepted) => self.marks.mark(async { drop(accepted.safe().await) }, channel, id),
            Err(text) => {
                self.marks.mark(std::future::ready(()), channel, id);
                self.tell(channel, id, text);
            }
        }
    }

    async fn slash(&mut self, slash: &Slash, verb: Verb) {
        if self.recent.has(slash.interaction) {
            return;
        }
        self.recent.note(slash.interaction);
        let lane = Lane::Channel(slash.channel);
        let text = match verb {
            Verb::Ask | Verb::New | Verb::Steer if slash.prompt.trim().is_empty() => {
                Some("Write what I should do behind the command.".to_owned())
            }
            Verb::Steer => return self.steer(slash.clone()),
            Verb::New => return self.open_thread(slash.clone()),
            Verb::Ask => self.submit(asked(slash)).err(),
            Verb::Reset => Some(match self.desk.intake.reset(&lane).await {
                Ok(true) => "Done: your next prompt begins a new conversation.".to_owned(),
                Ok(false) => "There is no conversation yet: your next prompt begins one.".to_owned(),
                Err(why) => why,
            }),
            Verb::Stop => Some(stop_text(self.desk.intake.stop(&lane))),
            // Answered on the gateway's thread.
            Verb::Panel(_) => None,
        };
        if let Some(text) = text {
            answer(&self.api, &self.identity, &self.interactions, slash, text, self.patience);
        }
    }

    /// Hands a message to the running turn; what comes of it may take a while.
    fn steer(&self, slash: Slash) {
        let (api, identity, interactions) = (self.api.clone(), Arc::clone(&self.identity), Arc::clone(&self.interactions));
        let (intake, closing, patience) = (Arc::clone(&self.desk.intake), Arc::clone(&self.closing), self.patience);
        tokio::spawn(async move {
            let steered = if closing.load(Ordering::SeqCst) { Err(CLOSING.to_owned()) } else { intake.steer(asked(&slash)).await };
            if let Some(text) = steered.unwrap_or_else(Some) {
                answer(&api, &identity, &interactions, &slash, text, patience);
            }
        });
    }

    /// Offers an event.
    ///
    /// # Errors
    /// What to tell the user when it was not taken.
    fn submit(&self, event: NewEvent) -> Result<Accepted, String> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(CLOSING.to_owned());
        }
        let origin = event.origin.clone();
        let (Origin::Message { message: id, .. } | Origin::Interaction { interaction: id, .. }) = origin else {
            return self.desk.intake.submit(event);
        };
        self.waiting.expect(id);
        let taken = self.desk.intake.submit(event);
        match (&taken, origin) {
            (Ok(accepted), Origin::Message { channel, message }) if accepted.ahead > 0 => {
                self.waiting.number(&self.api, channel, message, accepted.ahead);
            }
            (Ok(accepted), Origin::Interaction { .. }) if accepted.ahead > 0 => {
                if let Some(door) = self.interactions.peek(id) {
                    self.waiting.line(&self.api, self.identity.application, door, accepted.ahead);
                }
            }
            _ => self.waiting.forget(id),
        }
        taken
    }

    /// A person's message to the bot: in private, naming it, answering it, or in a thread of its own.
    ///
    /// # Errors
    /// When Discord cannot say that now.
    async fn is_for_us(&mut self, message: &Message, parent: Parent) -> Result<bool, RestError> {
        let me = self.identity.id;
        let person = !message.author.bot && message.webhook_id.is_none() && message.author.id != me;
        let addressed = message.guild_id.is_none()
            || message.mentions.iter().any(|user| user.id == me)
            || message.referenced_message.as_ref().is_some_and(|message| message.author.id == me);
        Ok(person && matches!(message.kind, 0 | 19) && (addressed || self.belongs_to_us(message, parent).await?))
    }

    /// Tells why a message was not taken; soon after the last time in that channel, only by a mark on the message.
    pub(super) fn tell(&mut self, channel: u64, message: u64, text: String) {
        let now = Instant::now();
        self.told.retain(|_, at| now.duration_since(*at) < REFUSAL_EVERY);
        let (api, patience) = (self.api.clone(), self.patience);
        if self.told.contains_key(&channel) {
            tokio::spawn(async move {
                if let Err(error) = api.mark(channel, message, patience).await {
                    debug!(channel, %error, "cannot mark a message that was not taken; the permission Add Reactions lets me");
                }
            });
            return;
        }
        self.told.insert(channel, now);
        tokio::spawn(async move {
            if let Err(error) = api.post(channel, Some(message), &nonce(), &text, patience).await {
                warn!(channel, length = text.chars().count(), %error, "cannot send a message to discord");
            }
        });
    }

    pub(super) async fn channel(&mut self, channel: u64) -> Result<Channel, RestError> {
        if let Some(known) = self.channels.get(&channel) {
            return Ok(known.clone());
        }
        match self.api.channel(channel, LOOK_UP).await {
            Ok(found) => {
                if self.channels.len() >= CHANNELS_KEPT {
                    self.channels.clear();
                }
                self.channels.insert(channel, found.clone());
                Ok(found)
            }
            Err(error) => {
                debug!(channel, %error, "cannot look the channel up");
                Err(error)
            }
        }
    }
}

/// What somebody wrote behind a command, as an event.
fn asked(slash: &Slash) -> NewEvent {
    let origin = Origin::Interaction { channel: slash.channel, interaction: slash.interaction };
    NewEvent {
        author: Some(mention::one_line(slash.nick.as_deref().unwrap_or(slash.user.shown()), 64)),
        asker: Some(slash.user.id),
        parent: slash.parent,
        key: Some(key(slash.interaction)),
        ..NewEvent::new(EventKind::Message, Lane::Channel(slash.channel), origin, slash.prompt.trim())
    }
}

/// What is the same for a message or interaction that is told twice.
pub(super) fn key(id: u64) -> String {
    format!("discord:{id}")
}

/// What `/stop` says.
pub(super) fn stop_text(stopped: bool) -> String {
    if stopped { "Stopped." } else { "There is nothing to stop here." }.to_owned()
}

/// Puts a short text into the waiting answer of a command, without holding anything up.
pub(super) fn answer(api: &Api, identity: &Arc<Identity>, interactions: &Interactions, slash: &Slash, text: String, patience: Patience) {
    let Some(mut door) = interactions.take(slash.interaction) else { return };
    let (api, application, channel) = (api.clone(), identity.application, slash.channel);
    tokio::spawn(async move {
        let sent = if door.is_open().await {
            api.edit_original(application, door.interaction, &door.token, &text, patience).await
        } else {
            api.post(channel, None, &nonce(), &text, patience).await
        };
        if let Err(error) = sent {
            warn!(channel, length = text.chars().count(), %error, "cannot answer a command");
        }
    });
}
