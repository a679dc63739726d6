//! Budgets: counts what turns use, stops turns at a cap, and lets owners raise it.
//!
//! [`BudgetMonitor`] has the sums of `state/turns` and of the running turns. A turn begins only if no
//! cap that applies to it is reached; otherwise its lane waits (`parts/budget_caps`). [`watch`] stops the
//! running turns when a cap is reached. [`notices`] warns people, and asks an owner with the buttons
//! of [`offers`]. [`decisions`] carries out what owners decide. In a cluster, [`cluster_sums`] adds the
//! turns of the other nodes. [`messages`] has the words, and `state/budgets.md` keeps the decisions.
//! `docs/budgets.md` describes all of it. Tested by `tests/dispatch/budgets.rs`.

mod cluster_sums;
pub(crate) mod decisions;
pub(crate) mod messages;
pub(crate) mod notices;
pub(crate) mod offers;
pub(crate) mod watch;

use std::sync::Arc;

use jiff::ToSpan as _;
use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell};

use self::cluster_sums::ClusterSums;
use super::Shared;
use super::deps::DispatcherDeps;
use aetheel_model::agent::Usage;
use aetheel_model::budget::{
    AccountUse, BudgetGrant, BudgetLedger, BudgetSubject, ClusterTurnUse, SpentAmounts, SpentTurn,
    TurnUseState,
};
use aetheel_model::event::{Event, Lane};
use aetheel_model::plain::with_causes;
use aetheel_store::workspace::TurnLine;

/// The name of the part that lets lanes wait at a cap.
pub(crate) const PART: &str = "budgets";
/// The number of days whose turns are read at the start. Months are the longest periods.
const READ_DAYS: i32 = 33;

/// The sums of all accounts.
pub(crate) struct BudgetMonitor {
    deps: Arc<DispatcherDeps>,
    ledger: Mutex<BudgetLedger>,
    /// Set once the turns of previous processes are in the ledger.
    loaded: OnceCell<()>,
    /// Notified when a sum may have reached a cap.
    changed: Notify,
    /// The exchange with the other nodes of a cluster.
    cluster: ClusterSums,
}

impl BudgetMonitor {
    pub(crate) fn new(deps: Arc<DispatcherDeps>) -> Arc<Self> {
        let mut ledger = BudgetLedger::new(deps.choices.time_zone.clone());
        let grants = deps.workspace.state.budgets.all();
        grants.into_iter().for_each(|grant| ledger.set_grant(grant));
        Arc::new(Self {
            deps,
            ledger: Mutex::new(ledger),
            loaded: OnceCell::new(),
            changed: Notify::new(),
            cluster: ClusterSums::default(),
        })
    }

    /// Reads `budgets.md` again if it changed, and the turns of previous processes the first time.
    /// Returns whether there is any cap.
    async fn refresh(&self) -> bool {
        let rules = self.deps.workspace.budgets().rules().await;
        let is_empty = rules.caps.is_empty();
        self.ledger.lock().set_rules(rules);
        if is_empty {
            return false;
        }
        self.loaded.get_or_init(|| self.load()).await;
        true
    }

    async fn load(&self) {
        let now = self.deps.clock.now();
        let today = jiff::tz::TimeZone::UTC.to_datetime(now).date();
        let from = today.saturating_sub(READ_DAYS.days());
        let read = |turns: &mut Vec<(String, SpentTurn)>, line: TurnLine| {
            turns.extend(line.spent().map(|spent| (line.turn, spent)));
        };
        let turns = self.deps.workspace.turns();
        // A line may still be on its way to the file: that of a turn whose answer a previous process
        // saved, or of one that ended before there was a cap.
        turns.flush().await;
        let turns = turns.days(from, today.saturating_add(1.day()), Vec::new(), read).await;
        if self.cluster_budgets().is_some() {
            self.cluster.report_ended(turns.iter().map(|(turn, spent)| finished_use(turn, spent)));
        }
        let mut ledger = self.ledger.lock();
        turns.into_iter().for_each(|(turn, spent)| ledger.finish(&turn, spent, now));
    }

