//! Times in the words of an agent, such as `resets Oct 9, 3pm (Europe/Berlin)`. Pure.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};

/// Words before the time at which a usage limit ends. Longer ones come before their beginnings.
const BEFORE: [&str; 8] = [
    "resets at",
    "resets on",
    "resets",
    "reset at",
    "try again at",
    "try again on",
    "retry at",
    "available at",
];
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
/// A time of the day that passed this long ago is not that of the next day: agents cut the seconds,
/// and a turn may end a while after its limit was reported.
const JUST_PASSED: SignedDuration = SignedDuration::from_mins(10);
/// A date without a year that passed this long ago is that of the next year.
const LAST_YEAR: SignedDuration = SignedDuration::from_hours(2 * 24);

/// Returns the time at which a limit ends according to a message about it. A message that names no
/// time zone is understood in `zone`. Returns `None` if it has no time of the day.
pub(super) fn end_in_words(message: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let lower = message.to_ascii_lowercase();
    BEFORE.iter().find_map(|words| end_of(lower.split_once(words)?.1, now, zone))
}

fn end_of(text: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let words = text.split([' ', ',', '\n', '·']).map(|word| word.trim_matches(['.', ':', ';']));
    let mut words =
        words.filter(|word| !word.is_empty() && !matches!(*word, "at" | "on")).peekable();
    let month = words.peek().and_then(|word| month(word));
    let date = match month {
        Some(month) => {
            words.next();
            let digits = words.next()?.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let day: i8 = digits.parse().ok()?;
            let year = words.next_if(|word| word.len() == 4).map(str::parse);
            Some((year.transpose().ok()?, month, day))
        }
        None => None,
    };
    let time = words.next()?;
    let half = words.next_if(|word| matches!(*word, "am" | "pm")).unwrap_or_default();
    let time = time_of_day(&format!("{time}{half}"))?;
    let named = words.next().map(|word| word.trim_matches(['(', ')', '.']));
    let zone = named.and_then(|name| TimeZone::get(name).ok()).unwrap_or_else(|| zone.clone());
    let today = now.to_zoned(zone.clone()).date();
    let at = |date: Date| Some(date.to_datetime(time).to_zoned(zone.clone()).ok()?.timestamp());
    match date {
        Some((Some(year), month, day)) => at(Date::new(year, month, day).ok()?),
        Some((None, month, day)) => {
            let this_year = at(Date::new(today.year(), month, day).ok()?)?;
            match now.duration_since(this_year) > LAST_YEAR {
                true => at(Date::new(today.year() + 1, month, day).ok()?),
                false => Some(this_year),
            }
        }
        None => {
            let at_today = at(today)?;
            match now.duration_since(at_today) > JUST_PASSED {
                true => at(today.checked_add(1.day()).ok()?),
                false => Some(at_today),
            }
        }
    }
}

/// Parses the name of a month, which may be cut after three characters.
fn month(word: &str) -> Option<i8> {
    let number = MONTHS.iter().position(|month| word.starts_with(month))?;
    word.bytes().all(|byte| byte.is_ascii_alphabetic()).then_some(number as i8 + 1)
}

/// Parses `3pm`, `3:28pm` and `15:28`.
fn time_of_day(word: &str) -> Option<Time> {
    let (digits, half) = match (word.strip_suffix("am"), word.strip_suffix("pm")) {
        (Some(digits), _) => (digits, Some(0)),
        (_, Some(digits)) => (digits, Some(12)),
        _ => (word, None),
    };
    let (hour, minute) = match (digits.split_once(':'), half) {
        (Some((hour, minute)), _) => (hour, minute.parse().ok()?),
        (None, Some(_)) => (digits, 0),
        (None, None) => return None,
    };
    let hour: i8 = hour.parse().ok()?;
    let hour = match half {
        Some(half) if (1..=12).contains(&hour) => hour % 12 + half,
        Some(_) => return None,
        None => hour,
    };
    Time::new(hour, minute, 0, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_words_is_the_next_one_in_its_time_zone() {
        let berlin = TimeZone::get("Europe/Berlin").expect("a zone");
        let now = "2026-11-26T12:00:30Z".parse().expect("a time");
        let found = |message: &str| {
            end_in_words(message, now, &berlin).map(|at| at.to_string()).unwrap_or_default()
        };
        for (message, expected) in [
            ("You've hit your limit · resets 3pm (Europe/London)", "2026-11-26T15:00:00Z"),
            ("Limit reached - resets 1am (UTC)", "2026-11-27T01:00:00Z"),
            ("limit reached, resets 3:30pm", "2026-11-26T14:30:00Z"),
            ("It resets at 12am.", "2026-11-26T23:00:00Z"),
            ("resets 12pm (UTC)", "2026-11-26T12:00:00Z"),
            ("resets 11:40am (UTC)", "2026-11-27T11:40:00Z"),
            ("resets Nov 28, 5pm (America/New_York)", "2026-11-28T22:00:00Z"),
            ("resets Nov 28 at 5pm", "2026-11-28T16:00:00Z"),
            ("resets on January 2, 9am (UTC)", "2027-01-02T09:00:00Z"),
            ("Upgrade, or try again at 3:28 PM.", "2026-11-26T14:28:00Z"),
            ("or try again at Nov 30th, 2026 9:10 AM.", "2026-11-30T08:10:00Z"),
            ("retry at 18:15 (Nowhere/Else)", "2026-11-26T17:15:00Z"),
        ] {
            assert_eq!(found(message), expected, "{message}");
        }
        for message in [
            "",
            "try again at",
            "resets tomorrow",
            "resets Nov 28",
            "resets Feb 30, 5pm",
            "resets 25:00",
            "resets 13pm",
            "resets 0am",
            "resets 99999999999pm",
            "resets 3",
            "resets in 3 hours",
            "resets é:üpm",
        ] {
            assert_eq!(found(message), "", "{message}");
        }
    }
}
