//! A message: is it for us, may its author ask, and what becomes of it.

use std::time::Duration;

use super::{RETRY_INTERVAL, Reception, key, mark, quotes, send};
use crate::asker::Asker;
use crate::heading;
use crate::heard::Parent;
use crate::mention::{self, Name};
use crate::rest::RestError;
use crate::wire::{Channel, Message, age_by};
use aetheel_dispatch::{Accepted, AnswerRefusal, Person, Refusal};
use aetheel_model::event::{EventKind, Lane, NewEvent, Origin};

/// Who wrote a prompt so long before it could be taken is told so.
const LATE: Duration = Duration::from_secs(120);

const HINT: &str = "Yes? Write what I should do behind my name, or use `/ask`.";
const STRANGER: &str = "I answer here only whom my operator has let in. Ask them, or write to me in a server where I may answer you.";
const LATER: &str = "I am restarting: what you write here is answered as soon as I am back.";
const NO_ROOM: &str = "I cannot save anything at the moment, so what you write here waits: it is answered as soon as I can. (storage)";

/// The outcome of a message that was for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is a prompt, and kept.
    Taken,
    /// That it is none is kept, and told.
    Refused,
    /// Its author may not ask.
    NotAdmitted,
    /// It was handled before.
    Known,
    /// The gateway ends: the next life takes it in, with all that follows in its channel.
    Left,
}

impl Reception {
    /// Takes a message in as it came. False: it is left to the next life.
    pub(super) async fn message(&self, message: &Message, names: &[Name], parent: Parent) -> bool {
        if self.recent.lock().has(message.id) {
            return true;
        }
        if !self.is_for_us_at_last(message, parent).await {
            return true;
        }
        let parent = match (parent, message.guild_id) {
            (Parent::Known(parent), _) => parent,
            (Parent::Unknown, None) => None,
            // Who may write in a thread can depend on where it belongs.
            (Parent::Unknown, Some(_)) => self
                .channel_at_last(message.channel_id)
                .await
                .and_then(|channel| channel.thread_parent()),
        };
        self.message_for_us(message, names, parent, false).await != Fate::Left
    }

    /// See [`Reception::is_for_us`]; asks Discord until it answers.
    pub(super) async fn is_for_us_at_last(&self, message: &Message, parent: Parent) -> bool {
        loop {
            match self.is_for_us(message, parent).await {
                Ok(ours) => return ours,
                Err(error) if error.is_passing() => tokio::time::sleep(RETRY_INTERVAL).await,
                Err(_) => return false,
            }
        }
    }

    /// A channel, as soon as Discord says; none: it never will.
    pub(super) async fn channel_at_last(&self, channel: u64) -> Option<Channel> {
        loop {
            match self.people.channel(&self.api, channel).await {
                Ok(channel) => return Some(channel),
                Err(error) if error.is_passing() => tokio::time::sleep(RETRY_INTERVAL).await,
                Err(_) => return None,
            }
        }
    }

    /// Returns the author of a message, as far as it says so.
    pub(super) fn asker(&self, message: &Message, parent: Option<u64>) -> Asker {
        Asker::of(message, parent, &self.identity)
    }

    /// Takes a message in that is for us, once; returns when what became of it is kept.
    pub(super) async fn message_for_us(
        &self,
        message: &Message,
        names: &[Name],
        parent: Option<u64>,
        missed: bool,
    ) -> Fate {
        let (channel, id) = (message.channel_id, message.id);
        if self.recent.lock().has(id) {
            return Fate::Known;
        }
        let asker = self.asker(message, parent);
        if let Err(why) = self.identity.admit(&asker) {
            self.recent.lock().note(id);
            self.identity.log_refusal(&asker, message.author.shown(), &why);
            if asker.guild.is_none() {
                // Nobody else hears it there, and silence would look like a fault.
                self.report(channel, id, STRANGER.to_owned());
            }
            return Fate::NotAdmitted;
        }
        if let Some(parent) = parent {
            self.dispatcher.learn(channel, parent);
        }
        let late = age_by(id, self.api.rest.clock_ahead()) > LATE;
        let prompt = NewEvent { missed, late, ..self.prompt(message, names, parent) };
        let fate = match self.in_words(&asker, message, &prompt).await {
            Some(fate) => fate,
            None => self.until_kept(&prompt, (channel, id)).await,
        };
        if fate != Fate::Left {
            self.recent.lock().note(id);
            self.notes.saw(channel, id);
        }
        fate
    }

