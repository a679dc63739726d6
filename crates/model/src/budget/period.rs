//! The periods of budgets in the operator's time zone.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

/// How often a cap begins again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetPeriod {
    /// At midnight.
    Day,
    /// At midnight before Monday.
    Week,
    /// At midnight before the first day of a month.
    Month,
}

/// The time from the start of a period until the start of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodSpan {
    /// The first instant of the period.
    pub start: Timestamp,
    /// The first instant of the next period.
    pub end: Timestamp,
}

impl PeriodSpan {
    /// Returns whether an instant is in the period.
    #[must_use]
    pub fn contains(&self, at: Timestamp) -> bool {
        self.start <= at && at < self.end
    }
}

impl BudgetPeriod {
    /// Parses `day`, `week` or `month`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Day, Self::Week, Self::Month].into_iter().find(|period| period.word() == word)
    }

    /// Returns `day`, `week` or `month`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// Returns the period that contains an instant. Where clocks skip midnight, the day begins with
    /// its first instant.
    #[must_use]
    pub fn span(self, at: Timestamp, zone: &TimeZone) -> PeriodSpan {
        let first = self.first_day(zone.to_datetime(at).date());
        let mut span = self.starting(first, zone);
        // Where clocks are set back over midnight, a day ends before its last local time.
        if at >= span.end {
            span = self.starting(self.next_first_day(first), zone);
        }
        span
    }

    fn starting(self, first: Date, zone: &TimeZone) -> PeriodSpan {
        PeriodSpan { start: midnight(first, zone), end: midnight(self.next_first_day(first), zone) }
    }

    fn first_day(self, day: Date) -> Date {
        match self {
            Self::Day => day,
            Self::Week => {
                day.saturating_sub(i64::from(day.weekday().to_monday_zero_offset()).days())
            }
            Self::Month => day.first_of_month(),
        }
    }

    fn next_first_day(self, first: Date) -> Date {
        match self {
            Self::Day => first.saturating_add(1.day()),
            Self::Week => first.saturating_add(7.days()),
            Self::Month => first.last_of_month().saturating_add(1.day()),
        }
    }
}

fn midnight(day: Date, zone: &TimeZone) -> Timestamp {
    day.to_zoned(zone.clone()).map_or(Timestamp::MAX, |zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(period: BudgetPeriod, at: &str, zone: &str) -> (String, String) {
        let zone = TimeZone::get(zone).expect("a zone");
        let span = period.span(at.parse().expect("a time"), &zone);
        (span.start.to_string(), span.end.to_string())
    }

    #[test]
    fn periods_begin_at_midnight_of_the_zone() {
        let day = span(BudgetPeriod::Day, "2026-11-26T23:30:00Z", "Europe/Berlin");
        assert_eq!(day, ("2026-11-26T23:00:00Z".to_owned(), "2026-11-27T23:00:00Z".to_owned()));
        let week = span(BudgetPeriod::Week, "2026-11-26T12:00:00Z", "UTC");
        assert_eq!(week, ("2026-11-23T00:00:00Z".to_owned(), "2026-11-30T00:00:00Z".to_owned()));
        let month = span(BudgetPeriod::Month, "2026-12-31T12:00:00Z", "UTC");
        assert_eq!(month, ("2026-12-01T00:00:00Z".to_owned(), "2027-01-01T00:00:00Z".to_owned()));
        // A day of 23 hours.
        let short = span(BudgetPeriod::Day, "2026-03-29T12:00:00Z", "Europe/Berlin");
        assert_eq!(short, ("2026-03-28T23:00:00Z".to_owned(), "2026-03-29T22:00:00Z".to_owned()));
    }

    proptest! {
        #[test]
        fn each_instant_is_in_its_period_and_periods_meet(
            second in 0_i64..4_000_000_000,
            zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/Havana", "America/Sao_Paulo", "Asia/Beirut", "Australia/Lord_Howe"]),
        ) {
            let zone = TimeZone::get(zone).expect("a zone");
            let at = Timestamp::from_second(second).expect("a time");
            for period in [BudgetPeriod::Day, BudgetPeriod::Week, BudgetPeriod::Month] {
                let span = period.span(at, &zone);
                prop_assert!(span.contains(at), "{period:?} {span:?} {at}");
                prop_assert_eq!(period.span(span.start, &zone), span);
                prop_assert_eq!(period.span(span.end, &zone).start, span.end);
            }
        }
    }
}
