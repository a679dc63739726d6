//! Times in settings: a number with a unit, such as `5m`, or without one.

use std::time::Duration;

/// A unit of time. The unit of a number without a suffix depends on the setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeUnit {
    suffix: &'static str,
    pub(super) word: &'static str,
    milliseconds: u64,
}

impl TimeUnit {
    pub(super) const MILLISECONDS: Self = Self::new("ms", "milliseconds", 1);
    pub(super) const SECONDS: Self = Self::new("s", "seconds", 1_000);
    const MINUTES: Self = Self::new("m", "minutes", 60_000);
    const HOURS: Self = Self::new("h", "hours", 3_600_000);
    pub(super) const DAYS: Self = Self::new("d", "days", 86_400_000);
    /// All units, the longest first.
    const ALL: [Self; 5] =
        [Self::DAYS, Self::HOURS, Self::MINUTES, Self::SECONDS, Self::MILLISECONDS];

    const fn new(suffix: &'static str, word: &'static str, milliseconds: u64) -> Self {
        Self { suffix, word, milliseconds }
    }

    /// Returns this number of units. Saturates.
    pub(super) fn times(self, number: u64) -> Duration {
        Duration::from_millis(number.saturating_mul(self.milliseconds))
    }

    /// Parses a whole number with a unit, or without one for this unit.
    pub(super) fn parse(self, text: &str) -> Option<Duration> {
        let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let unit = match suffix.trim_start() {
            "" => self,
            suffix => Self::ALL.into_iter().find(|unit| unit.suffix == suffix)?,
        };
        let milliseconds = number.parse::<u64>().ok()?.checked_mul(unit.milliseconds)?;
        Some(Duration::from_millis(milliseconds))
    }

    /// Formats a time with the longest unit that divides it, such as `90s` or `2h`.
    pub(super) fn shortest(time: Duration) -> String {
        let all = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let divides = |unit: &Self| all % unit.milliseconds == 0;
        let unit = Self::ALL.into_iter().find(divides).unwrap_or(Self::MILLISECONDS);
        match all {
            0 => "0".to_owned(),
            _ => format!("{}{}", all / unit.milliseconds, unit.suffix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_or_that_of_its_setting() {
        let seconds = |text| TimeUnit::SECONDS.parse(text).map(|time| time.as_millis());
        for (text, milliseconds) in [
            ("90", 90_000),
            ("0", 0),
            ("1500ms", 1_500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("5 m", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(seconds(text), Some(milliseconds), "{text}");
        }
        for text in ["", "m", "-5m", "5 minutes", "1.5h", "5M", "1h30m", "99999999999999999999"] {
            assert_eq!(seconds(text), None, "{text}");
        }
        assert_eq!(TimeUnit::shortest(Duration::from_secs(90)), "90s");
        assert_eq!(TimeUnit::shortest(Duration::from_secs(7_200)), "2h");
    }
}
