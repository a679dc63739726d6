//! The holds of lanes: which events wait, for which reason, and when that is checked again.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::part::Wait;
use aetheel_model::event::{Event, Lane, Sequence};
use aetheel_model::queue::{LaneHold, Queue};

/// The events of a lane that one hold keeps from starting.
pub(super) type HeldLane = (Lane, LaneHold);

/// The holds of all lanes. One task checks them ([`super::paused::watch`]).
pub(crate) struct LaneHolds {
    holds: Mutex<HoldTable>,
    /// Wakes the task. It ends when this is dropped.
    wake: mpsc::Sender<()>,
}

#[derive(Default)]
struct HoldTable {
    holds: HashMap<HeldLane, HoldState>,
    /// Whether the reasons of all holds may have changed.
    is_stale: bool,
}

/// The state of one hold.
#[derive(Clone, Default)]
pub(super) struct HoldState {
    /// The first event that waits, as it was at the last check.
    first: Option<Sequence>,
    /// The wait that people were notified of last.
    pub(super) announced: Option<AnnouncedWait>,
    /// When the hold is checked again, or `None` for the first check.
    check_at: Option<Timestamp>,
}

/// A wait that people were notified of.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct AnnouncedWait {
    pub(super) event: Sequence,
    /// The name of the part that lets the event wait.
    part: &'static str,
    /// Identifies the reason.
    pub(super) key: String,
    /// The reason in a few words.
    summary: String,
}

impl AnnouncedWait {
    /// Returns whether people were notified of the same wait.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.event == other.event && self.key == other.key
    }

    pub(super) fn of(event: &Event, wait: &Wait) -> Self {
        let (key, summary) = (wait.key.clone(), wait.summary.clone());
        Self { event: event.sequence, part: wait.part, key, summary }
    }
}

impl HoldState {
    /// Returns whether the hold was never checked.
    pub(super) fn is_new(&self) -> bool {
        self.check_at.is_none()
    }
}

impl LaneHolds {
    /// Creates an empty set, and the receiver for [`super::paused::watch`].
    pub(crate) fn new() -> (Self, mpsc::Receiver<()>) {
        let (wake, woken) = mpsc::channel(1);
        (Self { holds: Mutex::default(), wake }, woken)
    }

    fn wake(&self) {
        // If the channel is full, the task is about to check the holds.
        let _ = self.wake.try_send(());
    }

    /// Adds a hold, which is checked at once.
    pub(crate) fn add(&self, lane: &Lane, hold: LaneHold) {
        let mut table = self.holds.lock();
        table.holds.entry((lane.clone(), hold)).or_default().check_at = None;
        self.wake();
    }

    /// Must be called after events were added to the queue or removed from it.
    pub(crate) fn on_queue_change(&self) {
        if !self.holds.lock().holds.is_empty() {
            self.wake();
        }
    }

    /// Must be called when the reason of a wait may have ended before its time: a person decided, a
    /// setting or a file changed, or a backend was loaded.
    pub(crate) fn on_reason_change(&self) {
        let mut table = self.holds.lock();
        if !table.holds.is_empty() {
            table.is_stale = true;
            self.wake();
        }
    }

    /// Returns whether a lane waits because of a part for a reason that is not among `known`.
    pub(crate) fn any_other_reason(&self, part: &str, known: &HashSet<String>) -> bool {
        let table = self.holds.lock();
        let mut announced = table.holds.values().filter_map(|state| state.announced.as_ref());
        announced.any(|wait| wait.part == part && !known.contains(&wait.key))
    }

    /// Returns the reason of a hold in a few words, if people were notified of it.
    pub(super) fn summary(&self, lane: &Lane, hold: LaneHold) -> Option<String> {
        let table = self.holds.lock();
        let announced = table.holds.get(&(lane.clone(), hold))?.announced.as_ref()?;
        Some(announced.summary.clone())
    }

    /// Returns the holds to check now.
    pub(super) fn due(&self, queue: &Queue, now: Timestamp) -> Vec<(HeldLane, HoldState)> {
        let mut table = self.holds.lock();
        let is_stale = std::mem::take(&mut table.is_stale);
        let is_due = |((lane, hold), state): &(&HeldLane, &HoldState)| {
            let first = || queue.lanes().first_held(lane, *hold).map(|event| event.sequence);
            is_stale || state.check_at.is_none_or(|at| at <= now) || state.first != first()
        };
        let due = table.holds.iter().filter(is_due);
        due.map(|(held, state)| (held.clone(), state.clone())).collect()
    }

    /// Returns when the next hold is due, or `None` if all holds wait for a change.
    pub(super) fn next_check(&self) -> Option<Timestamp> {
        self.holds.lock().holds.values().filter_map(|state| state.check_at).min()
    }

    /// Records the result of a check: the hold goes on.
    pub(super) fn keep(
        &self,
        held: &HeldLane,
        first: Sequence,
        announced: Option<AnnouncedWait>,
        check_at: Timestamp,
    ) {
        if let Some(state) = self.holds.lock().holds.get_mut(held) {
            *state = HoldState { first: Some(first), announced, check_at: Some(check_at) };
        }
    }

    /// Removes a hold.
    pub(super) fn remove(&self, held: &HeldLane) {
        self.holds.lock().holds.remove(held);
    }
}
