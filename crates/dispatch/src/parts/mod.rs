//! The parts of a turn that this crate has: one file for each feature.
//!
//! | part | feature |
//! |---|---|
//! | [`Breaker`] | lanes wait while their backend is paused |
//! | [`UsageLimits`] | lanes wait for the end of a usage limit, or change to another account |
//! | [`BudgetCaps`] | lanes wait at the cap of a budget, and turns stop there |
//! | [`Recaps`] | agents get the turns that they do not know |
//! | [`TurnHooks`] | the operator's instructions before and after a turn |
//! | [`Observers`] | observers get the events of turns |
//! | [`AllowedToolsGate`] | agents use only the tools that the operator allows |
//! | [`PlanMode`] | turns that only plan change nothing |
//! | [`PolicyVotes`] | policies decide about requests in place of people |
//! | [`Collisions`] | people are warned about files that two conversations use |
//! | [`HostTools`] | agents call tools of the gateway |
//! | [`RolloutComparisons`] | new versions of backends are compared with the serving ones |
//! | [`DriftReports`] | output that backends do not recognise is reported |
//! | [`TurnAudit`] | the audit log has the beginning and the end of each turn |

mod allowed_tools;
mod audit;
mod breaker;
mod budget_caps;
mod collisions;
mod drift;
mod hooks;
mod host_tools;
mod observers;
mod plan_mode;
mod policy_votes;
mod recaps;
mod rollout;
mod usage_limits;

pub use self::allowed_tools::AllowedToolsGate;
pub use self::audit::TurnAudit;
pub use self::breaker::Breaker;
pub use self::budget_caps::BudgetCaps;
pub use self::collisions::Collisions;
pub use self::drift::DriftReports;
pub use self::hooks::TurnHooks;
pub use self::host_tools::HostTools;
pub use self::observers::Observers;
pub use self::plan_mode::PlanMode;
pub use self::policy_votes::PolicyVotes;
pub use self::recaps::Recaps;
pub use self::rollout::RolloutComparisons;
pub use self::usage_limits::UsageLimits;

/// The texts with which requests of agents are refused by the operator's settings, without asking
/// people.
pub const AUTOMATIC_REFUSALS: [&str; 2] = [allowed_tools::NOT_ALLOWED, plan_mode::REFUSAL];
