//! Messages: decides whether one is for the bot and whether its author may ask, and submits it.

use std::time::Duration;

use super::notices::{mark, send};
use super::{InboundProcessor, RETRY_INTERVAL, event_key, quotes};
use crate::access::asker::Asker;
use crate::connection::gateway_event::Parent;
use crate::ids::{self, DiscordOrigin};
use crate::rest::RestError;
use crate::text::mention::{self, Name};
use crate::text::quote;
use crate::wire::{Channel, Message, age_by_discord};
use aetheel_dispatch::{Accepted, AnswerRefusal, Person, PromptRefusal};
use aetheel_model::event::{EventKind, EventOrigin, NewEvent};
use aetheel_model::id::{ChannelId, MessageId, UserId};

/// Age from which an accepted prompt counts as late. The answer then says so.
const LATE_AFTER: Duration = Duration::from_secs(120);

const HINT: &str = "Yes? Write your task after my name, or use `/ask`.";
const STRANGER: &str = "Here I answer only people whom my operator has allowed. Ask my operator, or write to me in a server where I may answer you.";
const LATER: &str = "I am restarting. I will answer your message as soon as I am back.";
const NO_ROOM: &str = "I cannot save anything at the moment, so your message waits. I will answer it as soon as I can. (storage)";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageOutcome {
    /// Accepted and saved, as a prompt or as the answer to a question.
    Taken,
    /// Rejected; the rejection is saved and the author notified.
    Refused,
    /// The author of the message may not use the bot.
    NotAdmitted,
    /// The message was handled before.
    Known,
    /// The gateway shuts down: the next process handles the message and all later messages of the
    /// channel.
    LeftForNextStart,
}

