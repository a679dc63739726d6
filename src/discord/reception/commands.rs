//! Slash commands: what they ask is kept before they are acknowledged.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::warn;

use super::{CLOSING, Kept, Reception, key, lock};
use crate::discord::Identity;
use crate::discord::api::{Api, nonce};
use crate::discord::commands::Verb;
use crate::discord::interactions::Interactions;
use crate::discord::mention;
use crate::discord::rest::Patience;
use crate::discord::threads;
use crate::discord::wire::Slash;
use crate::event::{EventKind, Lane, NewEvent, Origin, Pass};

const EMPTY: &str = "Write what I should do behind the command.";

impl Reception {
    /// Sees to a command, whose acknowledgement waits for `kept`.
    pub(super) async fn command(&self, slash: &Slash, verb: Verb, kept: Kept) {
        if lock(&self.recent).has(slash.interaction) {
            // Told twice: the first one is acknowledged already.
            let _ = kept.send(Ok(()));
            return;
        }
        lock(&self.recent).note(slash.interaction);
        let lane = Lane::Channel(slash.channel);
        // Whoever waits for it is gone only when everything is.
        match verb {
            Verb::Ask | Verb::New => {
                let _ = kept.send(self.ask(slash, verb).await);
            }
            Verb::Steer if slash.prompt.trim().is_empty() => {
                let _ = kept.send(Err(EMPTY.to_owned()));
            }
            Verb::Steer => {
                let _ = kept.send(Ok(()));
                self.steer(slash.clone());
            }
            Verb::Reset => {
                let _ = kept.send(Ok(()));
                let text = match self.desk.intake.reset(&lane).await {
                    Ok(true) => "Done: your next prompt begins a new conversation.".to_owned(),
                    Ok(false) => "There is no conversation yet: your next prompt begins one.".to_owned(),
                    Err(why) => why,
                };
                answer(&self.api, &self.identity, &self.interactions, slash, text, self.patience);
            }
            // Answered on the gateway's thread.
            Verb::Stop | Verb::Panel(_) => {}
        }
    }

    /// Keeps what a command asks. A command is told once: what is refused of it does not come back.
    async fn ask(&self, slash: &Slash, verb: Verb) -> Result<(), String> {
        if slash.prompt.trim().is_empty() {
            return Err(EMPTY.to_owned());
        }
        if verb == Verb::New && (slash.guild.is_none() || slash.parent.is_some()) {
            return Err(threads::ELSEWHERE.to_owned());
        }
        if self.closing.load(Ordering::SeqCst) {
            return Err(CLOSING.to_owned());
        }
        let event = NewEvent { opens_thread: verb == Verb::New, ..asked(slash) };
        let saved = self.submit(event).map_err(|not_taken| not_taken.text)?.safe().await;
        saved.map(drop).map_err(|why| {
            self.waiting.forget(slash.interaction);
            why.to_string()
        })
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
}

/// What somebody wrote behind a command, as an event.
fn asked(slash: &Slash) -> NewEvent {
    let origin = Origin::Interaction { channel: slash.channel, interaction: slash.interaction, pass: Some(Pass(slash.token.clone())) };
    NewEvent {
        author: Some(mention::one_line(slash.nick.as_deref().unwrap_or(slash.user.shown()), 64)),
        asker: Some(slash.user.id),
        parent: slash.parent,
        key: Some(key(slash.interaction)),
        ..NewEvent::new(EventKind::Message, Lane::Channel(slash.channel), origin, slash.prompt.trim())
    }
}

/// What `/stop` says.
pub(in crate::discord) fn stop_text(stopped: bool) -> String {
    if stopped { "Stopped." } else { "There is nothing to stop here." }.to_owned()
}

/// Puts a short text into the waiting answer of a command, without holding anything up.
pub(in crate::discord) fn answer(
    api: &Api,
    identity: &Arc<Identity>,
    interactions: &Interactions,
    slash: &Slash,
    text: String,
    patience: Patience,
) {
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
