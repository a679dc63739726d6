//! The messages about budgets. Pure.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use aetheel_model::budget::AccountUse;

/// The prompt with which a turn continues that a budget interrupted.
pub(crate) const CONTINUE_PROMPT: &str = "The budget that interrupted your last turn is available again. Continue the work on my last request where it stopped. First check what is already done, so that nothing is done twice.";

/// Returns the message for the author of a prompt that waits. `continues` states whether the prompt
/// continues a turn that the budget interrupted.
pub(crate) fn waits(used: &AccountUse, continues: bool, zone: &TimeZone) -> String {
    let (reached, until) = (reached(used), until(used, zone));
    if continues {
        return format!("{reached} I continue by myself {until}. `/stop` cancels that. (budget)");
    }
    format!("{reached} Your message waits, and is answered {until}. `/stop` removes it. (budget)")
}

/// Returns the failure of a turn that continues by itself.
pub(crate) fn continues(used: &AccountUse, zone: &TimeZone) -> String {
    format!("{} I continue by myself {}. (budget)", reached(used), until(used, zone))
}

/// Returns the failure of a turn that does not continue.
pub(crate) fn ends(used: &AccountUse) -> String {
    format!("{} The turn was stopped. (budget)", reached(used))
}

/// Returns the notice that a cap is near.
pub(crate) fn warning(used: &AccountUse, zone: &TimeZone) -> String {
    format!(
        "⚠️ The budget {} is used to {} %: {} of {} a {}. At the cap, conversations wait, and continue {}. (budget)",
        name(used),
        used.percent(),
        used.rule.unit.describe(used.used),
        used.rule.unit.describe(used.cap),
        used.rule.period.word(),
        until(used, zone)
    )
}

/// Returns the notice that asks an owner.
pub(crate) fn emptied(file: &str) -> String {
    format!("⚠️ `{file}` became empty or was deleted. Its limits are no longer in force.")
}

pub(crate) fn question(used: &AccountUse, zone: &TimeZone) -> String {
    format!("💰 {} Conversations wait, and continue {}. (budget)", reached(used), until(used, zone))
}

/// Returns the line of `/status` about a lane that waits.
pub(crate) fn status(used: &AccountUse, zone: &TimeZone) -> String {
    format!("{} Prompts are answered {}.", reached(used), until(used, zone))
}

/// Returns the sentence that a budget is used up.
pub(crate) fn reached(used: &AccountUse) -> String {
    format!(
        "The budget {} is used up: {} of {} a {}.",
        name(used),
        used.rule.unit.describe(used.used),
        used.rule.unit.describe(used.cap),
        used.rule.period.word()
    )
}

/// Returns the name of the budget, with the values that have an account of their own.
fn name(used: &AccountUse) -> String {
    let rule = &used.rule;
    let own = format!("{} {} {}", rule.name, rule.unit.word(), rule.period.word());
    match used.account.0.strip_prefix(&own).map(str::trim).filter(|rest| !rest.is_empty()) {
        Some(rest) => format!("`{}` ({rest})", rule.name),
        None => format!("`{}`", rule.name),
    }
}

fn until(used: &AccountUse, zone: &TimeZone) -> String {
    let end: Timestamp = used.span.end;
    let end = end.to_zoned(zone.clone());
    format!("when an owner raises the budget, or at {}", end.strftime("%Y-%m-%d %H:%M (%Z)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::budget::{BudgetAccount, BudgetCap, BudgetPeriod};

    #[test]
    fn a_message_names_the_budget_its_use_and_the_end_of_the_period() {
        let rule = BudgetCap::parse("people", "$20 a day for each person").expect("a cap");
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().expect("a time");
        let used = AccountUse {
            account: BudgetAccount("people money day person 4".to_owned()),
            cap: rule.amount,
            rule,
            used: 20_100_000,
            span: BudgetPeriod::Day.span(now, &TimeZone::UTC),
            is_in_force: true,
        };
        assert_eq!(
            waits(&used, false, &TimeZone::UTC),
            "The budget `people` (person 4) is used up: $20.10 of $20.00 a day. Your message waits, and is answered when an owner raises the budget, or at 2026-11-27 00:00 (UTC). `/stop` removes it. (budget)"
        );
        let near = AccountUse { used: 16_000_000, ..used };
        assert!(warning(&near, &TimeZone::UTC).contains("used to 80 %: $16.00 of $20.00 a day."));
    }
}
