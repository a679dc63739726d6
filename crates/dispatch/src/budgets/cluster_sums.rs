//! The exchange of the use of budgets between the nodes of a cluster.
//!
//! Each node reports its turns, and reads the reports of the others: before a turn begins, after each
//! report of usage, and every second while turns run or wait. A report of this node and the answer to
//! it have one place in the order of all reports. So of two turns that begin at the same time on two
//! nodes, at least one sees the other. Without a cluster, nothing here does anything.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;

use super::{BudgetMonitor, GrantSaving};
use crate::deps::{ClusterBudgets, ClusterBudgetsAway};
use aetheel_model::budget::{
    BudgetAccount, BudgetCursor, BudgetGrant, BudgetNews, BudgetReport, ClusterTurnUse,
    SpentAmounts, TurnUseState,
};

/// How often the time of a running turn is reported if nothing else changed. If a node dies, so much
/// of the time of its turns may not be counted.
const TIME_INTERVAL: Duration = Duration::from_secs(10);
/// The largest number of ended turns in one report.
const MAX_REPORTED: usize = 500;

/// The exchange of this node with the others.
#[derive(Default)]
pub(super) struct ClusterSums {
    exchange: tokio::sync::Mutex<Exchange>,
    /// The number of exchanges that were begun.
    begun: AtomicU64,
    /// Turns that have ended and are not reported yet.
    ended: Mutex<BTreeMap<String, ClusterTurnUse>>,
    /// Turns that are about to begin, and whether they may, once that is known.
    admissions: Mutex<HashMap<String, Option<bool>>>,
    /// The revision of the decisions about an account in a period.
    revisions: Mutex<HashMap<(BudgetAccount, Timestamp), i64>>,
    /// Whether turns wait, so that the others must be asked.
    is_awaited: AtomicBool,
    /// Whether the last exchange failed.
    is_away: AtomicBool,
}

/// The state of the exchange. Locked while one runs.
#[derive(Default)]
struct Exchange {
    /// Up to where the reports of the others are known.
    known: BudgetCursor,
    /// Whether everything that was reported before this process began is known.
    has_caught_up: bool,
    /// The last report about each running turn, and the time of the report.
    reported: HashMap<String, (SpentAmounts, Instant)>,
    /// The number of the last exchange that succeeded.
    completed: u64,
}

impl Exchange {
    /// Returns the running turns with something to report.
    fn changed(&self, running: Vec<ClusterTurnUse>) -> Vec<ClusterTurnUse> {
        let is_changed = |used: &ClusterTurnUse| {
            let Some((spent, at)) = self.reported.get(&used.turn) else { return true };
            let so_far = SpentAmounts { took_ms: spent.took_ms, ..used.spent };
            so_far != *spent || at.elapsed() >= TIME_INTERVAL
        };
        running.into_iter().filter(is_changed).collect()
    }
}

impl ClusterSums {
    /// Reports turns that have ended with the next exchange.
    pub(super) fn report_ended(&self, turns: impl IntoIterator<Item = ClusterTurnUse>) {
        self.ended.lock().extend(turns.into_iter().map(|used| (used.turn.clone(), used)));
    }

    /// Reports that this process no longer runs a turn, which has no line. Its usage counts.
    pub(super) fn report_abandoned(&self, used: ClusterTurnUse, now: Timestamp) {
        self.admissions.lock().remove(&used.turn);
        let has_used = used.spent.micro_usd > 0 || used.spent.tokens > 0;
        let (state, spent) = match has_used {
            true => (TurnUseState::Closed, used.spent),
            false => (TurnUseState::Withdrawn, SpentAmounts::default()),
        };
        self.report_ended([ClusterTurnUse { state, at: now, spent, ..used }]);
    }

    /// Returns whether the last exchange failed.
    pub(super) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    /// Lets the watch ask the others within its interval.
    pub(super) fn ask_soon(&self) {
        self.is_awaited.store(true, Ordering::Relaxed);
    }

    /// Returns whether the others must be asked although no turn runs.
    pub(super) fn take_awaited(&self) -> bool {
        self.is_awaited.swap(false, Ordering::Relaxed) || !self.ended.lock().is_empty()
    }
}

impl BudgetMonitor {
    /// Returns the place where the nodes add up their use, or `None` without a cluster.
    pub(super) fn cluster_budgets(&self) -> Option<&dyn ClusterBudgets> {
        self.deps.router.as_ref()?.cluster_budgets()
    }

