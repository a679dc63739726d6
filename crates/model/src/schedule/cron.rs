//! Cron expressions, parsed by the `cron` crate and evaluated on local time.

use std::fmt;
use std::str::FromStr;

use cron::{Schedule, TimeUnitSpec};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::crontab::{self, WeekdayError};
use super::wall::{self, ClockChangePolicy, WallSeconds};
use crate::plain::counted;

/// A cron expression: a standard crontab line of five fields, a word such as `@daily`, or the six
/// or seven fields of the `cron` crate (seconds first, a year last, weekdays from 1 = Sunday).
///
/// In a crontab line, a day matches if it matches the day of the month *or* of the week, unless one
/// of these fields begins with `*` (crontab(5)). In the crate's form, both must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    text: String,
    /// Bit n is set if the schedule has second n. The fields below are alike.
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    /// Bit n is set for weekday n, from Sunday = 0.
    weekdays: u64,
    /// The years in ascending order; the crate supports 1970 to 2100.
    years: Vec<i16>,
    /// Whether the day of the month or the day of the week is enough.
    either_day: bool,
    across: ClockChangePolicy,
}

impl Cron {
    /// Returns the first time after an instant, or `None` if the schedule has ended.
    ///
    /// If the clock changes, expressions with fixed hours run once. Expressions that run every hour
    /// or every few hours (the field begins with `*`) follow the clock; see [`ClockChangePolicy`].
    #[must_use]
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        wall::next(zone, after, self.across, |moment| self.from(moment))
    }

    /// Returns the first time at or after a moment of local time. Examines at most every month up
    /// to 2100, so it finds out quickly that a day never comes.
    fn from(&self, moment: WallSeconds) -> Option<WallSeconds> {
        let start = wall::civil(moment)?;
        let first_year = self.years.partition_point(|year| *year < start.year());
        for year in &self.years[first_year..] {
            let first_month = if *year == start.year() { start.month() } else { 1 };
            for month in bits_from(self.months, first_month.unsigned_abs().into()) {
                let first = Date::new(*year, i8::try_from(month).ok()?, 1).ok()?;
                let weekday = first.weekday().to_sunday_zero_offset();
                let begins = if first == start.date().first_of_month() { start.day() } else { 1 };
                for day in begins..=first.days_in_month() {
                    if !self.is_day(day, (weekday + day - 1) % 7) {
                        continue;
                    }
                    let date = Date::new(*year, first.month(), day).ok()?;
                    let from = if date == start.date() { start } else { date.at(0, 0, 0, 0) };
                    if let Some(found) = self.time_from(from) {
                        return wall::wall(found);
                    }
                }
            }
        }
        None
    }

    fn is_day(&self, day: i8, weekday: i8) -> bool {
        let (day, weekday) = (self.days >> day & 1 == 1, self.weekdays >> weekday & 1 == 1);
        if self.either_day { day || weekday } else { day && weekday }
    }

    /// Returns the first time at or after one, on the same day.
    fn time_from(&self, from: DateTime) -> Option<DateTime> {
        let [hour, minute, second] =
            [from.hour(), from.minute(), from.second()].map(|part| u32::from(part.unsigned_abs()));
        let time = |hour, minute, second| {
            let [hour, minute, second] =
                [hour, minute, second].map(|part: u32| i8::try_from(part).unwrap_or(i8::MAX));
            from.with().hour(hour).minute(minute).second(second).subsec_nanosecond(0).build().ok()
        };
        let first = |set| bits_from(set, 0).next();
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1
                && let Some(second) = bits_from(self.seconds, second).next()
            {
                return time(hour, minute, second);
            }
            if let Some(minute) = bits_from(self.minutes, minute + 1).next() {
                return time(hour, minute, first(self.seconds)?);
            }
        }
        time(bits_from(self.hours, hour + 1).next()?, first(self.minutes)?, first(self.seconds)?)
    }
}

