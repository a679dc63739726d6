//! Adds up the use of budgets over the nodes of the cluster, in its database.

use async_trait::async_trait;

use crate::Cluster;
use aetheel_dispatch::{ClusterBudgets, ClusterBudgetsAway};
use aetheel_model::budget::{BudgetGrant, BudgetNews, BudgetReport};

/// The sums in the database of the cluster.
pub struct ClusterBudgetTable(Cluster);

impl ClusterBudgetTable {
    /// Creates the access of a node to the sums.
    #[must_use]
    pub fn new(cluster: Cluster) -> Self {
        Self(cluster)
    }
}

#[async_trait]
impl ClusterBudgets for ClusterBudgetTable {
    async fn exchange(&self, report: BudgetReport) -> Result<BudgetNews, ClusterBudgetsAway> {
        let exchanged = self.0.exchange_budgets(&report).await;
        exchanged.map_err(|error| ClusterBudgetsAway(error.to_string()))
    }

    async fn save_grant(
        &self,
        grant: BudgetGrant,
        revision: i64,
    ) -> Result<Option<i64>, ClusterBudgetsAway> {
        let saved = self.0.save_budget_grant(&grant, revision).await;
        saved.map_err(|error| ClusterBudgetsAway(error.to_string()))
    }
}