    /// Reports the turns of this node and takes the earlier reports of the others. Returns
    /// whether that succeeded. Calls at the same time share an exchange.
    pub(super) async fn sync(&self) -> bool {
        let Some(budgets) = self.cluster_budgets() else { return true };
        let sums = &self.cluster;
        let begun_before = sums.begun.load(Ordering::SeqCst);
        let mut exchange = sums.exchange.lock().await;
        if exchange.completed > begun_before {
            return true;
        }
        let number = sums.begun.fetch_add(1, Ordering::SeqCst) + 1;
        match self.exchange(budgets, &mut exchange).await {
            Ok(()) => {
                exchange.completed = number;
                if sums.is_away.swap(false, Ordering::Relaxed) {
                    tracing::info!("the use of budgets on the other machines is known again");
                }
                true
            }
            Err(error) => {
                if !sums.is_away.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "cannot exchange the use of budgets with the other machines; no turn begins that has a cap, and running turns are stopped at a cap with what is known");
                }
                false
            }
        }
    }

    async fn exchange(
        &self,
        budgets: &dyn ClusterBudgets,
        exchange: &mut Exchange,
    ) -> Result<(), ClusterBudgetsAway> {
        loop {
            // Most of the turns in the files of this node were reported before.
            let has_caught_up = exchange.has_caught_up;
            let ended: Vec<ClusterTurnUse> = match has_caught_up {
                true => self.cluster.ended.lock().values().take(MAX_REPORTED).cloned().collect(),
                false => Vec::new(),
            };
            let running = self.ledger.lock().own_running(self.deps.clock.now());
            let begins: Vec<String> = running.iter().map(|used| used.turn.clone()).collect();
            exchange.reported.retain(|turn, _| begins.contains(turn));
            let running = if has_caught_up { exchange.changed(running) } else { Vec::new() };
            let turns = ended.iter().chain(&running).cloned().collect();
            let news = budgets.exchange(BudgetReport { turns, after: exchange.known }).await?;
            let now = Instant::now();
            exchange
                .reported
                .extend(running.into_iter().map(|used| (used.turn, (used.spent, now))));
            let has_more = news.has_more;
            exchange.known = news.up_to;
            self.take_news(news, &ended).await;
            if has_more {
                continue;
            }
            if !has_caught_up {
                exchange.has_caught_up = true;
                self.publish_grants().await;
            } else if self.cluster.ended.lock().is_empty() {
                self.decide_admissions(&begins);
                return Ok(());
            }
        }
    }

    /// Takes the reports of the others, after the report with these ended turns succeeded.
    async fn take_news(&self, news: BudgetNews, reported: &[ClusterTurnUse]) {
        {
            let mut ended = self.cluster.ended.lock();
            for used in reported {
                if ended.get(&used.turn) == Some(used) {
                    ended.remove(&used.turn);
                }
            }
            for used in &news.turns {
                if used.state == TurnUseState::Finished {
                    ended.remove(&used.turn);
                }
            }
            let mut ledger = self.ledger.lock();
            news.turns.into_iter().for_each(|used| ledger.take(used));
        }
        for (grant, revision) in news.grants {
            let key = (grant.account.clone(), grant.start);
            self.cluster.revisions.lock().insert(key, revision);
            let known = self.ledger.lock().grants();
            let is_news = known.iter().all(|known| {
                known.account != grant.account || known.start <= grant.start && *known != grant
            });
            if is_news && !self.save_here(grant.clone()).await {
                // It is in force here all the same, because the cluster has it.
                self.ledger.lock().set_grant(grant);
            }
        }
    }

    /// Gives the other nodes the decisions from the time before this node shared them.
    async fn publish_grants(&self) {
        let own = self.ledger.lock().grants();
        for grant in own {
            let key = (grant.account.clone(), grant.start);
            if !self.cluster.revisions.lock().contains_key(&key) {
                // If another node was faster, its decision arrives with the next exchange.
                let _ = self.save_in_cluster(&grant).await;
            }
        }
    }

    /// Decides about the turns that are about to begin and were part of an exchange that has just
    /// ended. Later exchanges may contain turns that began after them.
    fn decide_admissions(&self, reported: &[String]) {
        let now = self.deps.clock.now();
        let mut admissions = self.cluster.admissions.lock();
        let is_undecided = |turn: &&String| admissions.get(*turn) == Some(&None);
        let undecided: Vec<String> = reported.iter().filter(is_undecided).cloned().collect();
        let refused = self.ledger.lock().turns_to_refuse(&undecided, now);
        for turn in undecided {
            let is_admitted = !refused.contains(&turn);
            admissions.insert(turn, Some(is_admitted));
        }
    }

    /// Returns whether a turn that counts as running here may begin.
    pub(super) async fn is_admitted_by_cluster(&self, turn: &str) -> bool {
        if self.cluster_budgets().is_none() {
            return true;
        }
        self.cluster.admissions.lock().insert(turn.to_owned(), None);
        let is_known = self.sync().await;
        let decided = self.cluster.admissions.lock().remove(turn).flatten();
        is_known && decided == Some(true)
    }

    /// Saves a decision for all nodes. Without a cluster, there is nothing to save.
    pub(super) async fn save_in_cluster(&self, grant: &BudgetGrant) -> GrantSaving {
        let Some(budgets) = self.cluster_budgets() else { return GrantSaving::Saved };
        let key = (grant.account.clone(), grant.start);
        let revision = self.cluster.revisions.lock().get(&key).copied().unwrap_or(0);
        match budgets.save_grant(grant.clone(), revision).await {
            Ok(Some(revision)) => {
                self.cluster.revisions.lock().insert(key, revision);
                GrantSaving::Saved
            }
            Ok(None) => GrantSaving::Overtaken,
            Err(error) => {
                tracing::warn!(%error, account = %grant.account, "cannot save a decision about a budget for all machines");
                GrantSaving::Failed
            }
        }
    }
}
