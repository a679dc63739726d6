//! When a usage limit ends, as agents write it.

use crate::wit::{Failure, FailureKind, Outcome};

/// Words before a time in the message of a limit.
const BEFORE: [&str; 9] = [
    "reset after",
    "resets after",
    "reset in",
    "resets in",
    "retry in",
    "retry after",
    "try again in",
    "try again after",
    "available in",
];
/// Units with their length in milliseconds. Longer names come before their beginnings.
const UNITS: [(&str, f64); 7] = [
    ("mo", 2_592_000_000.0),
    ("ms", 1.0),
    ("millisecond", 1.0),
    ("d", 86_400_000.0),
    ("h", 3_600_000.0),
    ("m", 60_000.0),
    ("s", 1_000.0),
];

/// Returns how many milliseconds a message about a limit says to wait, such as 6,548,000 for `Your
/// quota will reset after 1h49m8s.` Returns `None` for a message without a duration, for example one
/// with a time of the day, because a backend has no clock.
#[must_use]
pub fn wait_in_words(message: &str) -> Option<u32> {
    let message = message.to_ascii_lowercase();
    BEFORE.iter().find_map(|words| duration(message.split_once(words)?.1))
}

/// Returns an RFC 3339 timestamp for seconds since 1970, or `None` for a time that is not between
/// 1970 and 9999.
#[must_use]
pub fn timestamp(seconds: f64) -> Option<String> {
    if !(0.0..253_402_300_800.0).contains(&seconds) {
        return None;
    }
    let seconds = seconds as u64;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // The algorithm `civil_from_days`: years begin in March, so that a leap day ends one.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
}

/// Adds the wait in the message of a limit to the outcome of a turn, unless it has one.
pub(crate) fn completed(mut outcome: Outcome) -> Outcome {
    if let Outcome::Failed(Failure {
        kind: FailureKind::Quota | FailureKind::RateLimited,
        message,
        retry_after_ms: after @ None,
    }) = &mut outcome
    {
        *after = wait_in_words(message);
    }
    outcome
}

/// Parses `1h49m8s`, `12.5s`, `3 days 6 hours 57 minutes` and the like.
fn duration(text: &str) -> Option<u32> {
    let mut rest = text.trim_start_matches([' ', ':']);
    let mut sum = None;
    loop {
        let digits =
            rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let Ok(number) = rest[..digits].trim_end_matches('.').parse::<f64>() else { break };
        let unit = rest[digits..].trim_start();
        let Some((_, length)) = UNITS.iter().find(|(name, _)| unit.starts_with(name)) else {
            break;
        };
        sum = Some(sum.unwrap_or(0.0) + number * length);
        rest = unit.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        rest = rest.trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
    }
    sum.filter(|sum| *sum <= f64::from(u32::MAX)).map(|sum| sum as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_found_in_the_words_of_agents() {
        let cases = [
            (
                "You have exhausted your capacity on this model. Your quota will reset after 1h49m8s.",
                Some(6_548_000),
            ),
            ("Your quota will reset after 39s", Some(39_000)),
            ("Please retry in 12.5s.", Some(12_500)),
            ("Please retry in 500ms", Some(500)),
            (
                "You've hit your usage limit. To get more access now, send a request to your admin or try again in 3 days 6 hours 57 minutes.",
                Some(284_220_000),
            ),
            ("Rate limit reached. Please try again in 2 minutes and 5 seconds", Some(125_000)),
            ("try again in 49 days", Some(4_233_600_000)),
            ("try again in 50 days", None),
            ("try again in 1 month", Some(2_592_000_000)),
            ("try again in 2 weeks", None),
            ("or try again at 3:28 PM.", None),
            ("Try again Aug 18.", None),
            ("retry in a moment", None),
            ("rate limit of 5 m", None),
            ("", None),
        ];
        for (message, wait) in cases {
            assert_eq!(wait_in_words(message), wait, "{message}");
        }
    }

    #[test]
    fn seconds_become_timestamps() {
        let cases = [
            (0.0, Some("1970-01-01T00:00:00Z")),
            (1_764_165_900.0, Some("2025-11-26T14:05:00Z")),
            (1_709_164_800.9, Some("2024-02-29T00:00:00Z")),
            (253_402_300_799.0, Some("9999-12-31T23:59:59Z")),
            (253_402_300_800.0, None),
            (-1.0, None),
            (f64::NAN, None),
        ];
        for (seconds, wanted) in cases {
            assert_eq!(timestamp(seconds).as_deref(), wanted, "{seconds}");
        }
    }

    #[test]
    fn only_limits_get_a_wait_and_an_own_one_is_kept() {
        let outcome = |kind, after| {
            let message = "Please retry in 5s".to_owned();
            let failure = Failure { kind, message, retry_after_ms: after };
            match completed(Outcome::Failed(failure)) {
                Outcome::Failed(failure) => failure.retry_after_ms,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(outcome(FailureKind::RateLimited, None), Some(5_000));
        assert_eq!(outcome(FailureKind::Quota, Some(7)), Some(7));
        assert_eq!(outcome(FailureKind::Overloaded, None), None);
        assert_eq!(completed(Outcome::Completed), Outcome::Completed);
    }
}
