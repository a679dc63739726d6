//! Slash commands, which are saved before they are acknowledged.

use std::sync::Arc;

use serde_json::Value;
use tracing::warn;

use super::{CommandOutcome, InboundProcessor, OutcomeSender, event_key};
use crate::access::identity::Identity;
use crate::api::interactions::Interactions;
use crate::api::{Api, nonce};
use crate::delivery::threads::ThreadError;
use crate::ids;
use crate::panel::commands::Verb;
use crate::rest::Timeouts;
use crate::text::quote;
use crate::wire::Interaction;
use aetheel_dispatch::{LaneRequestError, PromptRefusal, StopResult};
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::event::{
    AttachedFile, CommandToken, EventKind, EventOrigin, NewEvent, PromptChoice,
};
use aetheel_model::id::{ChannelId, MessageId, UserId};

const FORGOTTEN: &str = "Done: your next prompt begins a new conversation.";
const NOTHING_YET: &str = "There is no conversation yet: your next prompt begins one.";

/// The reason why a command is refused, worded for the person who sent it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandRefusal {
    #[error("Write your task after the command.")]
    Empty,
    #[error("I am shutting down. Please ask again in a minute.")]
    Closing,
    #[error(transparent)]
    Thread(#[from] ThreadError),
    #[error(transparent)]
    Prompt(#[from] PromptRefusal),
    #[error(transparent)]
    Lane(#[from] LaneRequestError),
}

impl InboundProcessor {
    /// Processes a command. It is acknowledged when its outcome is sent to `outcome`.
    pub(super) async fn command(&self, slash: &Interaction, verb: Verb, outcome: OutcomeSender) {
        if self.recent.lock().has(slash.id) {
            // Discord sent it twice; the first one is already acknowledged.
            let _ = outcome.send(Ok(CommandOutcome::Kept));
            return;
        }
        self.recent.lock().note(slash.id);
        let lane = ids::lane(slash.channel);
        // Sending fails only if the program ends.
        match verb {
            Verb::Ask | Verb::New => {
                let _ = outcome.send(self.ask(slash, verb).await);
            }
            Verb::Steer if slash.prompt().trim().is_empty() => {
                let _ = outcome.send(Err(CommandRefusal::Empty));
            }
            Verb::Steer => {
                let _ = outcome.send(self.steer(slash).await);
            }
            Verb::Reset => {
                let reset = self.services.conversations.reset(&lane).await;
                if reset.as_ref().is_ok_and(|had| *had) {
                    AuditEntry::new(AuditKind::ConversationReset)
                        .by(
                            Some(UserId::discord(slash.user().id)),
                            Some(slash.user().display_name()),
                        )
                        .in_lane(&lane)
                        .note();
                }
                let done = reset.map(|had| {
                    CommandOutcome::Done(if had { FORGOTTEN } else { NOTHING_YET }.into())
                });
                let _ = outcome.send(done.map_err(CommandRefusal::from));
            }
            // The module `router` answers these.
            Verb::Stop | Verb::Dashboard | Verb::Panel(_) => {}
        }
    }

    /// Saves the prompt of a command. A refusal is not saved, because Discord sends a command only
    /// once.
    async fn ask(&self, slash: &Interaction, verb: Verb) -> Result<CommandOutcome, CommandRefusal> {
        if slash.prompt().trim().is_empty() {
            return Err(CommandRefusal::Empty);
        }
        if verb == Verb::New && (slash.guild.is_none() || slash.parent().is_some()) {
            return Err(ThreadError::NoThreadsHere.into());
        }
        if self.intake.is_closed() {
            return Err(CommandRefusal::Closing);
        }
        let choice = prompt_choice(slash);
        let lane = ids::lane(slash.channel);
        if let Some(choice) = &choice {
            self.services.settings.check_prompt_choice(&lane, choice).await?;
        }
        let event = NewEvent {
            opens_thread: verb == Verb::New,
            attached: slash.files().cloned().map(AttachedFile::from).collect(),
            choice: choice.map(Box::new),
            ..asked(slash)
        };
        let saved = self.submit(event)?.wait_until_saved().await;
        saved.map(|_| CommandOutcome::Kept).map_err(|why| {
            self.inner.queue_markers.forget(slash.id);
            why.into()
        })
    }

    /// Saves a message for the running turn. A task of its own waits for the result and shows it.
    async fn steer(&self, slash: &Interaction) -> Result<CommandOutcome, CommandRefusal> {
        if self.intake.is_closed() {
            return Err(CommandRefusal::Closing);
        }
        let underway = self.services.intake.steer(asked(slash)).await?;
        let (api, identity, interactions) = (
            self.inner.api.clone(),
            Arc::clone(&self.inner.identity),
            Arc::clone(&self.inner.interactions),
        );
        let (slash, timeouts) = (slash.clone(), self.inner.options.time_limits.send);
        let heading = quote::quote_line(slash.prompt(), &self.inner.options.redactor);
        tokio::spawn(async move {
            if let Some(text) = underway.outcome().await.message() {
                put_answer(
                    &api,
                    &identity,
                    &interactions,
                    &slash,
                    quote::with_quote(Some(&heading), text),
                    timeouts,
                );
            }
        });
        Ok(CommandOutcome::Kept)
    }
}

fn prompt_choice(slash: &Interaction) -> Option<PromptChoice> {
    let given = |name: &str| {
        let option = slash.data.options.iter().find(|option| option.name == name)?;
        Some(option.value.as_str()?.trim().to_owned()).filter(|value| !value.is_empty())
    };
    let choice = PromptChoice { backend: given("agent"), model: given("model") };
    (choice != PromptChoice::default()).then_some(choice)
}

fn asked(slash: &Interaction) -> NewEvent {
    let origin = EventOrigin::Interaction {
        channel: ChannelId::discord(slash.channel),
        interaction: MessageId::discord(slash.id),
        pass: Some(CommandToken(slash.token.clone())),
    };
    NewEvent {
        author: Some(slash.name()),
        asker: Some(UserId::discord(slash.user().id)),
        parent: slash.parent().map(ChannelId::discord),
        key: Some(event_key(slash.id)),
        ..NewEvent::new(EventKind::Message, ids::lane(slash.channel), origin, slash.prompt().trim())
    }
}

pub(crate) fn stop_text(stopped: StopResult) -> String {
    let dropped = match stopped.waiting {
        0 => {
            return if stopped.running { "Stopped." } else { "There is nothing to stop here." }
                .to_owned();
        }
        1 => "one waiting prompt will not be answered".to_owned(),
        count => format!("{count} waiting prompts will not be answered"),
    };
    if stopped.running { format!("Stopped; {dropped}.") } else { format!("Stopped: {dropped}.") }
}

/// Puts a text into the deferred answer of a command, in a task of its own.
fn put_answer(
    api: &Api,
    identity: &Arc<Identity>,
    interactions: &Interactions,
    slash: &Interaction,
    text: String,
    timeouts: Timeouts,
) {
    let Some(mut token) = interactions.take(slash.id) else { return };
    let (api, application, channel) = (api.clone(), identity.application, slash.channel);
    tokio::spawn(async move {
        let sent = if token.is_usable().await {
            let (interaction, nothing) = (token.interaction, Value::Null);
            api.responses
                .edit(application, interaction, &token.value, &text, &nothing, timeouts)
                .await
        } else {
            api.post(channel, None, &nonce(), &text, timeouts).await
        };
        if let Err(error) = sent {
            warn!(channel, length = text.chars().count(), %error, "cannot answer a command");
        }
    });
}
