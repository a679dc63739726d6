//! Translates standard crontab lines to the form of the `cron` crate.
//!
//! The crate needs seconds first and counts weekdays from Sunday = 1, while crontab(5) counts from
//! Sunday = 0. An untranslated line would run on another day.

const DAYS: [&str; 7] =
    ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// Abbreviations of crontab(5), without `@reboot`, for which there is the startup hook.
const WORDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Returns the five fields of a word such as `@daily`.
pub(super) fn expand_word(text: &str) -> Option<&'static str> {
    WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, fields)| *fields)
}

/// The reason why the days of the week of a crontab line are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WeekdayError {
    /// A part is neither a number nor the name of a day, or its step is invalid.
    #[error("`{0}` is not a day of the week: `0` to `7` (both are Sunday) or names")]
    Invalid(String),
    /// The last day of a range is before the first.
    #[error("`{0}` ends before it begins")]
    Reversed(String),
}

/// Translates the days of the week of a crontab field to the numbers of the crate.
///
/// # Errors
/// [`WeekdayError`] with the invalid part of the field.
pub(super) fn weekdays(field: &str) -> Result<String, WeekdayError> {
    let mut wanted = [false; 7];
    for part in field.split(',') {
        let fault = || WeekdayError::Invalid(part.to_owned());
        let (range, step) =
            part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let step = step
            .map_or(Ok(1), str::parse)
            .ok()
            .filter(|step| (1..=7).contains(step))
            .ok_or_else(fault)?;
        let (first, last) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (0, 6),
            Some((first, last)) => {
                let (first, last) = (day(first).ok_or_else(fault)?, day(last).ok_or_else(fault)?);
                // The week may end with Sunday.
                (first, if last == 0 && first > 0 { 7 } else { last })
            }
            None => {
                let first = day(range).ok_or_else(fault)?;
                (first, if part.contains('/') { 6.max(first) } else { first })
            }
        };
        if first > last {
            return Err(WeekdayError::Reversed(part.to_owned()));
        }
        (first..=last).step_by(step).for_each(|day| wanted[day % 7] = true);
    }
    let wanted =
        (1..).zip(wanted).filter(|(_, wanted)| *wanted).map(|(day, _): (u8, bool)| day.to_string());
    Ok(wanted.collect::<Vec<_>>().join(","))
}

/// Parses `0` to `7`, or a name of at least three characters.
fn day(text: &str) -> Option<usize> {
    if let Ok(number) = text.parse() {
        return Some(number).filter(|number| *number <= 7);
    }
    let text = text.to_lowercase();
    DAYS.iter().position(|name| text.len() >= 3 && name.starts_with(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weekdays_are_counted_from_sunday_as_zero_and_translated_to_one() {
        for (field, days) in [
            ("0", "1"),
            ("7", "1"),
            ("1-5", "2,3,4,5,6"),
            ("5-7", "1,6,7"),
            ("fri-sun", "1,6,7"),
            ("MON,Thursday", "2,5"),
            ("*/2", "1,3,5,7"),
            ("1/2", "2,4,6"),
            ("0-7", "1,2,3,4,5,6,7"),
            ("*", "1,2,3,4,5,6,7"),
        ] {
            assert_eq!(weekdays(field).as_deref(), Ok(days), "{field}");
        }
        for bad in ["8", "mo", "5-1", "1-", "", "1,,2", "*/0", "*/8", "5L", "1#2", "-1"] {
            weekdays(bad).expect_err(bad);
        }
    }
}
