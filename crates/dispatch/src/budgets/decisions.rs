//! The decisions of owners about budgets.

use std::sync::Arc;

use super::GrantSaving;
use super::offers::{BudgetDecision, mark, parse};
use crate::Shared;
use crate::questions::Person;
use crate::recovery::offer::{OfferEffect, OfferRefusal};
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::budget::{AccountUse, BudgetGrant, BudgetPeriod};
use aetheel_model::plain::short_line;

/// How often a decision is tried while other machines decide about the same account.
const MAX_ATTEMPTS: u32 = 5;
/// Maximum length of the name of a person, in characters.
const MAX_NAME: usize = 64;

/// Shows budgets, and carries out the decisions of owners. Cheap to clone.
#[derive(Clone)]
pub struct Budgets {
    shared: Arc<Shared>,
}

impl Budgets {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Returns the use of all accounts that have any in their current period.
    pub async fn uses(&self) -> Vec<AccountUse> {
        let monitor = &self.shared.budgets;
        if !monitor.refresh().await {
            return Vec::new();
        }
        monitor.sync().await;
        monitor.ledger.lock().uses(self.shared.now())
    }

    /// Handles a press of a button below a notice about a budget. Returns `None` for any other
    /// button.
    pub async fn press(
        &self,
        id: &str,
        person: &Person,
    ) -> Option<Result<OfferEffect, OfferRefusal>> {
        let (wanted, decision) = parse(id)?;
        if !matches!(person, Person::User { owner: true, .. }) {
            tracing::warn!(?person, "refused a decision about a budget: not an owner");
            return Some(Err(OfferRefusal::NotOwner));
        }
        Some(self.decide(wanted, decision, person).await)
    }

    async fn decide(
        &self,
        wanted: &str,
        decision: BudgetDecision,
        person: &Person,
    ) -> Result<OfferEffect, OfferRefusal> {
        let (monitor, notices) = (&self.shared.budgets, &self.shared.budget_notices);
        let _alone = notices.deciding.lock().await;
        for _ in 0..MAX_ATTEMPTS {
            let (used, (grant, effect)) = self.decided(wanted, decision).await?;
            // Known before it is in force, so that the notices of all waits name it.
            let line = format!("{effect} {}.", name_of(person));
            notices.decided.lock().insert(mark(&used), line);
            let saved = monitor.save(grant.clone()).await;
            if saved != GrantSaving::Saved {
                notices.decided.lock().remove(&mark(&used));
            }
            match saved {
                GrantSaving::Saved => {
                    note_decision(&used, decision, person);
                    monitor.changed.notify_one();
                    tracing::warn!(account = %grant.account, ?decision, ?person, "an owner changed a budget");
                    return Ok(OfferEffect::Decided(effect));
                }
                // The button may be about a cap that was raised on another machine.
                GrantSaving::Overtaken => {}
                GrantSaving::Failed => break,
            }
        }
        Err(OfferRefusal::NotPossible)
    }

    /// Returns the use of the account, what the decision changes, and the words about it.
    async fn decided(
        &self,
        wanted: &str,
        decision: BudgetDecision,
    ) -> Result<(AccountUse, (BudgetGrant, &'static str)), OfferRefusal> {
        let monitor = &self.shared.budgets;
        let uses = self.uses().await;
        let used = uses.into_iter().find(|used| used.is_in_force && mark(used) == wanted);
        let used = used.ok_or(OfferRefusal::Gone)?;
        let grant = monitor.ledger.lock().grant(&used.account, used.span);
        let decided = match decision {
            BudgetDecision::Raise(cap) if cap > used.cap => {
                (BudgetGrant { raised: Some(cap), ..grant }, "💰 Raised by")
            }
            BudgetDecision::Raise(_) => return Err(OfferRefusal::Gone),
            BudgetDecision::UntilTomorrow => {
                let zone = &monitor.deps.choices.time_zone;
                let until = Some(BudgetPeriod::Day.span(self.shared.now(), zone).end);
                // Owners are asked again if the cap is still reached then.
                (
                    BudgetGrant { until, asked: None, ..grant },
                    "💰 No cap until tomorrow, decided by",
                )
            }
        };
        Ok((used, decided))
    }
}

/// Returns the name of a person.
fn name_of(person: &Person) -> String {
    match person {
        Person::User { name, .. } => short_line(name, MAX_NAME),
        Person::Terminal => "you".to_owned(),
    }
}

/// Adds the decision of an owner to the audit log.
fn note_decision(used: &AccountUse, decision: BudgetDecision, person: &Person) {
    let (user, name) = match person {
        Person::User { id, name, .. } => (Some(*id), Some(name.as_str())),
        Person::Terminal => (None, None),
    };
    let amount = |amount| used.rule.unit.describe(amount);
    let entry = AuditEntry::new(AuditKind::CapRaised)
        .by(user, name)
        .with("account", &used.account)
        .with("period", used.rule.period.word())
        .with("used", amount(used.used))
        .with("before", amount(used.cap));
    match decision {
        BudgetDecision::Raise(cap) => entry.with("after", amount(cap)),
        BudgetDecision::UntilTomorrow => entry.with("after", "no cap until tomorrow"),
    }
    .note();
}
