//! The tokens of slash commands that wait for their answers, and whether Discord accepted their
//! acknowledgements in time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::wire::age_of;
use aetheel_model::event::CommandToken;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ack {
    Pending,
    /// Discord accepted it: the answer can be edited.
    Accepted,
    /// The acknowledgement was too late or refused, so the token is useless.
    Lost,
}

/// The token of a command, with which it is answered in its own message. Has no `Debug`, so that it
/// is never logged.
#[derive(Clone)]
pub(crate) struct InteractionToken {
    pub(crate) interaction: u64,
    pub(crate) value: String,
    /// The time after which the token is not used. Discord forgets it after 15 minutes.
    pub(crate) expires: Instant,
    pub(crate) ack: watch::Receiver<Ack>,
}

impl InteractionToken {
    /// Waits until Discord answered the acknowledgement. Returns whether the token works and has
    /// time left.
    pub(crate) async fn is_usable(&mut self) -> bool {
        self.was_acknowledged().await && Instant::now() < self.expires
    }

    /// Waits until Discord answered the acknowledgement. Returns whether Discord accepted it.
    pub(crate) async fn was_acknowledged(&mut self) -> bool {
        self.ack.wait_for(|ack| *ack != Ack::Pending).await.is_ok_and(|ack| *ack == Ack::Accepted)
    }
}

/// The tokens of commands that wait for their answers, by interaction id.
#[derive(Default)]
pub(crate) struct Interactions {
    tokens: Mutex<HashMap<u64, InteractionToken>>,
}

impl Interactions {
    /// Adds a token that may be used for `window`. The state of the acknowledgement is reported
    /// through the sender.
    pub(crate) fn add(
        &self,
        interaction: u64,
        value: String,
        window: Duration,
    ) -> watch::Sender<Ack> {
        let (sender, ack) = watch::channel(Ack::Pending);
        let now = Instant::now();
        let mut tokens = self.tokens.lock();
        // A turn that begins late can still use the token for a note that its answer follows below.
        tokens.retain(|_, token| token.expires + Duration::from_secs(60) > now);
        tokens.insert(
            interaction,
            InteractionToken { interaction, value, expires: now + window, ack },
        );
        sender
    }

    /// Removes and returns the token of a command, or restores the token that a previous process
    /// saved. Returns `None` if it is too old or was not saved.
    pub(crate) fn take_or_restore(
        &self,
        interaction: u64,
        pass: Option<&CommandToken>,
        window: Duration,
    ) -> Option<InteractionToken> {
        if let Some(token) = self.take(interaction) {
            return Some(token);
        }
        let left = window.checked_sub(age_of(interaction)).filter(|left| !left.is_zero())?;
        // If that process ended before the acknowledgement, Discord rejects the token when it is
        // used.
        let (_, ack) = watch::channel(Ack::Accepted);
        Some(InteractionToken {
            interaction,
            value: pass?.0.clone(),
            expires: Instant::now() + left,
            ack,
        })
    }

    /// Returns a copy of a token, for a message before the answer.
    pub(crate) fn peek(&self, interaction: u64) -> Option<InteractionToken> {
        self.tokens.lock().get(&interaction).cloned()
    }

    pub(crate) fn take(&self, interaction: u64) -> Option<InteractionToken> {
        self.tokens.lock().remove(&interaction)
    }
}
