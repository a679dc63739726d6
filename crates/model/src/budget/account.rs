//! The use of one account, and what people decided about it.

use jiff::Timestamp;

use super::period::PeriodSpan;
use super::rules::{BudgetAccount, BudgetCap};

/// The share of a cap from which people are warned, in percent.
const WARNING_PERCENT: u128 = 80;

/// The decisions of owners about an account in one period, and the notices that people got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetGrant {
    /// The account.
    pub account: BudgetAccount,
    /// The start of the period.
    pub start: Timestamp,
    /// The cap in place of that of the file, if it was raised.
    pub raised: Option<u64>,
    /// Until when no cap applies.
    pub until: Option<Timestamp>,
    /// The cap about whose near end people were warned.
    pub warned: Option<u64>,
    /// The cap about whose end an owner was asked.
    pub asked: Option<u64>,
}

/// The use of an account in its current period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountUse {
    /// The account.
    pub account: BudgetAccount,
    /// The cap in the file.
    pub rule: BudgetCap,
    /// The cap in force, which owners may have raised.
    pub cap: u64,
    /// The amount that finished and running turns used.
    pub used: u64,
    /// The current period.
    pub span: PeriodSpan,
    /// Whether the cap applies now.
    pub is_in_force: bool,
}

impl AccountUse {
    /// Returns whether no further turn may begin.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.is_in_force && self.used >= self.cap
    }

    /// Returns whether people should be warned that the cap is near.
    #[must_use]
    pub fn is_near(&self) -> bool {
        let used = u128::from(self.used) * 100;
        self.is_in_force && !self.is_reached() && used >= u128::from(self.cap) * WARNING_PERCENT
    }

    /// Returns the share that is used, in percent.
    #[must_use]
    pub fn percent(&self) -> u64 {
        let percent = u128::from(self.used) * 100 / u128::from(self.cap.max(1));
        u64::try_from(percent).unwrap_or(u64::MAX)
    }
}
