//! The end of a usage limit as a time of the day, in the words of agents. Pure.
//!
//! Backends have no clock, so the gateway reads these words. Agents run on its machine and write
//! times in its time zone, unless they name another one.

use std::time::Duration;

use jiff::Zoned;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;

/// Words before the time.
const BEFORE: [&str; 4] = ["try again at ", "try again on ", "reset at ", "resets "];
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
/// How long ago a time may be that still means the last one, because agents leave out the
/// seconds and clocks differ.
const LATE: Duration = Duration::from_secs(120);

/// Returns when a limit ends by the words of its message: `try again at 3:28 PM`, `resets 3pm
/// (Europe/Berlin)`, `resets Nov 28, 3pm` or `try again at Nov 28th, 2026 3:28 PM`. A time without a
/// day is the next such time. Returns `None` if the message has no such words.
pub(super) fn renewal_in_words(message: &str, now: &Zoned) -> Option<Zoned> {
    let message = message.to_ascii_lowercase();
    BEFORE.iter().find_map(|before| {
        let (_, words) = message.split_once(before)?;
        let words = words.strip_prefix("at ").unwrap_or(words);
        time_in(words, now)
    })
}

fn time_in(words: &str, now: &Zoned) -> Option<Zoned> {
    let (date, rest) = match date_in(words, now) {
        Some((date, rest)) => (Some(date), rest),
        None => (None, words),
    };
    let (time, rest) = time_of_day(rest)?;
    let zone = zone_in(rest).unwrap_or_else(|| now.time_zone().clone());
    let here = now.with_time_zone(zone);
    if let Some((date, has_year)) = date {
        let found = ahead(date.to_datetime(time), &here)?;
        if has_year || !is_over(&found, &here) {
            return Some(found);
        }
        // At the end of December, January is next year.
        return found
            .date()
            .checked_add(jiff::Span::new().years(1))
            .ok()
            .and_then(|date| date.to_datetime(time).to_zoned(here.time_zone().clone()).ok());
    }
    let today = ahead(here.date().to_datetime(time), &here)?;
    if !is_over(&today, &here) {
        return Some(today);
    }
    let tomorrow = here.date().tomorrow().ok()?;
    tomorrow.to_datetime(time).to_zoned(here.time_zone().clone()).ok()
}

/// Returns a local time as an instant. If the clocks show the time twice, because they are set back,
/// returns the first instant that is not over.
fn ahead(time: DateTime, here: &Zoned) -> Option<Zoned> {
    let found = here.time_zone().to_ambiguous_zoned(time);
    let first = found.clone().compatible().ok()?;
    if is_over(&first, here) { found.later().ok() } else { Some(first) }
}

fn is_over(at: &Zoned, here: &Zoned) -> bool {
    !at.checked_add(LATE).is_ok_and(|late| late >= *here)
}

/// Parses `nov 28th, 2026 ` and `nov 28, `. Returns the date, whether it has a year, and the rest.
fn date_in<'a>(words: &'a str, now: &Zoned) -> Option<((Date, bool), &'a str)> {
    let month = MONTHS.iter().position(|month| words.starts_with(month))?;
    let rest = words.trim_start_matches(|c: char| c.is_ascii_alphabetic()).trim_start();
    let (day, rest) = number(rest)?;
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let rest = rest.trim_start_matches([',', ' ']);
    let year = number(rest).filter(|(year, _)| (2000..10_000).contains(year));
    let (year, has_year, rest) = match year {
        Some((year, rest)) => (year, true, rest),
        None => (u32::from(now.year().unsigned_abs()), false, rest),
    };
    let rest = rest.trim_start_matches([',', ' ']);
    let rest = rest.strip_prefix("at ").unwrap_or(rest);
    let date = Date::new(
        i16::try_from(year).ok()?,
        i8::try_from(month).ok()? + 1,
        i8::try_from(day).ok()?,
    );
    Some(((date.ok()?, has_year), rest))
}

