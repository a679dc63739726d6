//! Turns that the agent begins by itself. Their answers go to the lane of their session.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::LinkTask;
use crate::link::UnsolicitedTurn;
use crate::link::action_error::ActionError;
use aetheel_model::agent::{SessionKey, TurnDone, TurnKey, TurnRef};
use aetheel_model::fold::{Transcript, bounded};

/// Maximum number of turns that an agent may begin by itself within [`WINDOW`], because people get
/// an answer for each.
const MAX_UNSOLICITED_TURNS: u32 = 20;
const WINDOW: Duration = Duration::from_secs(60);
/// The lowest key of turns that an agent begins by itself.
const LOWEST_KEY: TurnKey = 0x8000_0000;

/// The turns that an agent began by itself, and their number within a window.
#[derive(Default)]
pub(super) struct UnsolicitedTurns {
    open: BTreeMap<TurnKey, (SessionKey, Transcript)>,
    since: Option<Instant>,
    count: u32,
}

impl UnsolicitedTurns {
    /// Begins a turn. Returns false if its key is too low.
    fn begin(&mut self, turn: TurnRef) -> bool {
        let fits = turn.turn >= LOWEST_KEY;
        if fits {
            self.open.insert(turn.turn, (turn.session, Transcript::default()));
        }
        fits
    }

    /// Returns whether no turn is open.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the transcript of an open turn.
    pub(super) fn transcript(&mut self, turn: TurnRef) -> Option<&mut Transcript> {
        let (session, transcript) = self.open.get_mut(&turn.turn)?;
        (*session == turn.session).then_some(transcript)
    }

    /// Counts one more turn and returns its number within the window.
    fn count(&mut self, now: Instant) -> u32 {
        if self.since.is_none_or(|since| now.duration_since(since) >= WINDOW) {
            (self.since, self.count) = (Some(now), 0);
        }
        self.count = self.count.saturating_add(1);
        self.count
    }
}

impl LinkTask {
    pub(super) fn begin_unsolicited(&mut self, turn: TurnRef) {
        if !self.rebuilding {
            let count = self.unsolicited.count(Instant::now());
            if count == MAX_UNSOLICITED_TURNS + 1 {
                tracing::warn!(
                    most = MAX_UNSOLICITED_TURNS,
                    "the agent begins too many turns by itself; more of them are dropped for a minute"
                );
            }
            if count > MAX_UNSOLICITED_TURNS {
                return self.dropped("turn-begun", &ActionError::TooManyUnsolicited);
            }
        }
        if self.turns.sessions.get(turn.session).is_none() || !self.unsolicited.begin(turn) {
            self.dropped("turn-begun", &ActionError::BadUnsolicited);
        }
    }

    /// Delivers the answer of a turn that the agent began by itself.
    pub(super) fn end_unsolicited(&mut self, done: TurnDone) {
        let Some((session, transcript)) = self.unsolicited.open.remove(&done.turn) else { return };
        if self.rebuilding {
            return;
        }
        let text = done.text.map_or_else(|| transcript.text(), bounded);
        let Some(session) = self.turns.sessions.get(session).filter(|_| !text.trim().is_empty())
        else {
            return;
        };
        tracing::info!(lane = %session.lane, "the agent began a turn by itself and answered");
        let unasked = UnsolicitedTurn {
            lane: session.lane.clone(),
            backend: self.deps.backend.descriptor().label().to_owned(),
            text,
            usage: done.usage.or_else(|| transcript.usage()),
        };
        // Fails while the gateway shuts down.
        let _ = self.deps.unsolicited.send(unasked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_restarts_after_the_window() {
        let (start, mut turns) = (Instant::now(), UnsolicitedTurns::default());
        assert_eq!((turns.count(start), turns.count(start + WINDOW / 2)), (1, 2));
        assert_eq!(turns.count(start + WINDOW), 1);
    }
}
