//! Which ticks run: a state machine that is told the time and answers what is due.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::Rhythm;
use crate::event::Lane;

/// A tick that is older than this was missed (downtime, suspend, a clock put forward).
pub const LATE: SignedDuration = SignedDuration::from_secs(30);
/// A missed tick is made up for while it is at most this old.
pub const MAKE_UP: SignedDuration = SignedDuration::from_secs(300);
/// How long a tick that was not taken waits before it is tried again.
pub const AGAIN: SignedDuration = SignedDuration::from_secs(15);
/// A job that was looked after up to a moment further ahead than this was so by a clock that was
/// wrong.
const AHEAD: SignedDuration = SignedDuration::from_hours(24);
/// Missed ticks are counted up to here.
const COUNTED: u32 = 1_000;

/// The fate of ticks that were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// The last of them runs, while it is at most [`MAKE_UP`] old.
    RunOnce,
    /// None of them runs.
    Skip,
}

/// Something that comes round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The lane its events wait in; no other planned thing has it.
    pub lane: Lane,
    /// The times at which it comes round.
    pub rhythm: Rhythm,
    /// The time zone its times are told in.
    pub zone: TimeZone,
    /// The fate of ticks that were missed.
    pub missed: Missed,
}

impl Planned {
    /// Returns rhythm and zone in words; what they say is the same schedule.
    #[must_use]
    pub fn words(&self) -> String {
        format!("{} {}", self.rhythm, self.zone.iana_name().unwrap_or("UTC"))
    }

    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.rhythm.next(after, &self.zone)
    }
}

/// A tick that is to run now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The lane of the thing that is due.
    pub lane: Lane,
    /// When it was to run.
    pub tick: Timestamp,
}

/// Ticks that were missed and do not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The lane of the thing that was missed.
    pub lane: Lane,
    /// How many; 1,000 or more are told as 1,000.
    pub ticks: u32,
}

/// The effect of a moment on the timetable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advance {
    /// Each at most one a lane.
    pub due: Vec<Due>,
    /// Ticks that were missed and do not run, by lane.
    pub passed: Vec<Passed>,
    /// The lanes looked after up to a moment more than a day ahead, which begin afresh.
    pub afresh: Vec<Lane>,
}

#[derive(Debug)]
struct Job {
    planned: Planned,
    /// Every tick up to here has run or was passed over.
    through: Timestamp,
    /// The first one behind it, found once.
    next: Option<Timestamp>,
    /// Not to be tried before.
    hold: Option<Timestamp>,
}

/// Everything that comes round, and how far each was looked after.
///
/// A tick is given out once: when the clock is put back, nothing runs until it shows what it showed
/// before.
#[derive(Debug, Default)]
pub struct Timetable {
    jobs: BTreeMap<Lane, Job>,
}

impl Timetable {
    /// Puts a plan in the place of the present one. An entry that was in it with the same rhythm
    /// and zone goes on; a new one goes on from `known`, else begins now. Heartbeats are never made
    /// up for: they begin now.
    pub fn replace(
        &mut self,
        plan: Vec<Planned>,
        known: impl Fn(&Planned) -> Option<Timestamp>,
        now: Timestamp,
    ) {
        let mut before = std::mem::take(&mut self.jobs);
        for planned in plan {
            let job = match before
                .remove(&planned.lane)
                .filter(|job| job.planned.words() == planned.words())
            {
                Some(job) => Job { planned, ..job },
                None => {
                    let known = known(&planned).unwrap_or(now);
                    let through = if matches!(planned.rhythm, Rhythm::Heartbeat(_)) {
                        known.max(now)
                    } else {
                        known
                    };
                    let next = planned.next(through);
                    Job { planned, through, next, hold: None }
                }
            };
            self.jobs.insert(job.planned.lane.clone(), job);
        }
    }

    /// Tells what is due, and takes it as done.
    pub fn advance(&mut self, now: Timestamp) -> Advance {
        let mut advance = Advance::default();
        for (lane, job) in &mut self.jobs {
            if job.through.duration_since(now) > AHEAD {
                (job.through, job.next, job.hold) = (now, job.planned.next(now), None);
                advance.afresh.push(lane.clone());
            }
            let Some(first) = job.next.filter(|next| *next <= now && !job.holds(now)) else {
                continue;
            };
            let oldest = now - if job.planned.missed == Missed::RunOnce { MAKE_UP } else { LATE };
            let (mut tick, mut due, mut passed) = (Some(first), None, 0);
            while let Some(old) = tick.filter(|tick| *tick < oldest) {
                passed += 1;
                let after =
                    if passed < COUNTED { old } else { oldest - SignedDuration::from_nanos(1) };
                tick = job.planned.next(after);
            }
            while let Some(young) = tick.filter(|tick| *tick <= now) {
                passed += u32::from(due.replace(young).is_some());
                tick = job.planned.next(young);
            }
            (job.through, job.next, job.hold) = (due.unwrap_or(now), tick, None);
            advance.due.extend(due.map(|tick| Due { lane: lane.clone(), tick }));
            if passed > 0 {
                advance.passed.push(Passed { lane: lane.clone(), ticks: passed });
            }
        }
        advance
    }

    /// Takes back that a tick was done: it is due again in a while ([`AGAIN`]), as one that was
    /// missed.
    pub fn put_back(&mut self, due: &Due, now: Timestamp) {
        if let Some(job) = self.jobs.get_mut(&due.lane) {
            job.through = due.tick - SignedDuration::from_secs(1);
            (job.next, job.hold) = (Some(due.tick), Some(now + AGAIN));
        }
    }

    /// When something is due next.
    #[must_use]
    pub fn wake(&self) -> Option<Timestamp> {
        self.jobs.values().filter_map(|job| job.hold.max(job.next)).min()
    }

    /// When a lane is due next.
    #[must_use]
    pub fn next(&self, lane: &Lane) -> Option<Timestamp> {
        self.jobs.get(lane)?.next
    }

    /// Up to when each was looked after.
    pub fn through(&self) -> impl Iterator<Item = (&Planned, Timestamp)> {
        self.jobs.values().map(|job| (&job.planned, job.through))
    }
}

impl Job {
    /// Whether it is to wait; a clock that was put back since does not make that longer.
    fn holds(&self, now: Timestamp) -> bool {
        self.hold.is_some_and(|hold| hold > now && hold <= now + AGAIN)
    }
}
