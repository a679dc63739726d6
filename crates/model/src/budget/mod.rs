//! Budgets: how much turns may use by day, week or month. Pure.
//!
//! [`BudgetRules`] is the content of `budgets.md`. A cap applies to the turns that its filters
//! select, and has an account of its own for each value of a filter `each`. [`BudgetLedger`] adds up
//! the finished and the running turns for each account, and [`what_if`] computes from finished turns
//! which of them a cap would have stopped. The machines of a cluster exchange [`BudgetReport`]s.
//! `docs/budgets.md` has the format of the file.

mod account;
mod amount;
mod ledger;
mod period;
mod projection;
mod rules;
mod shared;

pub use account::{AccountUse, BudgetGrant};
pub use amount::{AmountError, BudgetUnit, SpentAmounts};
pub use ledger::{BudgetLedger, SpentTurn};
pub use period::{BudgetPeriod, PeriodSpan};
pub use projection::{ProjectedPeriod, Projection, what_if};
pub use rules::{BudgetAccount, BudgetCap, BudgetRules, BudgetSubject, CapError};
pub use shared::{BudgetCursor, BudgetNews, BudgetReport, ClusterTurnUse, TurnUseState};
