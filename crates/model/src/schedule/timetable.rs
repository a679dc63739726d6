//! Decides which ticks run: a state machine that takes the time and returns what is due.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::Rhythm;
use crate::event::Lane;

/// A tick that is older than this was missed, for example during downtime, suspend, or when a clock
/// was set forward.
pub const LATE_AFTER: SignedDuration = SignedDuration::from_secs(30);
/// Maximum age of a missed tick that still runs later.
pub const CATCH_UP_LIMIT: SignedDuration = SignedDuration::from_secs(300);
/// Delay before a tick that was not accepted is retried.
pub const RETRY_DELAY: SignedDuration = SignedDuration::from_secs(15);
/// Maximum time by which the progress of a job may be in the future. If it is later, it was saved
/// while the clock was wrong.
const MAX_AHEAD: SignedDuration = SignedDuration::from_hours(24);
/// Missed ticks are counted up to this number.
const MAX_COUNTED_TICKS: u32 = 1_000;

/// The policy for missed ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissedPolicy {
    /// The last missed tick runs, if it is at most [`CATCH_UP_LIMIT`] old.
    RunOnce,
    /// None of them runs.
    Skip,
}

/// An entry of the timetable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleEntry {
    /// The lane of its events, which no other entry has.
    pub lane: Lane,
    /// The times at which it runs.
    pub rhythm: Rhythm,
    /// The time zone of these times.
    pub zone: TimeZone,
    /// The policy for missed ticks.
    pub missed: MissedPolicy,
}

impl ScheduleEntry {
    /// Returns rhythm and zone as text. Equal texts mean equal schedules.
    #[must_use]
    pub fn description(&self) -> String {
        format!("{} {}", self.rhythm, self.zone.iana_name().unwrap_or("UTC"))
    }

    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.rhythm.next(after, &self.zone)
    }
}

/// A tick that must run now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueTick {
    /// The lane of the entry that is due.
    pub lane: Lane,
    /// When it should have run.
    pub tick: Timestamp,
}

/// Missed ticks that do not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedTicks {
    /// The lane of the entry whose ticks were missed.
    pub lane: Lane,
    /// The number of ticks, counted up to 1,000.
    pub ticks: u32,
}

/// The result of advancing the timetable to a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advance {
    /// The due ticks, at most one for each lane.
    pub due: Vec<DueTick>,
    /// The missed ticks that do not run, by lane.
    pub missed: Vec<MissedTicks>,
    /// The lanes whose progress was more than a day in the future. They start again from now.
    pub restarted: Vec<Lane>,
}

#[derive(Debug)]
struct ScheduledJob {
    planned: ScheduleEntry,
    /// Every tick up to this time has run or was skipped.
    through: Timestamp,
    /// The first tick after `through`, found once.
    next: Option<Timestamp>,
    /// The time before which the tick is not retried.
    hold: Option<Timestamp>,
}

/// All entries, and how far each has run.
///
/// Each tick is returned once: after a clock was set back, nothing runs until it shows the same
/// time again.
#[derive(Debug, Default)]
pub struct Timetable {
    jobs: BTreeMap<Lane, ScheduledJob>,
}

impl Timetable {
    /// Replaces the entries. An entry that had the same rhythm and zone before continues. A new one
    /// continues from `known`, or else begins now. Heartbeats always begin now, because their
    /// missed ticks never run.
    pub fn replace(
        &mut self,
        plan: Vec<ScheduleEntry>,
        known: impl Fn(&ScheduleEntry) -> Option<Timestamp>,
        now: Timestamp,
    ) {
        let mut before = std::mem::take(&mut self.jobs);
        for planned in plan {
            let job = match before
                .remove(&planned.lane)
                .filter(|job| job.planned.description() == planned.description())
            {
                Some(job) => ScheduledJob { planned, ..job },
                None => {
                    let known = known(&planned).unwrap_or(now);
                    let through = if matches!(planned.rhythm, Rhythm::Heartbeat(_)) {
                        known.max(now)
                    } else {
                        known
                    };
                    let next = planned.next(through);
                    ScheduledJob { planned, through, next, hold: None }
                }
            };
            self.jobs.insert(job.planned.lane.clone(), job);
        }
    }

    /// Returns the due ticks, and considers them done.
    pub fn advance(&mut self, now: Timestamp) -> Advance {
        let mut advance = Advance::default();
        for (lane, job) in &mut self.jobs {
            if job.through.duration_since(now) > MAX_AHEAD {
                (job.through, job.next, job.hold) = (now, job.planned.next(now), None);
                advance.restarted.push(lane.clone());
            }
            let Some(first) = job.next.filter(|next| *next <= now && !job.holds(now)) else {
                continue;
            };
            let oldest = now
                - if job.planned.missed == MissedPolicy::RunOnce {
                    CATCH_UP_LIMIT
                } else {
                    LATE_AFTER
                };
            let (mut tick, mut due, mut passed) = (Some(first), None, 0);
            while let Some(old) = tick.filter(|tick| *tick < oldest) {
                passed += 1;
                let after = if passed < MAX_COUNTED_TICKS {
                    old
                } else {
                    oldest - SignedDuration::from_nanos(1)
                };
                tick = job.planned.next(after);
            }
            while let Some(young) = tick.filter(|tick| *tick <= now) {
                passed += u32::from(due.replace(young).is_some());
                tick = job.planned.next(young);
            }
            (job.through, job.next, job.hold) = (due.unwrap_or(now), tick, None);
            advance.due.extend(due.map(|tick| DueTick { lane: lane.clone(), tick }));
            if passed > 0 {
                advance.missed.push(MissedTicks { lane: lane.clone(), ticks: passed });
            }
        }
        advance
    }

    /// Marks a tick as not done. It is due again after [`RETRY_DELAY`], as a missed tick.
    pub fn put_back(&mut self, due: &DueTick, now: Timestamp) {
        if let Some(job) = self.jobs.get_mut(&due.lane) {
            job.through = due.tick - SignedDuration::from_secs(1);
            (job.next, job.hold) = (Some(due.tick), Some(now + RETRY_DELAY));
        }
    }

    /// Returns when the next tick of any lane is due.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.jobs.values().filter_map(|job| job.hold.max(job.next)).min()
    }

    /// Returns when the next tick of a lane is due.
    #[must_use]
    pub fn next(&self, lane: &Lane) -> Option<Timestamp> {
        self.jobs.get(lane)?.next
    }

    /// Returns the time up to which each entry has run.
    pub fn progress(&self) -> impl Iterator<Item = (&ScheduleEntry, Timestamp)> {
        self.jobs.values().map(|job| (&job.planned, job.through))
    }
}

impl ScheduledJob {
    /// Returns whether the retry must still wait. A clock that was set back meanwhile does not
    /// prolong this.
    fn holds(&self, now: Timestamp) -> bool {
        self.hold.is_some_and(|hold| hold > now && hold <= now + RETRY_DELAY)
    }
}
