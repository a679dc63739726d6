//! The times at which heartbeats and cron jobs are due.
//!
//! Owns the meaning of expressions and intervals, the rule for changes of the clock ([`wall`]), and
//! the decision which ticks run, wait or are skipped ([`Timetable`]). It has no clock; callers pass
//! the time. The `cron` crate only parses expressions. Its own search (0.17) is not used, because
//! it skips jobs when a clock is set forward, runs them twice when it is set back, and may return a
//! time in the past. Tested in `tests`.

mod cron;
mod crontab;
mod heartbeat;
mod timetable;
pub mod wall;

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use cron::{Cron, CronError};
pub use crontab::WeekdayError;
pub use heartbeat::{ActiveHours, ActiveHoursError, Heartbeat, HeartbeatError, MINIMUM};
pub use timetable::{
    Advance, CATCH_UP_LIMIT, DueTick, LATE_AFTER, MissedPolicy, MissedTicks, RETRY_DELAY,
    ScheduleEntry, Timetable,
};

/// The answer of an agent that has nothing to report.
const SILENT_ANSWER: &str = "HEARTBEAT_OK";

/// The times at which something repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rhythm {
    /// Every multiple of an interval.
    Heartbeat(Heartbeat),
    /// The times of a cron expression.
    Cron(Cron),
}

impl Rhythm {
    /// Returns the first tick after an instant, or `None` if no tick follows.
    #[must_use]
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Heartbeat(heartbeat) => heartbeat.next(after, zone),
            Self::Cron(cron) => cron.next(after, zone),
        }
    }
}

impl fmt::Display for Rhythm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Heartbeat(heartbeat) => heartbeat.fmt(f),
            Self::Cron(cron) => cron.fmt(f),
        }
    }
}

/// Returns whether an answer reports nothing: it is empty, or only `HEARTBEAT_OK`.
#[must_use]
pub fn is_silent(answer: &str) -> bool {
    let word = answer.trim_matches(|c: char| c.is_whitespace() || "`*_.!\"'".contains(c));
    word.is_empty()
        || word.eq_ignore_ascii_case(SILENT_ANSWER)
        || word.eq_ignore_ascii_case("HEARTBEAT OK")
}

#[cfg(test)]
mod tests;
