//! The use of budgets on all nodes: one row for each turn, and one for the decisions about an account
//! in a period.
//!
//! A node reports its own turns and reads what the others reported since its last call, in one round
//! trip. Reports of all nodes have an order, so of two nodes that begin a turn at the same time, the
//! second one sees the turn of the first one.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Cluster, ClusterError, SqlValue};
use aetheel_dispatch::{ClusterBudgets, ClusterBudgetsAway};
use aetheel_model::budget::{
    BudgetAccount, BudgetGrant, BudgetNews, BudgetReport, ClusterTurnUse, SpentAmounts,
    TurnUseState,
};

/// How long turns are kept after their end. Months are the longest periods of budgets.
const KEPT: Duration = Duration::from_secs(34 * 24 * 60 * 60);
const MAX_TURNS: i32 = 2_000;

impl From<ClusterError> for ClusterBudgetsAway {
    fn from(error: ClusterError) -> Self {
        Self(error.to_string())
    }
}

/// Each turn counts once, also if several nodes report it. The turns of a process that is gone count
/// with the amounts that it reported last.
#[async_trait]
impl ClusterBudgets for Cluster {
    async fn exchange(&self, report: BudgetReport) -> Result<BudgetNews, ClusterBudgetsAway> {
        let after = report.after;
        let (rows, grants) =
            tokio::try_join!(self.report_turns(&report), self.grants_after(after.grants))?;
        let mut changes = BudgetNews { up_to: after, has_more: true, ..BudgetNews::default() };
        for row in rows {
            changes.up_to.turns = row.get(8);
            match row.get::<_, Option<String>>(0) {
                Some(turn) => changes.turns.extend(turn_use(turn, &row)),
                None => changes.has_more = false,
            }
        }
        for row in grants {
            changes.up_to.grants = row.get(6);
            changes.grants.extend(grant_of(&row).map(|grant| (grant, changes.up_to.grants)));
        }
        Ok(changes)
    }

    async fn save_grant(
        &self,
        grant: BudgetGrant,
        revision: i64,
    ) -> Result<Option<i64>, ClusterBudgetsAway> {
        let start = grant.start.as_millisecond();
        let until = grant.until.map(Timestamp::as_millisecond);
        let [raised, warned, asked] =
            [grant.raised, grant.warned, grant.asked].map(|amount| amount.map(column));
        let values: [(SqlValue<'_>, Type); 7] = [
            (&grant.account.0, Type::TEXT),
            (&start, Type::INT8),
            (&raised, Type::INT8),
            (&until, Type::INT8),
            (&warned, Type::INT8),
            (&asked, Type::INT8),
            (&revision, Type::INT8),
        ];
        let statement = "select aetheel.put_budget_grant($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let rows = self.inner.fenced(statement, &values).await?;
        Ok(rows.first().and_then(|row| row.get(0)))
    }
}

impl Cluster {
    async fn report_turns(&self, report: &BudgetReport) -> Result<Vec<Row>, ClusterError> {
        let turns = &report.turns;
        let texts = |text: fn(&ClusterTurnUse) -> String| turns.iter().map(text).collect();
        let amounts = |amount: fn(&SpentAmounts) -> u64| {
            turns.iter().map(|used| column(amount(&used.spent))).collect()
        };
        let ids: Vec<String> = texts(|used| used.turn.clone());
        let states: Vec<String> = texts(|used| used.state.word().to_owned());
        let subjects: Vec<String> =
            texts(|used| serde_json::to_string(&used.subject).expect("a subject is plain data"));
        let times: Vec<i64> = turns.iter().map(|used| used.at.as_millisecond()).collect();
        let prices: Vec<i64> = amounts(|spent| spent.micro_usd);
        let tokens: Vec<i64> = amounts(|spent| spent.tokens);
        let counts: Vec<i64> = amounts(|spent| spent.turns);
        let durations: Vec<i64> = amounts(|spent| spent.took_ms);
        let kept_ms = i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX);
        let values: [(SqlValue<'_>, Type); 11] = [
            (&ids, Type::TEXT_ARRAY),
            (&states, Type::TEXT_ARRAY),
            (&times, Type::INT8_ARRAY),
            (&subjects, Type::TEXT_ARRAY),
            (&prices, Type::INT8_ARRAY),
            (&tokens, Type::INT8_ARRAY),
            (&counts, Type::INT8_ARRAY),
            (&durations, Type::INT8_ARRAY),
            (&report.after.turns, Type::INT8),
            (&kept_ms, Type::INT8),
            (&MAX_TURNS, Type::INT4),
        ];
        let statement = "select * from aetheel.share_budgets(
             $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
        self.inner.fenced(statement, &values).await
    }

    async fn grants_after(&self, revision: i64) -> Result<Vec<Row>, ClusterError> {
        let statement = "select account, start_ms, raised, until_ms, warned, asked, revision
             from aetheel.budget_grant
             where bot = $1 and revision > $4
               and exists (select from aetheel.node where bot = $1 and name = $2 and start = $3)
             order by revision";
        self.inner.fenced(statement, &[(&revision, Type::INT8)]).await
    }
}

/// Returns an amount as it is stored. Larger ones are reduced to the largest number.
fn column(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

fn amount(column: i64) -> u64 {
    u64::try_from(column).unwrap_or(0)
}

/// Returns the use of a turn, or `None` if another version wrote it in an unknown form.
fn turn_use(turn: String, row: &Row) -> Option<ClusterTurnUse> {
    Some(ClusterTurnUse {
        turn,
        state: TurnUseState::parse(row.get(1))?,
        at: Timestamp::from_millisecond(row.get(2)).ok()?,
        subject: serde_json::from_str(row.get(3)).ok()?,
        spent: SpentAmounts {
            micro_usd: amount(row.get(4)),
            tokens: amount(row.get(5)),
            turns: amount(row.get(6)),
            took_ms: amount(row.get(7)),
        },
    })
}

fn grant_of(row: &Row) -> Option<BudgetGrant> {
    let optional = |at: usize| row.get::<_, Option<i64>>(at);
    let until = optional(3).map(Timestamp::from_millisecond).transpose().ok()?;
    Some(BudgetGrant {
        account: BudgetAccount(row.get(0)),
        start: Timestamp::from_millisecond(row.get(1)).ok()?,
        raised: optional(2).map(amount),
        until,
        warned: optional(4).map(amount),
        asked: optional(5).map(amount),
    })
}
