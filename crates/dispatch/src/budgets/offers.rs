//! The buttons below notices about budgets. Pure.
//!
//! The id of a button has a mark of the account, its period and its cap. So a button works after a
//! restart, and has no effect once the cap was raised or the period has ended. Its beginning differs
//! between notices, because it prevents a second post of the same notice.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::outlet::Offer;
use aetheel_model::budget::{AccountUse, BudgetAccount, BudgetGrant};
use aetheel_model::event::Sequence;

const PREFIX: &str = "bu-";
/// Length of the mark of an account in an id.
const MARK: usize = 10;

/// The decision of an owner about a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BudgetDecision {
    /// The cap is raised to this amount until the end of the period.
    Raise(u64),
    /// No cap applies until tomorrow.
    UntilTomorrow,
}

/// Parses the id of a button. Returns the mark of the account, and the decision. Returns `None` for
/// any other button.
pub(super) fn parse(id: &str) -> Option<(&str, BudgetDecision)> {
    let mut parts = id.strip_prefix(PREFIX)?.splitn(4, '-');
    let (_place, mark, word, rest) = (parts.next()?, parts.next()?, parts.next()?, parts.next());
    let decision = match (word, rest) {
        ("raise", Some(amount)) => BudgetDecision::Raise(amount.parse().ok()?),
        ("tomorrow", None) => BudgetDecision::UntilTomorrow,
        _ => return None,
    };
    Some((mark, decision))
}

/// Returns the buttons of a notice: in the operator's channel, or for an event that waits.
pub(crate) fn buttons(used: &AccountUse, event: Option<Sequence>) -> Vec<Offer> {
    let place = event.map_or_else(|| "o".to_owned(), |event| event.to_string());
    let stem = format!("{PREFIX}{place}-{}", mark(used));
    let next = used.rule.unit.next_cap(used.cap, used.used);
    vec![
        Offer {
            id: format!("{stem}-raise-{next}"),
            label: format!("Raise to {}", used.rule.unit.describe(next)),
        },
        Offer { id: format!("{stem}-tomorrow"), label: "No cap until tomorrow".to_owned() },
    ]
}

/// Returns the mark of an account in its period with its cap.
pub(crate) fn mark(used: &AccountUse) -> String {
    mark_of(&used.account, used.span.start, used.cap)
}

/// Returns the mark of the cap about which an owner was asked.
pub(super) fn asked_mark(grant: &BudgetGrant) -> Option<String> {
    Some(mark_of(&grant.account, grant.start, grant.asked?))
}

fn mark_of(account: &BudgetAccount, start: Timestamp, cap: u64) -> String {
    let text = format!("{account}\n{start}\n{cap}");
    let digest = Sha256::digest(text);
    digest.iter().take(MARK / 2).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::budget::{BudgetCap, BudgetPeriod};
    use jiff::tz::TimeZone;

    #[test]
    fn a_button_is_about_one_account_period_and_cap() {
        let rule = BudgetCap::parse("team", "$20 a day").expect("a cap");
        let now = "2026-11-26T12:00:00Z".parse().expect("a time");
        let used = AccountUse {
            account: BudgetAccount("team money day".to_owned()),
            cap: rule.amount,
            rule,
            used: 20_100_000,
            span: BudgetPeriod::Day.span(now, &TimeZone::UTC),
            is_in_force: true,
        };
        let offers = buttons(&used, None);
        let labels: Vec<&str> = offers.iter().map(|offer| offer.label.as_str()).collect();
        assert_eq!(labels, ["Raise to $31.00", "No cap until tomorrow"]);
        let own = mark(&used);
        assert_eq!(parse(&offers[0].id), Some((own.as_str(), BudgetDecision::Raise(31_000_000))));
        assert_eq!(parse(&offers[1].id), Some((own.as_str(), BudgetDecision::UntilTomorrow)));
        assert_ne!(mark(&AccountUse { cap: 31_000_000, ..used.clone() }), own);
        assert_ne!(buttons(&used, Some(17))[0].id[..17], offers[0].id[..17]);
        for other in ["", "17-0", "lm-1-2-now", "bu-o-ab", "bu-o-ab-raise-x", "bu-o-ab-tomorrow-x"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
