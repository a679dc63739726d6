//! Slash commands that wait for their answer: their tokens, and whether Discord took the
//! acknowledgement in time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::wire::age_of;
use aetheel_model::event::Pass;

/// How Discord took the acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ack {
    Pending,
    /// An answer is being waited for: it can be edited.
    Taken,
    /// Too late or refused: the token is of no use.
    Lost,
}

/// The token of a command, by which it is answered in its own message. Has no `Debug`, so that it
/// stands in no log.
#[derive(Clone)]
pub(super) struct InteractionToken {
    pub(super) interaction: u64,
    pub(super) value: String,
    /// From then on it is not used; Discord forgets it after 15 minutes.
    pub(super) expires: Instant,
    pub(super) ack: watch::Receiver<Ack>,
}

impl InteractionToken {
    /// Waits until Discord answered the acknowledgement; true when the token works and has time
    /// left.
    pub(super) async fn is_usable(&mut self) -> bool {
        self.was_taken().await && Instant::now() < self.expires
    }

    /// Waits until Discord answered the acknowledgement; true when it took it.
    pub(super) async fn was_taken(&mut self) -> bool {
        self.ack.wait_for(|ack| *ack != Ack::Pending).await.is_ok_and(|ack| *ack == Ack::Taken)
    }
}

/// Tokens of commands that wait for their answer, by interaction id.
#[derive(Default)]
pub(super) struct Interactions {
    tokens: Mutex<HashMap<u64, InteractionToken>>,
}

impl Interactions {
    /// Takes a token in for `window`; report the acknowledgement through the sender.
    pub(super) fn add(
        &self,
        interaction: u64,
        value: String,
        window: Duration,
    ) -> watch::Sender<Ack> {
        let (sender, ack) = watch::channel(Ack::Pending);
        let now = Instant::now();
        let mut tokens = self.tokens.lock();
        // A turn that begins late still gets to say that its answer follows elsewhere.
        tokens.retain(|_, token| token.expires + Duration::from_secs(60) > now);
        tokens.insert(
            interaction,
            InteractionToken { interaction, value, expires: now + window, ack },
        );
        sender
    }

    /// Takes the token of a command that may be one of an earlier life; none: it is too old, or has
    /// no pass.
    pub(super) fn take_or_restore(
        &self,
        interaction: u64,
        pass: Option<&Pass>,
        window: Duration,
    ) -> Option<InteractionToken> {
        if let Some(token) = self.take(interaction) {
            return Some(token);
        }
        let left = window.checked_sub(age_of(interaction)).filter(|left| !left.is_zero())?;
        // Where it was not acknowledged before that life ended, Discord says so when it is used.
        let (_, ack) = watch::channel(Ack::Taken);
        Some(InteractionToken {
            interaction,
            value: pass?.0.clone(),
            expires: Instant::now() + left,
            ack,
        })
    }

    /// Looks at a token, for a word before the answer.
    pub(super) fn peek(&self, interaction: u64) -> Option<InteractionToken> {
        self.tokens.lock().get(&interaction).cloned()
    }

    /// Takes a token: there is one answer.
    pub(super) fn take(&self, interaction: u64) -> Option<InteractionToken> {
        self.tokens.lock().remove(&interaction)
    }
}
