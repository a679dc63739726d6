//! The messages about budgets. Pure.

use aetheel_model::budget::AccountUse;
use aetheel_model::shown_time::shown_date;

/// The line below a notice about a cap that is not reached any more.
pub(crate) const AVAILABLE_AGAIN: &str = "▶️ The budget is available again.";

/// Returns the notice for the author of a prompt that waits. `continues` states whether the prompt
/// continues a turn that the budget interrupted. The answer of that turn names the budget.
pub(crate) fn waits(used: &AccountUse, continues: bool) -> String {
    let (reached, until) = (reached(used), until(used));
    if continues {
        return format!("I continue by myself {until}. `/stop` cancels that. (budget)");
    }
    format!("{reached} Your message waits, and is answered {until}. `/stop` removes it. (budget)")
}

/// Returns the failure of a turn that continues by itself. A notice tells when.
pub(crate) fn continues(used: &AccountUse) -> String {
    format!("{} This is not finished. (budget)", reached(used))
}

/// Returns the reason for which a prompt waits, for a list of prompts.
pub(crate) fn reason(used: &AccountUse) -> String {
    format!("waits until {}: budget `{}`", shown_date(used.span.end), used.rule.name)
}

/// Returns the failure of a turn that does not continue.
pub(crate) fn ends(used: &AccountUse) -> String {
    format!("{} The turn was stopped. (budget)", reached(used))
}

/// Returns the notice that a cap is near.
pub(crate) fn warning(used: &AccountUse) -> String {
    format!(
        "⚠️ The budget {} is used to {} %: {} of {} a {}. At the cap, conversations wait, and continue {}. (budget)",
        name(used),
        used.percent(),
        used.rule.unit.describe(used.used),
        used.rule.unit.describe(used.cap),
        used.rule.period.word(),
        until(used)
    )
}

/// Returns the notice that a file with limits became empty.
pub(crate) fn emptied(file: &str) -> String {
    format!("⚠️ `{file}` became empty or was deleted. Its limits are no longer in force.")
}

/// Returns the notice that asks an owner.
pub(crate) fn question(used: &AccountUse) -> String {
    format!("💰 {} Conversations wait, and continue {}. (budget)", reached(used), until(used))
}

/// Returns the line of `/status` about a lane that waits.
pub(crate) fn status(used: &AccountUse) -> String {
    let reached = reached_by(&format!("`{}`", used.rule.name), used);
    format!("{reached} Prompts are answered {}.", until(used))
}

/// Returns the sentence that a budget is used up.
pub(crate) fn reached(used: &AccountUse) -> String {
    reached_by(&name(used), used)
}

fn reached_by(name: &str, used: &AccountUse) -> String {
    format!(
        "The budget {name} is used up: {} of {} a {}.",
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
        Some(rest) => format!("`{}` ({})", rule.name, with_names(rest)),
        None => format!("`{}`", rule.name),
    }
}

/// Returns the values of an account with the ids of people and channels as marks, which Discord
/// shows as names.
fn with_names(values: &str) -> String {
    let (mut shown, mut words) = (Vec::new(), values.split(' '));
    while let Some(word) = words.next() {
        let mark = match word {
            "person" => "@",
            "channel" => "#",
            word => {
                shown.push(word.to_owned());
                continue;
            }
        };
        shown.extend(words.next().map(|id| match id.parse::<u64>() {
            Ok(id) => format!("<{mark}{id}>"),
            Err(_) => format!("{word} {id}"),
        }));
    }
    shown.join(" ")
}

fn until(used: &AccountUse) -> String {
    format!("when an owner raises the budget, or at {}", shown_date(used.span.end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::budget::{BudgetAccount, BudgetCap, BudgetPeriod};
    use jiff::Timestamp;
    use jiff::tz::TimeZone;

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
            waits(&used, false),
            "The budget `people` (<@4>) is used up: $20.10 of $20.00 a day. Your message waits, and is answered when an owner raises the budget, or at <t:1795737600:f>. `/stop` removes it. (budget)"
        );
        assert_eq!(with_names("person 4 channel x project a b"), "<@4> channel x project a b");
        let near = AccountUse { used: 16_000_000, ..used };
        assert!(warning(&near).contains("used to 80 %: $16.00 of $20.00 a day."));
    }
}
