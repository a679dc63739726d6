//! Slash commands that wait for their answer: their tokens, and whether Discord was told in time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::wire::age_of;
use crate::event::Pass;

/// How Discord took the acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ack {
    Pending,
    /// An answer is being waited for: it can be edited.
    Taken,
    /// Too late or refused: the token is of no use.
    Lost,
}

/// The way back to whoever used a command. Not shown by `Debug`: it holds a token.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) interaction: u64,
    pub(super) token: String,
    /// From then on the token is not used; Discord forgets it after 15 minutes.
    pub(super) closes: Instant,
    pub(super) ack: watch::Receiver<Ack>,
}

impl Door {
    /// Waits until Discord answered the acknowledgement; true when the token works and has time
    /// left.
    pub(super) async fn is_open(&mut self) -> bool {
        self.was_taken().await && Instant::now() < self.closes
    }

    /// Waits until Discord answered the acknowledgement; true when it took it.
    pub(super) async fn was_taken(&mut self) -> bool {
        self.ack.wait_for(|ack| *ack != Ack::Pending).await.is_ok_and(|ack| *ack == Ack::Taken)
    }
}

/// Open doors by interaction id.
#[derive(Default)]
pub(super) struct Interactions {
    doors: Mutex<HashMap<u64, Door>>,
}

impl Interactions {
    /// Opens a door for `window`; report the acknowledgement through the sender.
    pub(super) fn open(
        &self,
        interaction: u64,
        token: String,
        window: Duration,
    ) -> watch::Sender<Ack> {
        let (sender, ack) = watch::channel(Ack::Pending);
        let now = Instant::now();
        let mut doors = self.doors.lock();
        // A turn that begins late still gets to say that its answer follows elsewhere.
        doors.retain(|_, door| door.closes + Duration::from_secs(60) > now);
        doors.insert(interaction, Door { interaction, token, closes: now + window, ack });
        sender
    }

    /// Takes the door of a command that may be one of an earlier life; none: it is too old, or has
    /// no pass.
    pub(super) fn take_or_restore(
        &self,
        interaction: u64,
        pass: Option<&Pass>,
        window: Duration,
    ) -> Option<Door> {
        if let Some(door) = self.take(interaction) {
            return Some(door);
        }
        let left = window.checked_sub(age_of(interaction)).filter(|left| !left.is_zero())?;
        // Where it was not acknowledged before that life ended, Discord says so when it is used.
        let (_, ack) = watch::channel(Ack::Taken);
        Some(Door { interaction, token: pass?.0.clone(), closes: Instant::now() + left, ack })
    }

    /// Looks at a door, for a word before the answer.
    pub(super) fn peek(&self, interaction: u64) -> Option<Door> {
        self.doors.lock().get(&interaction).cloned()
    }

    /// Takes a door: there is one answer.
    pub(super) fn take(&self, interaction: u64) -> Option<Door> {
        self.doors.lock().remove(&interaction)
    }
}
