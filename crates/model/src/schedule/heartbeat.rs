//! Heartbeats, which run at an interval of local time.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::wall::{self, ClockChangePolicy, WallSeconds};
use crate::plain::counted;

/// The shortest interval in seconds.
pub const MINIMUM: u32 = 60;
const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;

/// The reason why an interval is not allowed. The values are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeartbeatError {
    /// The interval is less than [`MINIMUM`].
    #[error("an interval of {} is too short: the minimum is {MINIMUM} seconds", counted(*.0, "second"))]
    TooShort(u32),
    /// The interval is more than 366 days.
    #[error("an interval of {0} seconds is longer than a year")]
    TooLong(u32),
}

/// Ticks at the multiples of an interval of local time, counted from midnight of 1 January 1970, or
/// from the beginning of the active hours on that day. So an interval that divides a day ticks at
/// the same times every day, also after a restart, and one of at least a day begins with the active
/// hours.
///
/// If the clock changes, intervals of up to an hour follow the clock, and longer ones run once; see
/// [`ClockChangePolicy`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    interval: u32,
    active: Option<ActiveHours>,
}

impl Heartbeat {
    /// Creates a heartbeat with an interval in seconds.
    ///
    /// # Errors
    /// [`HeartbeatError`] if the interval is less than [`MINIMUM`] or more than a year.
    pub fn new(interval: u32, active: Option<ActiveHours>) -> Result<Self, HeartbeatError> {
        if interval < MINIMUM {
            return Err(HeartbeatError::TooShort(interval));
        }
        if i64::from(interval) > 366 * DAY {
            return Err(HeartbeatError::TooLong(interval));
        }
        Ok(Self { interval, active })
    }

    /// Returns the first tick after an instant, or `None` if no tick is ever within the active
    /// hours.
    #[must_use]
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let across = if i64::from(self.interval) <= HOUR {
            ClockChangePolicy::Each
        } else {
            ClockChangePolicy::Once
        };
        wall::next(zone, after, across, |moment| self.from(moment))
    }

    fn from(&self, moment: WallSeconds) -> Option<WallSeconds> {
        let interval = i64::from(self.interval);
        let begins = self.active.map_or(0, |active| active.begins);
        let first = |moment: WallSeconds| {
            begins + (moment - begins + interval - 1).div_euclid(interval) * interval
        };
        let mut tick = first(moment);
        // Each step goes to the active hours of another day. The times of day repeat after at most
        // DAY days.
        for _ in 0..=DAY {
            match self.active.and_then(|active| active.seconds_until(tick)) {
                None => return Some(tick),
                Some(wait) => tick = first(tick + wait),
            }
        }
        None
    }
}

impl fmt::Display for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "every {} s", self.interval)?;
        self.active.map_or(Ok(()), |active| write!(f, " {active}"))
    }
}

/// A part of the day, which may include midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveHours {
    /// Seconds after midnight, included.
    begins: i64,
    /// Seconds after midnight, excluded; up to a day.
    ends: i64,
}

impl ActiveHours {
    /// Returns the seconds until the active hours begin, or `None` during them.
    fn seconds_until(self, moment: WallSeconds) -> Option<i64> {
        let time = moment.rem_euclid(DAY);
        let inside = if self.begins < self.ends {
            (self.begins..self.ends).contains(&time)
        } else {
            time >= self.begins || time < self.ends
        };
        (!inside).then(|| (self.begins - time).rem_euclid(DAY))
    }
}

/// The reason why a text is not a range of active hours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActiveHoursError {
    /// The text does not have the form of a range.
    #[error("{0:?} is not a range of active hours such as `08:00-22:00`")]
    Form(String),
    /// The range is empty.
    #[error("the active hours {0:?} end when they begin; leave them out for the whole day")]
    Empty(String),
}

impl FromStr for ActiveHours {
    type Err = ActiveHoursError;

    /// Parses `08:00-22:00`, also with other dashes, `to`, or hours alone.
    fn from_str(text: &str) -> Result<Self, ActiveHoursError> {
        let fault = || ActiveHoursError::Form(text.to_owned());
        let plain = text.replace(['–', '—'], "-").replace(" to ", "-");
        let (begins, ends) = plain.split_once('-').ok_or_else(fault)?;
        let (begins, ends) = (time(begins).ok_or_else(fault)?, time(ends).ok_or_else(fault)?);
        if begins == DAY {
            return Err(fault());
        }
        if begins == ends {
            return Err(ActiveHoursError::Empty(text.to_owned()));
        }
        Ok(Self { begins, ends })
    }
}

impl fmt::Display for ActiveHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = |time: i64| format!("{:02}:{:02}", time / HOUR, time % HOUR / 60);
        write!(f, "{}-{}", clock(self.begins), clock(self.ends))
    }
}

/// Parses `HH:MM` or `HH`, up to `24:00`.
fn time(text: &str) -> Option<i64> {
    let (hours, minutes) = text.trim().split_once(':').unwrap_or((text.trim(), "0"));
    let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
    let time = i64::from(hours) * HOUR + i64::from(minutes) * 60;
    (minutes < 60 && time <= DAY).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_no_clock_shows_is_refused() {
        for bad in [
            "25:00-26:00",
            "08:60-09:00",
            "24:01-25:00",
            "08:999999999999999999-09:00",
            "999999999999999999-18:00",
            "-1:00-2:00",
        ] {
            assert!(bad.parse::<ActiveHours>().is_err(), "{bad}");
        }
        assert_eq!("8 to 24:00".parse::<ActiveHours>().expect("fine").to_string(), "08:00-24:00");
    }
}
