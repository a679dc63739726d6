//! The turns of a link while it is rebuilt, with their questions and times.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::link::LinkReport;
use crate::link::turns::LinkTurns;
use aetheel_model::agent::{AskKey, StartTurn, TurnKey};
use aetheel_model::event::Lane;
use aetheel_recording::comparison::RebuildError;
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

/// The names of a turn in the recording.
pub(super) struct TurnNames {
    /// The correlation id.
    pub(super) id: String,
    pub(super) event: u64,
    pub(super) lane: Lane,
}

#[derive(Default)]
pub(super) struct RebuiltTurns {
    /// The correlation ids of turns whose end is not in the recording.
    unfinished: BTreeSet<String>,
    /// These turns, once they have begun.
    pub(super) open: Vec<RebuiltTurn>,
    /// The turn that begins with the next `start-turn` command.
    next: Option<TurnNames>,
    clocks: BTreeMap<TurnKey, RecordedClock>,
}

impl RebuiltTurns {
    pub(super) fn of(entries: &[RecordingEntry]) -> Self {
        let unfinished = open_turns(entries).map(str::to_owned).collect();
        Self { unfinished, ..Self::default() }
    }

    /// Notes the names of the turn that begins next.
    ///
    /// # Errors
    /// [`RebuildError::Incomplete`] if the lane is invalid.
    pub(super) fn name_next(
        &mut self,
        id: &str,
        event: u64,
        lane: &str,
    ) -> Result<(), RebuildError> {
        let lane = lane.parse().map_err(|_| RebuildError::Incomplete("a lane is invalid"))?;
        self.next = Some(TurnNames { id: id.to_owned(), event, lane });
        Ok(())
    }

    /// Returns the names of the turn that begins.
    ///
    /// # Errors
    /// [`RebuildError::Incomplete`] if the recording does not contain them.
    pub(super) fn take_names(&mut self) -> Result<TurnNames, RebuildError> {
        self.next.take().ok_or(RebuildError::Incomplete("a turn has no name"))
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

    pub(super) fn ask(&mut self, turn: TurnKey, ask: AskKey, t: f64) {
        if let Some(clock) = self.clocks.get_mut(&turn) {
            clock.ask(ask, t);
        }
    }

    pub(super) fn answered(&mut self, ask: AskKey, t: f64) {
        self.clocks.values_mut().for_each(|clock| clock.answered(ask, t));
    }

    /// Completes the open turns. `last` is the time of the last entry of the recording, and `now`
    /// the present time of the link.
    pub(super) fn catch_up(&mut self, turns: &LinkTurns, last: f64, now: f64) {
        for turn in &mut self.open {
            if let Some(clock) = self.clocks.get(&turn.start.turn) {
                turn.asks = clock.open();
                turns.caught_up(turn.start.turn, clock.spent(last), clock.elapsed(now));
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