/// Parses `3pm`, `3:28 pm` and `15:28`. A number alone is not a time.
fn time_of_day(words: &str) -> Option<(Time, &str)> {
    let (hour, rest) = number(words)?;
    let (minute, rest) = match rest.strip_prefix(':') {
        Some(rest) => number(rest).map(|(minute, rest)| (Some(minute), rest))?,
        None => (None, rest),
    };
    // Formatters put a narrow space before the word.
    let half = rest.trim_start_matches([' ', '\u{a0}', '\u{202f}']);
    let is_hour_of_half = (1..=12).contains(&hour);
    let (hour, rest) = if let Some(rest) = half.strip_prefix("am").filter(|_| is_hour_of_half) {
        (hour % 12, rest)
    } else if let Some(rest) = half.strip_prefix("pm").filter(|_| is_hour_of_half) {
        (hour % 12 + 12, rest)
    } else {
        minute?;
        (hour, rest)
    };
    let time = Time::new(i8::try_from(hour).ok()?, i8::try_from(minute.unwrap_or(0)).ok()?, 0, 0);
    Some((time.ok()?, rest))
}

/// Parses ` (europe/berlin)`.
fn zone_in(words: &str) -> Option<TimeZone> {
    let name = words.trim_start().strip_prefix('(')?.split_once(')')?.0;
    TimeZone::get(name).ok()
}

fn number(words: &str) -> Option<(u32, &str)> {
    let digits = words.len() - words.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    Some((words[..digits].parse().ok()?, &words[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(message: &str) -> Option<String> {
        let now: Zoned = "2026-11-27T13:30:00+01:00[Europe/Berlin]".parse().expect("a time");
        renewal_in_words(message, &now).map(|until| until.timestamp().to_string())
    }

    #[test]
    fn times_of_the_day_are_the_next_ones_in_the_time_zone_of_the_agent() {
        let codex = "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro) or try again at ";
        let cases = [
            (format!("{codex}3:28 PM."), Some("2026-11-27T14:28:00Z")),
            (format!("{codex}12:05 AM."), Some("2026-11-27T23:05:00Z")),
            (format!("{codex}1:29 PM."), Some("2026-11-27T12:29:00Z")),
            (format!("{codex}1:27 PM."), Some("2026-11-28T12:27:00Z")),
            (format!("{codex}Nov 30th, 2026 3:28 PM."), Some("2026-11-30T14:28:00Z")),
            (
                "You've hit your session limit · resets 3pm (UTC)".to_owned(),
                Some("2026-11-27T15:00:00Z"),
            ),
            (
                "hit your limit · resets 6:50am (America/New_York)".to_owned(),
                Some("2026-11-28T11:50:00Z"),
            ),
            (
                "hit your weekly limit · resets Dec 1, 3pm (UTC)".to_owned(),
                Some("2026-12-01T15:00:00Z"),
            ),
            ("resets Jan 2 at 15:00".to_owned(), Some("2027-01-02T14:00:00Z")),
            ("Your limit will reset at 15:28".to_owned(), Some("2026-11-27T14:28:00Z")),
            ("resets 3pm (Nowhere/Else)".to_owned(), Some("2026-11-27T14:00:00Z")),
        ];
        for (message, wanted) in cases {
            assert_eq!(until(&message).as_deref(), wanted, "{message}");
        }
    }

    #[test]
    fn a_time_that_the_clocks_show_twice_is_the_first_one_that_is_not_over() {
        let until = |now: &str, message: &str| {
            let now: Zoned = now.parse().expect("a time");
            renewal_in_words(message, &now).map(|until| until.timestamp().to_string())
        };
        for words in ["resets 2:30am", "resets Oct 31, 2:30am"] {
            for (now, wanted) in [
                ("2027-10-31T01:00:00+02:00[Europe/Berlin]", "2027-10-31T00:30:00Z"),
                ("2027-10-31T02:31:00+02:00[Europe/Berlin]", "2027-10-31T00:30:00Z"),
                ("2027-10-31T02:45:00+02:00[Europe/Berlin]", "2027-10-31T01:30:00Z"),
                ("2027-10-31T02:15:00+01:00[Europe/Berlin]", "2027-10-31T01:30:00Z"),
            ] {
                assert_eq!(until(now, words).as_deref(), Some(wanted), "{words} {now}");
            }
        }
    }

    #[test]
    fn other_words_are_not_times() {
        for message in [
            "",
            "resets ",
            "resets soon",
            "resets 3 sessions",
            "try again at 25:00",
            "try again at 13pm",
            "try again at Nov 31st, 2026 3:28 PM",
            "resets ١٢pm",
            "the reset at noon",
        ] {
            assert_eq!(until(message), None, "{message}");
        }
    }
}