    /// Counts a turn as running. Returns `None` if the turn must wait: a cap that applies to it is
    /// reached, or it is unknown what the other nodes of the cluster used.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        turn: &str,
        subject: &BudgetSubject,
    ) -> Option<CountedTurn> {
        let (has_caps, now) = (self.refresh().await, self.deps.clock.now());
        let counted = CountedTurn { monitor: Arc::clone(self), turn: turn.to_owned() };
        if !has_caps {
            return Some(counted);
        }
        if self.cluster.is_away() && !self.sync().await {
            return None;
        }
        {
            let mut ledger = self.ledger.lock();
            if last_reached(ledger.uses_of(subject, now)).is_some() {
                return None;
            }
            ledger.begin(turn, subject.clone(), now);
        }
        // The other nodes know of the turn before it begins, so that it counts on each node.
        self.is_admitted_by_cluster(turn).await.then_some(counted)
    }

    /// Counts a turn as running that a previous process began.
    pub(crate) async fn resume(
        self: &Arc<Self>,
        turn: &str,
        subject: &BudgetSubject,
    ) -> CountedTurn {
        if self.refresh().await {
            // The cluster may know what the turn used in the previous process.
            self.sync().await;
            self.ledger.lock().begin(turn, subject.clone(), self.deps.clock.now());
        }
        CountedTurn { monitor: Arc::clone(self), turn: turn.to_owned() }
    }

    /// Returns the use of all accounts that apply to a turn.
    pub(crate) async fn uses(&self, subject: &BudgetSubject) -> Vec<AccountUse> {
        if !self.refresh().await {
            return Vec::new();
        }
        self.sync().await;
        self.ledger.lock().uses_of(subject, self.deps.clock.now())
    }

    /// Returns an account that has reached its cap and applies to a turn, as far as this node knows.
    /// The flag states whether the caps that are reached apply to this person only. While turns wait,
    /// the watch asks the other nodes.
    pub(crate) async fn reached(&self, subject: &BudgetSubject) -> Option<(AccountUse, bool)> {
        if !self.refresh().await {
            return None;
        }
        let mut uses = self.ledger.lock().uses_of(subject, self.deps.clock.now());
        uses.retain(AccountUse::is_reached);
        let is_personal = uses.iter().all(|used| used.rule.is_personal());
        let reached = last_reached(uses)?;
        self.cluster.ask_soon();
        Some((reached, is_personal))
    }

    /// Counts the usage that the agent of a running turn reports. Returns at once.
    pub(crate) fn on_usage(&self, turn: &str, usage: &Usage) {
        self.ledger.lock().report(turn, SpentAmounts::of_turn(Some(usage), 0));
        self.changed.notify_one();
    }

    /// Counts a finished turn once.
    pub(crate) fn finish(&self, line: &TurnLine) {
        if self.ledger.lock().rules().caps.is_empty() {
            return;
        }
        if let Some(spent) = line.spent() {
            if self.cluster_budgets().is_some() {
                self.cluster.report_ended([finished_use(&line.turn, &spent)]);
            }
            self.ledger.lock().finish(&line.turn, spent, self.deps.clock.now());
            self.changed.notify_one();
        }
    }

    /// Saves a decision or a notice about an account, which then is in force on all nodes.
    async fn save(&self, grant: BudgetGrant) -> GrantSaving {
        let saved = self.save_in_cluster(&grant).await;
        if saved != GrantSaving::Saved {
            return saved;
        }
        if self.save_here(grant.clone()).await {
            return GrantSaving::Saved;
        }
        if self.cluster_budgets().is_none() {
            return GrantSaving::Failed;
        }
        // It is in force on all nodes, because the cluster has it.
        self.ledger.lock().set_grant(grant);
        GrantSaving::Saved
    }

    async fn save_here(&self, grant: BudgetGrant) -> bool {
        if let Err(error) = self.deps.workspace.state.budgets.try_save(grant.clone()).await {
            tracing::error!(account = %grant.account, error = %with_causes(&error), "cannot save state/budgets.md; hint: make CONFIG_DIR/state writable");
            return false;
        }
        self.ledger.lock().set_grant(grant);
        true
    }
}

/// A turn that counts as running until it is dropped, or until its line is counted.
pub(crate) struct CountedTurn {
    monitor: Arc<BudgetMonitor>,
    turn: String,
}

impl Drop for CountedTurn {
    fn drop(&mut self) {
        let now = self.monitor.deps.clock.now();
        let abandoned = self.monitor.ledger.lock().abandon(&self.turn, now);
        if let Some(used) = abandoned.filter(|_| self.monitor.cluster_budgets().is_some()) {
            self.monitor.cluster.report_abandoned(used, now);
            self.monitor.changed.notify_one();
        }
    }
}

/// The result of saving a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GrantSaving {
    Saved,
    /// Another node decided about the account meanwhile.
    Overtaken,
    Failed,
}

/// Returns the final use of a turn, for the other nodes.
fn finished_use(turn: &str, spent: &SpentTurn) -> ClusterTurnUse {
    ClusterTurnUse {
        turn: turn.to_owned(),
        subject: spent.subject.clone(),
        state: TurnUseState::Finished,
        at: spent.ended,
        spent: spent.spent,
    }
}

/// Returns the reached account whose period ends last, because the turn waits at least until then.
fn last_reached(uses: Vec<AccountUse>) -> Option<AccountUse> {
    uses.into_iter().filter(AccountUse::is_reached).max_by_key(|used| used.span.end)
}

/// Returns the properties by which budgets select the turn of an event.
pub(crate) async fn subject_of(shared: &Shared, event: &Event) -> BudgetSubject {
    let subject = lane_subject(shared, &event.lane).await;
    BudgetSubject { person: event.asker, parent: event.parent.or(subject.parent), ..subject }
}

/// Returns the properties by which budgets select the turns of a lane, without a person.
pub(crate) async fn lane_subject(shared: &Shared, lane: &Lane) -> BudgetSubject {
    let (backend, settings) = shared.channels.backend_of(lane).await;
    let parent = shared.channels.parents.of(lane).and_then(|parent| parent.channel());
    BudgetSubject { parent, project: settings.project, ..BudgetSubject::of_lane(lane, &backend) }
}
