//! When heartbeats and cron jobs are due.
//!
//! Owns what an expression or interval means, the rule for clocks that are changed ([`wall`]), and
//! which ticks run, wait or are passed over ([`Timetable`]). It has no clock: whoever asks passes
//! the time in. The `cron` crate only reads expressions; which instants they mean is decided here,
//! since its own search (0.17) skips jobs where a clock is put forward, runs them twice where it is
//! put back, and may answer with a time that is over. Pinned by `tests`.

mod cron;
mod crontab;
mod heartbeat;
mod timetable;
pub mod wall;

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use cron::Cron;
pub use heartbeat::{ActiveHours, Heartbeat, MINIMUM};
pub use timetable::{AGAIN, Advance, Due, LATE, MAKE_UP, Missed, Passed, Planned, Timetable};

/// The answer of an agent that has nothing to say.
const NOTHING: &str = "HEARTBEAT_OK";

/// When something comes round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rhythm {
    /// At every multiple of an interval.
    Heartbeat(Heartbeat),
    /// At the times of an expression.
    Cron(Cron),
}

impl Rhythm {
    /// Returns the first tick after an instant; none: it never comes (again).
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

/// Tells whether an answer says that there is nothing to say: it is empty, or only `HEARTBEAT_OK`.
#[must_use]
pub fn says_nothing(answer: &str) -> bool {
    let word = answer.trim_matches(|c: char| c.is_whitespace() || "`*_.!\"'".contains(c));
    word.is_empty()
        || word.eq_ignore_ascii_case(NOTHING)
        || word.eq_ignore_ascii_case("HEARTBEAT OK")
}

#[cfg(test)]
mod tests;
