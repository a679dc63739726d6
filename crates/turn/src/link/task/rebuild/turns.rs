//! The turns of a link while it is rebuilt, with their questions and times.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::link::LinkReport;
use crate::link::senders::ReplySenders;
use crate::link::turns::TurnNames;
use crate::tools::DelegatedCall;
use aetheel_model::agent::{Ask, AskKey, StartTurn, TurnKey};
use aetheel_model::event::Lane;
use aetheel_recording::{RecordingEntry, open_turns};

/// A turn that began before a restart of the gateway and continues.
#[derive(Debug)]
pub(crate) struct RebuiltTurn {
    /// The correlation id.
    pub(crate) id: String,
    /// The event's sequence number.
    pub(crate) event: u64,
    pub(crate) lane: Lane,
    pub(crate) start: StartTurn,
    /// All reports from the beginning of the turn. [`LinkReport::CaughtUp`] follows the reports
    /// from before the restart.
    pub(crate) reports: mpsc::UnboundedReceiver<LinkReport>,
    /// The open questions, and how often each key was used.
    pub(crate) asks: Vec<(AskKey, u32)>,
}

#[derive(Default)]
pub(super) struct RebuiltTurns {
    /// The correlation ids of turns whose end is not in the recording.
    unfinished: BTreeSet<String>,
    /// These turns, once they have begun.
    open: BTreeMap<TurnKey, (RebuiltTurn, RecordedClock)>,
}

impl RebuiltTurns {
    pub(super) fn of(entries: &[RecordingEntry]) -> Self {
        let unfinished = open_turns(entries).map(str::to_owned).collect();
        Self { unfinished, ..Self::default() }
    }

    /// Begins a turn. Returns the sender of its reports if the turn continues.
    pub(super) fn begin(
        &mut self,
        names: &TurnNames,
        start: &StartTurn,
        t: f64,
    ) -> Option<mpsc::UnboundedSender<LinkReport>> {
        let TurnNames { id, event, lane } = names.clone();
        if !self.unfinished.contains(&id) {
            return None;
        }
        let (sender, reports) = mpsc::unbounded_channel();
        let start = start.clone();
        let clock = RecordedClock { began: t, ..RecordedClock::default() };
        let turn = RebuiltTurn { id, event, lane, start, reports, asks: Vec::new() };
        self.open.insert(turn.start.turn, (turn, clock));
        Some(sender)
    }

    /// Counts the time in which questions are open.
    pub(super) fn reported(&mut self, turn: TurnKey, report: &LinkReport, t: f64) {
        let Some((_, clock)) = self.open.get_mut(&turn) else { return };
        match report {
            LinkReport::Ask(Ask { ask: key, .. })
            | LinkReport::Delegated(DelegatedCall { key, .. }) => {
                clock.ask(*key, t);
            }
            LinkReport::Withdrawn(ask) | LinkReport::Answered(ask, _) => clock.answered(*ask, t),
            _ => {}
        }
    }

    /// Completes the open turns, and removes and returns them. `last` is the time of the last entry
    /// of the recording, and `now` the present time of the link.
    pub(super) fn catch_up(
        &mut self,
        replies: &ReplySenders,
        last: f64,
        now: f64,
    ) -> Vec<RebuiltTurn> {
        let turns = std::mem::take(&mut self.open).into_iter();
        let caught_up = turns.map(|(key, (mut turn, clock))| {
            turn.asks = clock.open.iter().map(|ask| (*ask, clock.uses[ask])).collect();
            let (spent, elapsed) = (clock.spent(last), duration(now - clock.began));
            replies.report(key, LinkReport::CaughtUp { spent, elapsed });
            turn
        });
        caught_up.collect()
    }
}

/// The times of a turn, in milliseconds of the link's time.
#[derive(Default)]
struct RecordedClock {
    began: f64,
    /// The total time in which questions were open.
    paused: f64,
    paused_since: f64,
    /// The open questions.
    open: BTreeSet<AskKey>,
    /// How often each key was used.
    uses: BTreeMap<AskKey, u32>,
}

impl RecordedClock {
    fn ask(&mut self, ask: AskKey, t: f64) {
        if self.open.is_empty() {
            self.paused_since = t;
        }
        self.open.insert(ask);
        *self.uses.entry(ask).or_default() += 1;
    }

    fn answered(&mut self, ask: AskKey, t: f64) {
        if self.open.remove(&ask) && self.open.is_empty() {
            self.paused += t - self.paused_since;
        }
    }

    /// Returns the time since the turn began without the time in which people were asked.
    fn spent(&self, t: f64) -> Duration {
        let until = if self.open.is_empty() { t } else { self.paused_since };
        duration(until - self.began - self.paused)
    }
}

fn duration(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default()
}
