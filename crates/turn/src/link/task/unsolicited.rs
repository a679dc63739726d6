//! Turns that the agent begins by itself. Their answers go to the lane of their session.

use std::time::Duration;

use tokio::time::Instant;

use super::LinkTask;
use crate::link::UnsolicitedTurn;
use crate::link::action_error::ActionError;
use aetheel_model::agent::{TurnDone, TurnRef};
use aetheel_model::fold::bounded;

/// Maximum number of turns that an agent may begin by itself within [`WINDOW`], because people get
/// an answer for each.
const MAX_UNSOLICITED_TURNS: u32 = 20;
const WINDOW: Duration = Duration::from_secs(60);

/// Counts the turns that an agent begins by itself.
#[derive(Default)]
pub(super) struct UnsolicitedLimit {
    since: Option<Instant>,
    count: u32,
}

impl UnsolicitedLimit {
    /// Counts one more turn and returns its number within the window.
    fn count(&mut self, now: Instant) -> u32 {
        if self.since.is_none_or(|since| now.duration_since(since) >= WINDOW) {
            *self = Self { since: Some(now), count: 0 };
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
        if !self.turns.begin_unsolicited(turn) {
            self.dropped("turn-begun", &ActionError::BadUnsolicited);
        }
    }

    /// Delivers the answer of a turn that the agent began by itself.
    pub(super) fn end_unsolicited(&mut self, done: TurnDone) {
        let Some((session, transcript)) = self.turns.end_unsolicited(done.turn) else { return };
        if self.rebuilding {
            return;
        }
        let text = done.text.map_or_else(|| transcript.text(), bounded);
        let Some(session) = self.turns.session(session).filter(|_| !text.trim().is_empty()) else {
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
        let (start, mut limit) = (Instant::now(), UnsolicitedLimit::default());
        assert_eq!((limit.count(start), limit.count(start + WINDOW / 2)), (1, 2));
        assert_eq!(limit.count(start + WINDOW), 1);
    }
}
