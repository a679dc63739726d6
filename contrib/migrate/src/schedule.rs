//! Converts schedules of `OpenClaw`. Pure.

use jiff::tz::TimeZone;

use crate::error::ScheduleError;
use crate::imported::JobSchedule;
use aetheel_model::schedule::Cron;

/// Parses a cron expression: five fields, six fields that begin with seconds, or a word such as
/// `@daily`.
///
/// # Errors
/// Returns the reason if Aetheel does not support the schedule.
pub(crate) fn parse_cron(text: &str) -> Result<JobSchedule, ScheduleError> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    if words.len() == 6 {
        match (words[0], words[5]) {
            ("0" | "00", _) => drop(words.remove(0)),
            // With seconds, only weekday numbers have another meaning in Aetheel.
            (_, "*" | "?") => {}
            _ => return Err(ScheduleError::WeekdayWithSeconds(text.to_owned())),
        }
    }
    let line = words.join(" ");
    line.parse::<Cron>().map_err(|error| ScheduleError::Cron {
        text: text.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(JobSchedule::Cron(line))
}

/// Makes an interval.
///
/// # Errors
/// The interval is too short or too long.
pub(crate) fn interval(seconds: u64) -> Result<JobSchedule, ScheduleError> {
    if !(u64::from(aetheel_model::schedule::MINIMUM)..=366 * 86_400).contains(&seconds) {
        return Err(ScheduleError::Interval(seconds));
    }
    Ok(JobSchedule::Every { seconds, active: None })
}

/// Checks that a time zone is in the IANA database.
///
/// # Errors
/// The time zone is unknown.
pub(crate) fn known_zone(name: &str) -> Result<String, ScheduleError> {
    let name = name.trim();
    TimeZone::get(name).map_err(|_| ScheduleError::Zone(name.to_owned()))?;
    Ok(name.to_owned())
}

/// Returns the time zone of this machine, which `OpenClaw` uses by default, or `None` if it has no
/// name.
pub(crate) fn local_zone() -> Option<String> {
    TimeZone::system().iana_name().filter(|name| *name != "Etc/Unknown").map(str::to_owned)
}

/// Parses `90s`, `30m`, `1h30m` or `2d` to seconds. A number without a unit is in minutes.
///
/// # Errors
/// The text has another form.
pub(crate) fn parse_duration(text: &str) -> Result<u64, ScheduleError> {
    let fault = || ScheduleError::Duration(text.to_owned());
    let text = text.trim();
    if let Ok(minutes) = text.parse::<u64>() {
        return minutes.checked_mul(60).ok_or_else(fault);
    }
    let (mut rest, mut sum) = (text, 0_u64);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| fault())?;
        let (unit, after) = rest[digits..].split_at_checked(1).ok_or_else(fault)?;
        let unit = match unit {
            "s" => 1,
            "m" if !after.starts_with('s') => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return Err(fault()),
        };
        sum = number.checked_mul(unit).and_then(|more| sum.checked_add(more)).ok_or_else(fault)?;
        rest = after;
    }
    if text.is_empty() { Err(fault()) } else { Ok(sum) }
}

/// Formats seconds for `heartbeat.md`.
pub(crate) fn format_interval(seconds: u64) -> String {
    match seconds {
        s if s.is_multiple_of(86_400) => format!("{}d", s / 86_400),
        s if s.is_multiple_of(3_600) => format!("{}h", s / 3_600),
        s if s.is_multiple_of(60) => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supported_expressions_are_converted() {
        for (text, wanted) in [
            ("0  9 * * 1-5", "0 9 * * 1-5"),
            ("0 0 9 * * 1-5", "0 9 * * 1-5"),
            ("30 0 9 * * *", "30 0 9 * * *"),
            ("@daily", "@daily"),
            ("*/15 8-18 * * mon,wed", "*/15 8-18 * * mon,wed"),
        ] {
            assert_eq!(parse_cron(text), Ok(JobSchedule::Cron(wanted.to_owned())), "{text}");
        }
    }

    #[test]
    fn unsupported_expressions_are_refused_with_the_reason() {
        for (text, why) in [
            ("30 0 9 * * 1", "weekdays together with seconds"),
            ("0 9 L * *", "day of the month `L`"),
            ("@reboot", "startup hook"),
            ("", "0 fields"),
        ] {
            let told = parse_cron(text).unwrap_err().to_string();
            assert!(told.contains(why), "{text}: {told}");
        }
        assert!(interval(10).unwrap_err().to_string().contains("60 seconds to a year"));
        assert!(known_zone("Mars/Base").unwrap_err().to_string().contains("not a time zone"));
    }

    #[test]
    fn durations_are_parsed_and_formatted() {
        for (text, seconds) in
            [("30m", 1_800), ("45", 2_700), ("1h30m", 5_400), ("90s", 90), ("2d", 172_800)]
        {
            assert_eq!(parse_duration(text), Ok(seconds), "{text}");
        }
        for text in ["", "m", "1.5h", "300ms", "1y", "h1", "9999999999999999999d", "1é"] {
            parse_duration(text).expect_err(text);
        }
        assert_eq!([90, 1_800, 7_200, 86_400].map(format_interval), ["90s", "30m", "2h", "1d"]);
    }
}