/// Returns the numbers of a set that are at least `from`, in ascending order.
fn bits_from(set: u64, from: u32) -> impl Iterator<Item = u32> {
    let mut rest = set & u64::MAX.checked_shl(from).unwrap_or(0);
    std::iter::from_fn(move || {
        let lowest = (rest != 0).then(|| rest.trailing_zeros())?;
        rest &= rest - 1;
        Some(lowest)
    })
}

/// The reason why a text is not a cron expression. On one line, for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// The word names the start of the machine, not a time.
    #[error("`@reboot` is not a time; use the startup hook")]
    Reboot,
    /// The number of fields is not supported.
    #[error(
        "it has {}; a crontab line has five (minute, hour, day, month, weekday), six with seconds, seven with a year",
        counted(*.0, "field")
    )]
    FieldCount(usize),
    /// The fifth field of a crontab line is invalid.
    #[error("weekday: {0}")]
    Weekday(#[source] WeekdayError),
    /// A field is invalid by itself.
    #[error("{name} `{field}` cannot be read; allowed are {allowed}, `*`, ranges, steps and lists")]
    Field {
        /// The name of the field.
        name: &'static str,
        /// The text of the field.
        field: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// Each field is valid, but the expression is not.
    #[error("it cannot be read")]
    Unreadable,
}

impl FromStr for Cron {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let written: Vec<&str> = crontab::expand_word(&text).unwrap_or(&text).split(' ').collect();
        let (fields, either_day) = match written[..] {
            ["@reboot"] => return Err(CronError::Reboot),
            [minute, hour, day, month, weekday] => {
                let any = |field: &str| field.starts_with(['*', '?']);
                let weekdays = crontab::weekdays(weekday).map_err(CronError::Weekday)?;
                let fields =
                    [minute, hour, day, month].map(str::to_owned).into_iter().chain([weekdays]);
                (
                    std::iter::once("0".to_owned()).chain(fields).collect(),
                    !any(day) && !any(weekday),
                )
            }
            [_, _, _, _, _, _] | [_, _, _, _, _, _, _] => {
                (written.iter().map(|field| (*field).to_owned()).collect::<Vec<_>>(), false)
            }
            _ => {
                let count = written.iter().filter(|field| !field.is_empty()).count();
                return Err(CronError::FieldCount(count));
            }
        };
        let schedule = Schedule::from_str(&fields.join(" ")).map_err(|_| fault(&fields))?;
        let set = |ordinals: Vec<u32>| {
            ordinals.into_iter().fold(0, |set: u64, ordinal| set | 1 << ordinal)
        };
        let hours = set(schedule.hours().iter().collect());
        let hourly = fields[2].starts_with('*') || hours == (1 << 24) - 1;
        Ok(Self {
            seconds: set(schedule.seconds().iter().collect()),
            minutes: set(schedule.minutes().iter().collect()),
            hours,
            days: set(schedule.days_of_month().iter().collect()),
            months: set(schedule.months().iter().collect()),
            weekdays: set(schedule.days_of_week().iter().map(|day| day - 1).collect()),
            years: schedule.years().iter().filter_map(|year| i16::try_from(year).ok()).collect(),
            either_day,
            across: if hourly { ClockChangePolicy::Each } else { ClockChangePolicy::Once },
            text,
        })
    }
}

/// Finds the first field that is invalid by itself.
fn fault(fields: &[String]) -> CronError {
    const NAMES: [(&str, &str); 7] = [
        ("second", "0-59"),
        ("minute", "0-59"),
        ("hour", "0-23"),
        ("day of the month", "1-31"),
        ("month", "1-12 or `jan`-`dec`"),
        ("weekday", "1-7 from Sunday on, or `sun`-`sat`"),
        ("year", "1970-2100"),
    ];
    for (at, (field, (name, allowed))) in fields.iter().zip(NAMES).enumerate() {
        let mut alone = ["*"; 7];
        alone[at] = field;
        if Schedule::from_str(&alone.join(" ")).is_err() {
            return CronError::Field { name, field: field.clone(), allowed };
        }
    }
    CronError::Unreadable
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
