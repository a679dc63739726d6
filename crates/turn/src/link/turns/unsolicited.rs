//! Turns that the agent begins by itself. Their answers go to the lane of their session.

use std::collections::BTreeMap;

use super::LinkTurns;
use crate::link::LinkReport;
use crate::link::action_error::ActionError;
use crate::link::effects::LinkEffect;
use aetheel_model::agent::{SessionKey, TurnDone, TurnKey, TurnRef};
use aetheel_model::fold::{Transcript, bounded};

/// Maximum number of turns that an agent may begin by itself within [`WINDOW_MS`], because people
/// get an answer for each.
const MAX_UNSOLICITED_TURNS: u32 = 20;
const WINDOW_MS: f64 = 60_000.0;
/// The lowest key of turns that an agent begins by itself.
const LOWEST_KEY: TurnKey = 0x8000_0000;

/// The turns that an agent began by itself, and their number within a window.
#[derive(Default)]
pub(in crate::link) struct UnsolicitedTurns {
    open: BTreeMap<TurnKey, (SessionKey, Transcript)>,
    since: Option<f64>,
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
    pub(in crate::link) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(in crate::link) fn contains(&self, turn: TurnRef) -> bool {
        self.open.get(&turn.turn).is_some_and(|(session, _)| *session == turn.session)
    }

    /// Counts one more turn. Returns whether it is allowed.
    fn count(&mut self, now: f64) -> bool {
        if self.since.is_none_or(|since| now - since >= WINDOW_MS) {
            (self.since, self.count) = (Some(now), 0);
        }
        self.count = self.count.saturating_add(1);
        self.count <= MAX_UNSOLICITED_TURNS
    }
}

impl LinkTurns {
    pub(in crate::link) fn begin_unsolicited(&mut self, now: f64, turn: TurnRef) {
        let is_allowed = self.unsolicited.count(now);
        if self.unsolicited.count == MAX_UNSOLICITED_TURNS + 1 {
            self.effects.push(LinkEffect::TooManyUnsolicited(MAX_UNSOLICITED_TURNS));
        }
        let refusal = if !is_allowed {
            ActionError::TooManyUnsolicited
        } else if self.sessions.get(turn.session).is_none() || !self.unsolicited.begin(turn) {
            ActionError::BadUnsolicited
        } else {
            return;
        };
        self.effects.dropped("turn-begun", refusal);
    }

    pub(in crate::link) fn report_to_unsolicited(&mut self, turn: TurnRef, report: LinkReport) {
        match report {
            LinkReport::Event(event) => {
                if let Some((_, transcript)) = self.unsolicited.open.get_mut(&turn.turn) {
                    transcript.apply(&event);
                }
            }
            LinkReport::Done(done) => self.end_unsolicited(done),
            _ => {}
        }
    }

    /// Delivers the answer of a turn that the agent began by itself.
    fn end_unsolicited(&mut self, done: TurnDone) {
        let Some((session, transcript)) = self.unsolicited.open.remove(&done.turn) else { return };
        let text = done.text.map_or_else(|| transcript.text(), bounded);
        let session = self.sessions.get(session).filter(|_| !text.trim().is_empty());
        if let Some(lane) = session.map(|session| session.lane.clone()) {
            let usage = done.usage.or_else(|| transcript.usage());
            self.effects.push(LinkEffect::Unsolicited { lane, text, usage });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_restarts_after_the_window() {
        let mut turns = UnsolicitedTurns::default();
        assert!((0..MAX_UNSOLICITED_TURNS).all(|_| turns.count(1.0)));
        assert!(!turns.count(WINDOW_MS));
        assert!(turns.count(1.0 + WINDOW_MS));
    }
}