    /// Takes a message as the answer to the question that is open in its channel. None: it is none.
    async fn in_words(&self, asker: &Asker, message: &Message, prompt: &NewEvent) -> Option<Fate> {
        let roles = asker.roles.iter().copied().chain(asker.guild).collect();
        let name = prompt.author.clone().unwrap_or_default();
        let person = Person::User { id: asker.user, roles, owner: asker.owner, name };
        let (channel, id) = (message.channel_id, message.id);
        // Above the question nobody knew what would be asked.
        let unasked = prompt.missed && !self.asks.may_answer(channel, id);
        if unasked || !prompt.attached.is_empty() {
            return None;
        }
        self.asks.back_in(channel).await;
        match self.dispatcher.answer_in_words(&prompt.lane, &person, &prompt.prompt)? {
            Ok(()) => Some(Fate::Taken),
            // Somebody was quicker; then it is a prompt like any other.
            Err(AnswerRefusal::Gone) => None,
            Err(refusal) => {
                self.report(message.channel_id, message.id, refusal.to_string());
                Some(Fate::Refused)
            }
        }
    }

    /// Makes an event of a message.
    pub(super) fn prompt(
        &self,
        message: &Message,
        names: &[Name],
        parent: Option<u64>,
    ) -> NewEvent {
        let nick = message.member.as_ref().and_then(|member| member.nick.as_deref());
        let origin = Origin::Message { channel: message.channel_id, message: message.id };
        NewEvent {
            author: Some(aetheel_model::plain::short_line(
                nick.unwrap_or(message.author.shown()),
                64,
            )),
            asker: Some(message.author.id),
            parent,
            attached: quotes::attached(message, self.identity.id),
            quoted: quotes::quoted(message, self.identity.id, names),
            key: Some(key(message.id)),
            ..NewEvent::new(
                EventKind::Message,
                Lane::Channel(message.channel_id),
                origin,
                mention::prompt(
                    &message.content,
                    self.identity.id,
                    self.people.known_role(message.guild_id),
                    names,
                ),
            )
        }
    }