impl InboundProcessor {
    /// Processes a message of the gateway. Returns `false` if it is left to the next process.
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
            // Access to a thread can depend on the channel it belongs to.
            (Parent::Unknown, Some(_)) => self
                .channel_at_last(message.channel_id)
                .await
                .and_then(|channel| channel.thread_parent()),
        };
        self.message_for_us(message, names, parent, false).await != MessageOutcome::LeftForNextStart
    }

    /// Like [`InboundProcessor::is_for_us`], but repeats the lookup until Discord answers.
    pub(super) async fn is_for_us_at_last(&self, message: &Message, parent: Parent) -> bool {
        loop {
            match self.is_for_us(message, parent).await {
                Ok(ours) => return ours,
                Err(error) if error.is_temporary() => tokio::time::sleep(RETRY_INTERVAL).await,
                Err(_) => return false,
            }
        }
    }

    /// Returns a channel, or `None` if Discord refuses. Repeats the request until Discord answers.
    pub(super) async fn channel_at_last(&self, channel: u64) -> Option<Channel> {
        loop {
            match self.lookups.channel(&self.inner.api, channel).await {
                Ok(channel) => return Some(channel),
                Err(error) if error.is_temporary() => tokio::time::sleep(RETRY_INTERVAL).await,
                Err(_) => return None,
            }
        }
    }

    pub(super) fn asker(&self, message: &Message, parent: Option<u64>) -> Asker {
        Asker::author_of(message, parent, &self.inner.identity)
    }

    /// Processes a message for the bot, once. Returns when its outcome is saved.
    pub(super) async fn message_for_us(
        &self,
        message: &Message,
        names: &[Name],
        parent: Option<u64>,
        missed: bool,
    ) -> MessageOutcome {
        let (channel, id) = (message.channel_id, message.id);
        if self.recent.lock().has(id) {
            return MessageOutcome::Known;
        }
        let asker = self.asker(message, parent);
        if let Err(why) = self.inner.identity.admit(&asker) {
            self.recent.lock().note(id);
            self.inner.identity.log_refusal(&asker, message.author.display_name(), why);
            if asker.guild.is_none() {
                // In a direct message, a bot that does not respond would look broken.
                self.notices.report(channel, id, STRANGER.to_owned());
            }
            return MessageOutcome::NotAdmitted;
        }
        if let Some(parent) = parent {
            self.services
                .settings
                .learn_parent(ChannelId::discord(channel), ChannelId::discord(parent));
        }
        let late = age_by_discord(id, self.inner.api.rest.clock_ahead()) > LATE_AFTER;
        let prompt = NewEvent { missed, late, ..self.prompt(message, names, parent) };
        let fate = match self.try_as_answer(&asker, message, &prompt).await {
            Some(fate) => fate,
            None => self.submit_until_saved(&prompt, channel, id).await,
        };
        if fate != MessageOutcome::LeftForNextStart {
            self.recent.lock().note(id);
            self.inner.notes.mark_handled(channel, id);
        }
        fate
    }

    /// Tries a message as the answer to the question that is open in its channel. Returns `None` if
    /// it does not answer one.
    async fn try_as_answer(
        &self,
        asker: &Asker,
        message: &Message,
        prompt: &NewEvent,
    ) -> Option<MessageOutcome> {
        let roles = ids::roles_with_everyone(&asker.roles, asker.guild);
        let name = prompt.author.clone().unwrap_or_default();
        let person =
            Person::User { id: UserId::discord(asker.user), roles, owner: asker.owner, name };
        let (channel, id) = (message.channel_id, message.id);
        // A message above the question cannot be meant as its answer.
        let unasked = prompt.missed && !self.inner.questions.may_answer(channel, id);
        if unasked || !prompt.attached.is_empty() {
            return None;
        }
        self.inner.questions.wait_for_resumed(channel).await;
        match self.services.questions.answer_from_text(&prompt.lane, &person, &prompt.prompt)? {
            Ok(()) => Some(MessageOutcome::Taken),
            // Another answer was faster, so this message is a prompt.
            Err(AnswerRefusal::Gone) => None,
            Err(refusal) => {
                self.notices.report(message.channel_id, message.id, refusal.to_string());
                Some(MessageOutcome::Refused)
            }
        }
    }

    pub(super) fn prompt(
        &self,
        message: &Message,
        names: &[Name],
        parent: Option<u64>,
    ) -> NewEvent {
        let nick = message.member.as_ref().and_then(|member| member.nick.as_deref());
        let origin = EventOrigin::Message {
            channel: ChannelId::discord(message.channel_id),
            message: MessageId::discord(message.id),
        };
        NewEvent {
            author: Some(aetheel_model::plain::short_line(
                nick.unwrap_or(message.author.display_name()),
                64,
            )),
            asker: Some(UserId::discord(message.author.id)),
            parent: parent.map(ChannelId::discord),
            attached: quotes::attached(message, self.inner.identity.id),
            quoted: quotes::quoted(message, self.inner.identity.id, names),
            key: Some(event_key(message.id)),
            ..NewEvent::new(
                EventKind::Message,
                ids::lane(message.channel_id),
                origin,
                mention::prompt(
                    &message.content,
                    self.inner.identity.id,
                    self.lookups.known_role(message.guild_id),
                    names,
                ),
            )
        }
    }

    /// Submits an event repeatedly, until the event or its refusal is saved. While neither can be
    /// saved, the author gets a notice that the message waits; after a crash, the message is found
    /// again when the channel catches up.
    async fn submit_until_saved(
        &self,
        event: &NewEvent,
        channel: u64,
        message: u64,
    ) -> MessageOutcome {
        loop {
            if self.inner.notes.last_handled(channel).is_none() {
                // In a channel without an earlier message, the next process catches up from here.
                self.inner.notes.start_channel(channel, message - 1);
            }
            if self.intake.is_closed() {
                if !self.intake.is_silent() {
                    self.notices.report_waiting(channel, message, LATER);
                }
                return MessageOutcome::LeftForNextStart;
            }
            let empty =
                event.prompt.is_empty() && event.attached.is_empty() && event.quoted.is_none();
            let refused = if empty {
                Some(HINT.to_owned())
            } else {
                match self.submit(event.clone()) {
                    Ok(accepted) => {
                        if accepted.wait_until_saved().await.is_ok() {
                            return MessageOutcome::Taken;
                        }
                        self.inner.queue_markers.forget(message);
                        None
                    }
                    // The message may be accepted later, by this process or the next one.
                    Err(PromptRefusal::NotSaved | PromptRefusal::ShuttingDown) => None,
                    Err(refusal) => Some(refusal.to_string()),
                }
            };
            if let Some(why) = refused
                && self.decline(event, channel, message, &why).await
            {
                return MessageOutcome::Refused;
            }
            if !self.intake.is_closed() {
                // Without a lease the notice would be late; the node that receives Discord's events
                // sends it.
                if self.inner.api.rest.may_send() {
                    self.notices.report_waiting(channel, message, NO_ROOM);
                }
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
    }

    /// Saves a refusal and shows it: as a reply, or as a reaction if the channel got a notice
    /// recently. Returns `false` if it cannot be saved.
    pub(super) async fn decline(
        &self,
        event: &NewEvent,
        channel: u64,
        message: u64,
        why: &str,
    ) -> bool {
        let declined = match self.services.intake.decline(event.clone(), why).await {
            Ok(Some(declined)) => declined,
            // The author was notified before.
            Ok(None) => return true,
            Err(_) => return false,
        };
        let (api, intake, timeouts) = (
            self.inner.api.clone(),
            self.services.intake.clone(),
            self.inner.options.time_limits.send,
        );
        let (in_words, why) = (self.notices.may_report(channel), why.to_owned());
        tokio::spawn(async move {
            let sent = if in_words {
                send(&api, channel, message, &format!("{}.0", declined.stem), &why, timeouts).await
            } else {
                mark(&api, channel, message, timeouts).await
            };
            // If this fails, the next process shows the refusal.
            if sent {
                intake.refusal_sent(declined);
            }
        });
        true
    }

    /// Submits an event, and shows its place in the queue if it has to wait. An event that is
    /// already known counts as accepted: Discord sends some events twice, and messages that were
    /// accepted before a restart are read again afterwards.
    ///
    /// # Errors
    /// See [`Intake::submit`](aetheel_dispatch::Intake::submit).
    pub(super) fn submit(&self, event: NewEvent) -> Result<Accepted, PromptRefusal> {
        let event_origin = event.origin.clone();
        let origin = ids::origin(&event_origin);
        let (DiscordOrigin::Message { message: id, .. }
        | DiscordOrigin::Interaction { interaction: id, .. }) = origin
        else {
            return self.services.intake.submit(event);
        };
        self.inner.queue_markers.expect(id);
        // Everybody sees the prompt of a message, but not that of a command.
        let heading = if let DiscordOrigin::Interaction { .. } = origin {
            quote::quote_line(&event.prompt, &self.inner.options.redactor)
        } else {
            String::new()
        };
        let result = match self.services.intake.submit(event) {
            Err(PromptRefusal::Known) => Ok(Accepted::without_saving(0, 0)),
            result => result,
        };
        match (&result, origin) {
            (Ok(accepted), DiscordOrigin::Message { channel, message }) if accepted.ahead > 0 => {
                self.inner.queue_markers.show_number(
                    &self.inner.api,
                    channel,
                    message,
                    accepted.ahead,
                );
            }
            (Ok(accepted), DiscordOrigin::Interaction { .. }) if accepted.ahead > 0 => {
                if let Some(token) = self.inner.interactions.peek(id) {
                    self.inner.queue_markers.show_line(
                        &self.inner.api,
                        self.inner.identity.application,
                        token,
                        heading,
                        accepted.ahead,
                    );
                }
            }
            _ => self.inner.queue_markers.forget(id),
        }
        result
    }

    /// Returns whether a person wrote the message to the bot: in a direct message, with a mention,
    /// as a reply, or in a thread of the bot.
    ///
    /// # Errors
    /// [`RestError`] if Discord cannot answer now.
    pub(super) async fn is_for_us(
        &self,
        message: &Message,
        parent: Parent,
    ) -> Result<bool, RestError> {
        if !self.inner.identity.is_from_person(message) {
            return Ok(false);
        }
        let me = self.inner.identity.id;
        let addressed = message.guild_id.is_none()
            || message.mentions.iter().any(|user| user.id == me)
            || message.referenced_message.as_ref().is_some_and(|message| message.author.id == me);
        Ok(addressed
            || self.names_our_role(message).await?
            || self.belongs_to_us(message, parent).await?)
    }

    /// Returns whether the message mentions the role that Discord created for the bot. The role has
    /// the name of the bot, so people choose it by mistake.
    async fn names_our_role(&self, message: &Message) -> Result<bool, RestError> {
        let Some(guild) = message.guild_id.filter(|_| !message.mention_roles.is_empty()) else {
            return Ok(false);
        };
        let role = self.lookups.our_role(&self.inner.api, guild, self.inner.identity.id).await?;
        Ok(role.is_some_and(|role| message.mention_roles.contains(&role)))
    }
}
