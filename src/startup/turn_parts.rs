//! The list of the features that take part in turns.

use std::sync::Arc;

use aetheel_dispatch::TurnPart;
use aetheel_dispatch::parts::{
    AllowedToolsGate, Breaker, BudgetCaps, Collisions, DriftReports, HostTools, Observers,
    PlanMode, PolicyVotes, Recaps, RolloutComparisons, TurnAudit, TurnHooks, UsageLimits,
};

/// Returns the parts of every turn, in the order in which they are asked.
///
/// The first part that lets a lane wait names the reason, and the settings of the operator refuse a
/// request before policies decide. Otherwise, the order has no effect.
#[must_use]
pub fn turn_parts() -> Vec<Arc<dyn TurnPart>> {
    vec![
        Arc::new(Breaker),
        Arc::new(UsageLimits),
        Arc::new(BudgetCaps),
        Arc::new(Recaps),
        Arc::new(TurnHooks),
        Arc::new(Observers),
        Arc::new(AllowedToolsGate),
        Arc::new(PlanMode),
        Arc::new(PolicyVotes),
        Arc::new(Collisions),
        Arc::new(HostTools),
        Arc::new(RolloutComparisons),
        Arc::new(DriftReports),
        Arc::new(TurnAudit),
    ]
}
