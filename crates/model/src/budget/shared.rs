//! The reports of the machines of a cluster about budgets: the use of turns, and the decisions of
//! owners.

use jiff::Timestamp;

use super::account::BudgetGrant;
use super::amount::SpentAmounts;
use super::rules::BudgetSubject;

/// The state of a turn in the sums of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnUseState {
    /// The turn runs.
    Running,
    /// The machine no longer runs the turn, and the amounts are those that it reported last. The turn
    /// may still continue, or get its line later.
    Closed,
    /// The turn has ended, and the amounts are final.
    Finished,
    /// The turn did not begin.
    Withdrawn,
}

impl TurnUseState {
    /// Returns the state as one word, as it is stored.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Closed => "closed",
            Self::Finished => "finished",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// Parses a word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::Running, Self::Closed, Self::Finished, Self::Withdrawn];
        all.into_iter().find(|state| state.word() == word)
    }
}

/// The use of one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterTurnUse {
    /// The id of the turn. Each turn counts once.
    pub turn: String,
    /// The properties of the turn.
    pub subject: BudgetSubject,
    /// Whether the turn runs.
    pub state: TurnUseState,
    /// When the turn began, if it runs; otherwise when it ended.
    pub at: Timestamp,
    /// The amounts so far.
    pub spent: SpentAmounts,
}

/// The position up to which a machine knows the reports of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetCursor {
    /// The revision of the last turn.
    pub turns: i64,
    /// The revision of the last decision.
    pub grants: i64,
}

/// The report of a machine about its turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetReport {
    /// The turns of this machine that have changed.
    pub turns: Vec<ClusterTurnUse>,
    /// The position up to which this machine knows the reports of the others.
    pub after: BudgetCursor,
}

/// The reports of the other machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetNews {
    /// The turns of other machines, and of previous processes of this one.
    pub turns: Vec<ClusterTurnUse>,
    /// The decisions of owners and the notices that people got, each with its revision.
    pub grants: Vec<(BudgetGrant, i64)>,
    /// The new position.
    pub up_to: BudgetCursor,
    /// Whether there are more reports after this position.
    pub has_more: bool,
}