    /// Offers an event until it is kept, or its refusal is. Where neither can be, nothing is final:
    /// people are told that it waits, and after a crash catching up finds it.
    async fn until_kept(&self, event: &NewEvent, (channel, message): (u64, u64)) -> Fate {
        loop {
            if self.notes.last(channel).is_none() {
                // A channel that nobody wrote in before is caught up with from here on.
                self.notes.begin(channel, message - 1);
            }
            if self.closing.is_begun() {
                if !self.closing.is_silent() {
                    self.report_waiting(channel, message, LATER);
                }
                return Fate::Left;
            }
            let empty =
                event.prompt.is_empty() && event.attached.is_empty() && event.quoted.is_none();
            let refused = if empty {
                Some(HINT.to_owned())
            } else {
                match self.submit(event.clone()) {
                    Ok(accepted) => {
                        if accepted.safe().await.is_ok() {
                            return Fate::Taken;
                        }
                        self.waiting.forget(message);
                        None
                    }
                    // It may be taken later, by this life or the next.
                    Err(Refusal::NotSaved | Refusal::ShuttingDown) => None,
                    Err(refusal) => Some(refusal.to_string()),
                }
            };
            if let Some(why) = refused
                && self.decline(event, (channel, message), &why).await
            {
                return Fate::Refused;
            }
            if !self.closing.is_begun() {
                // It would come too late: whoever hears Discord reports that messages wait.
                if self.api.rest.may_send() {
                    self.report_waiting(channel, message, NO_ROOM);
                }
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
    }

    /// Keeps a refusal and tells it: in words, or soon after the last time in that channel by a
    /// mark on the message. False: it cannot be kept.
    pub(super) async fn decline(
        &self,
        event: &NewEvent,
        (channel, message): (u64, u64),
        why: &str,
    ) -> bool {
        let declined = match self.dispatcher.decline(event.clone(), why).await {
            Ok(Some(declined)) => declined,
            // It was told before.
            Ok(None) => return true,
            Err(_) => return false,
        };
        let (api, dispatcher, timeouts) =
            (self.api.clone(), self.dispatcher.clone(), self.timeouts);
        let (in_words, why) = (self.may_report(channel), why.to_owned());
        tokio::spawn(async move {
            let sent = if in_words {
                send(&api, channel, message, &format!("{}.0", declined.stem), &why, timeouts).await
            } else {
                mark(&api, channel, message, timeouts).await
            };
            // Otherwise the next life tells it.
            if sent {
                dispatcher.declined(declined);
            }
        });
        true
    }

    /// Offers an event, and shows its place in line where it has to wait. An event that was taken
    /// before counts as accepted: Discord sends some things twice, and catching up finds what was
    /// taken before a restart.
    ///
    /// # Errors
    /// See [`Dispatcher::submit`](aetheel_dispatch::Dispatcher::submit).
    pub(super) fn submit(&self, event: NewEvent) -> Result<Accepted, Refusal> {
        let origin = event.origin.clone();
        let (Origin::Message { message: id, .. } | Origin::Interaction { interaction: id, .. }) =
            origin
        else {
            return self.dispatcher.submit(event);
        };
        self.waiting.expect(id);
        // Of a message everybody sees what was asked.
        let heading = if let Origin::Interaction { .. } = origin {
            heading::line(&event.prompt, &self.redactor)
        } else {
            String::new()
        };
        let taken = match self.dispatcher.submit(event) {
            Err(Refusal::Known) => Ok(Accepted::unkept(0, 0)),
            taken => taken,
        };
        match (&taken, origin) {
            (Ok(accepted), Origin::Message { channel, message }) if accepted.ahead > 0 => {
                self.waiting.number(&self.api, channel, message, accepted.ahead);
            }
            (Ok(accepted), Origin::Interaction { .. }) if accepted.ahead > 0 => {
                if let Some(token) = self.interactions.peek(id) {
                    self.waiting.line(
                        &self.api,
                        self.identity.application,
                        (token, heading),
                        accepted.ahead,
                    );
                }
            }
            _ => self.waiting.forget(id),
        }
        taken
    }

    /// A person's message to the bot: in private, naming it, answering it, or in a thread of its
    /// own.
    ///
    /// # Errors
    /// When Discord cannot say that now.
    pub(super) async fn is_for_us(
        &self,
        message: &Message,
        parent: Parent,
    ) -> Result<bool, RestError> {
        if !self.is_a_persons(message) {
            return Ok(false);
        }
        let me = self.identity.id;
        let addressed = message.guild_id.is_none()
            || message.mentions.iter().any(|user| user.id == me)
            || message.referenced_message.as_ref().is_some_and(|message| message.author.id == me);
        Ok(addressed
            || self.names_our_role(message).await?
            || self.belongs_to_us(message, parent).await?)
    }

    /// Whether it names the role that Discord gave the bot: people choose it in place of the bot,
    /// which has the same name.
    async fn names_our_role(&self, message: &Message) -> Result<bool, RestError> {
        let Some(guild) = message.guild_id.filter(|_| !message.mention_roles.is_empty()) else {
            return Ok(false);
        };
        let role = self.people.our_role(&self.api, guild, self.identity.id).await?;
        Ok(role.is_some_and(|role| message.mention_roles.contains(&role)))
    }

    /// Whether a person other than the bot wrote it.
    pub(super) fn is_a_persons(&self, message: &Message) -> bool {
        self.identity.is_a_persons(message)
    }
}
