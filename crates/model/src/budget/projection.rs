//! The turns that a cap would have stopped.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::ledger::SpentTurn;
use super::period::PeriodSpan;
use super::rules::{BudgetAccount, BudgetCap};

/// The effect that a cap would have had on an account in one period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectedPeriod {
    /// The account.
    pub account: BudgetAccount,
    /// The period.
    pub span: PeriodSpan,
    /// The amount that all turns used.
    pub used: u64,
    /// The amount that the turns before the cap used.
    pub allowed: u64,
    /// The number of turns that would have begun.
    pub began: u64,
    /// The number of turns that would have waited.
    pub stopped: u64,
    /// The end of the turn that reached the cap.
    pub reached: Option<Timestamp>,
}

/// The effect that a cap would have had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    /// The periods of each account in which turns ended, in order.
    pub periods: Vec<ProjectedPeriod>,
}

/// Computes which turns a cap would have stopped. A turn counts as stopped if the cap was reached
/// before it began; it then uses nothing.
#[must_use]
pub fn what_if(cap: &BudgetCap, zone: &TimeZone, mut turns: Vec<SpentTurn>) -> Projection {
    turns.sort_by_key(|turn| turn.ended);
    let mut periods: BTreeMap<(BudgetAccount, Timestamp), ProjectedPeriod> = BTreeMap::new();
    for turn in turns {
        let Some(account) = cap.account_of(&turn.subject) else { continue };
        let span = cap.period.span(turn.ended, zone);
        let period = periods.entry((account.clone(), span.start)).or_insert(ProjectedPeriod {
            account,
            span,
            used: 0,
            allowed: 0,
            began: 0,
            stopped: 0,
            reached: None,
        });
        let amount = turn.spent.in_unit(cap.unit);
        period.used = period.used.saturating_add(amount);
        let took = i64::try_from(turn.spent.took_ms).unwrap_or(i64::MAX);
        let began = turn.ended.checked_sub(SignedDuration::from_millis(took));
        let began = began.unwrap_or(Timestamp::MIN);
        if period.reached.is_some_and(|reached| began >= reached) {
            period.stopped += 1;
            continue;
        }
        period.began += 1;
        period.allowed = period.allowed.saturating_add(amount);
        if period.allowed >= cap.amount {
            period.reached.get_or_insert(turn.ended);
        }
    }
    Projection { periods: periods.into_values().collect() }
}

#[cfg(test)]
mod tests {
    use super::super::amount::SpentAmounts;
    use super::super::rules::BudgetSubject;
    use super::*;
    use crate::event::Lane;

    fn turn(ended: &str, dollars: u64, seconds: u64) -> SpentTurn {
        SpentTurn {
            ended: ended.parse().expect("a time"),
            subject: BudgetSubject::of_lane(&Lane::Console, "mini"),
            spent: SpentAmounts {
                micro_usd: dollars * 1_000_000,
                tokens: 0,
                turns: 1,
                took_ms: seconds * 1_000,
            },
        }
    }

    #[test]
    fn turns_that_began_after_the_cap_was_reached_are_stopped() {
        let cap = BudgetCap::parse("what-if", "$10 a day").expect("a cap");
        let turns = vec![
            turn("2026-11-26T10:00:00Z", 6, 60),
            turn("2026-11-26T12:00:00Z", 6, 60),
            // It ran when the cap was reached.
            turn("2026-11-26T12:10:00Z", 1, 3_600),
            turn("2026-11-26T13:00:00Z", 9, 60),
            turn("2026-11-27T13:00:00Z", 9, 60),
        ];
        let projection = what_if(&cap, &TimeZone::UTC, turns);
        let [first, second] = &projection.periods[..] else { panic!("{projection:?}") };
        assert_eq!((first.used, first.allowed), (22_000_000, 13_000_000));
        assert_eq!((first.began, first.stopped), (3, 1));
        assert_eq!(first.reached.map(|at| at.to_string()).as_deref(), Some("2026-11-26T12:00:00Z"));
        assert_eq!((second.began, second.stopped, second.reached), (1, 0, None));
    }
}
