//! The turns of a link while it is rebuilt, with their questions and times.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::link::LinkReport;
use crate::link::senders::ReplySenders;
use crate::link::turns::TurnNames;
use aetheel_model::agent::{AskKey, StartTurn, TurnKey};
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
    pub(super) open: Vec<RebuiltTurn>,
    clocks: BTreeMap<TurnKey, RecordedClock>,
}

impl RebuiltTurns {
    pub(super) fn of(entries: &[RecordingEntry]) -> Self {
        let unfinished = open_turns(entries).map(str::to_owned).collect();
        Self { unfinished, ..Self::default() }
    }

    /// Begins a turn, with the receiver of its reports. Returns whether the turn continues.
    pub(super) fn begin(
        &mut self,
        names: &TurnNames,
        start: &StartTurn,
        reports: mpsc::UnboundedReceiver<LinkReport>,
        t: f64,
    ) -> bool {
        if !self.unfinished.contains(&names.id) {
            return false;
        }
        self.clocks.insert(start.turn, RecordedClock::begin(t));
        self.open.push(RebuiltTurn {
            id: names.id.clone(),
            event: names.event,
            lane: names.lane.clone(),
            start: start.clone(),
            reports,
            asks: Vec::new(),
        });
        true
    }

    /// Counts the time in which questions are open.
    pub(super) fn reported(&mut self, turn: TurnKey, report: &LinkReport, t: f64) {
        let Some(clock) = self.clocks.get_mut(&turn) else { return };
        match report {
            LinkReport::Ask(ask) => clock.ask(ask.ask, t),
            LinkReport::Delegated(call) => clock.ask(call.key, t),
            LinkReport::Withdrawn(ask) | LinkReport::Answered(ask, _) => clock.answered(*ask, t),
            _ => {}
        }
    }

    /// Completes the open turns. `last` is the time of the last entry of the recording, and `now`
    /// the present time of the link.
    pub(super) fn catch_up(&mut self, replies: &ReplySenders, last: f64, now: f64) {
        for turn in &mut self.open {
            let key = turn.start.turn;
            if let Some(clock) = self.clocks.get(&key) {
                turn.asks = clock.open();
                let (spent, elapsed) = (clock.spent(last), clock.elapsed(now));
                replies.report(key, LinkReport::CaughtUp { spent, elapsed });
            }
        }
    }

    /// Returns whether turns are open, and none of them waits for people.
    pub(super) fn is_working(&self) -> bool {
        !self.open.is_empty() && self.open.iter().all(|turn| turn.asks.is_empty())
    }
}

/// The times of a turn, in milliseconds of the link's time.
struct RecordedClock {
    began: f64,
    /// The total time in which questions were open.
    paused: f64,
    open_asks: BTreeSet<AskKey>,
    /// How often each key was used.
    use_counts: BTreeMap<AskKey, u32>,
    paused_since: f64,
}

impl RecordedClock {
    fn begin(t: f64) -> Self {
        Self {
            began: t,
            paused: 0.0,
            open_asks: BTreeSet::new(),
            use_counts: BTreeMap::new(),
            paused_since: t,
        }
    }

    /// Returns the open questions, and how often each key was used.
    fn open(&self) -> Vec<(AskKey, u32)> {
        self.open_asks
            .iter()
            .map(|ask| (*ask, self.use_counts.get(ask).copied().unwrap_or(1)))
            .collect()
    }

    fn ask(&mut self, ask: AskKey, t: f64) {
        if self.open_asks.is_empty() {
            self.paused_since = t;
        }
        self.open_asks.insert(ask);
        *self.use_counts.entry(ask).or_default() += 1;
    }

    fn answered(&mut self, ask: AskKey, t: f64) {
        if self.open_asks.remove(&ask) && self.open_asks.is_empty() {
            self.paused += t - self.paused_since;
        }
    }

    /// Returns the time since the turn began.
    fn elapsed(&self, t: f64) -> Duration {
        Duration::try_from_secs_f64((t - self.began) / 1000.0).unwrap_or_default()
    }

    /// Returns the time since the turn began without the time in which people were asked.
    fn spent(&self, t: f64) -> Duration {
        let standing = if self.open_asks.is_empty() { 0.0 } else { t - self.paused_since };
        Duration::try_from_secs_f64((t - self.began - self.paused - standing) / 1000.0)
            .unwrap_or_default()
    }
}
