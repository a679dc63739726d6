//! Budgets: counts what turns use, stops turns at a cap, and lets owners raise it.
//!
//! [`BudgetMonitor`] has the sums of `state/turns` and of the running turns. A turn begins only if no
//! cap that applies to it is reached; otherwise its lane waits (`lanes/paused`). [`watch`] stops the
//! running turns when a cap is reached, warns people, and asks an owner with the buttons of
//! [`offers`]. [`decisions`] carries out what owners decide. `run/cut_off` decides how a stopped turn
//! continues, [`messages`] has the words, and `state/budgets.md` keeps the decisions.
//! `docs/budgets.md` describes all of it. Tested by `tests/dispatch/budgets.rs`.

pub(crate) mod decisions;
pub(crate) mod messages;
pub(crate) mod offers;
pub(crate) mod watch;

use std::sync::Arc;

use jiff::{Timestamp, ToSpan as _};
use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell};

use super::Shared;
use super::deps::DispatcherDeps;
use aetheel_model::agent::Usage;
use aetheel_model::budget::{
    AccountUse, BudgetGrant, BudgetLedger, BudgetSubject, SpentAmounts, SpentTurn,
};
use aetheel_model::event::{Event, Lane};
use aetheel_model::plain::with_causes;
use aetheel_store::workspace::TurnLine;

/// The beginning of the key of an event that continues a turn which a budget stopped.
pub(crate) const CONTINUATION: &str = "budget:";
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
    /// Held while a decision or a notice is saved.
    deciding: tokio::sync::Mutex<()>,
}

impl BudgetMonitor {
    pub(crate) fn new(deps: Arc<DispatcherDeps>) -> Arc<Self> {
        let mut ledger = BudgetLedger::new(deps.choices.time_zone.clone());
        let grants = deps.workspace.budget_notes().all();
        grants.into_iter().for_each(|grant| ledger.set_grant(grant));
        Arc::new(Self {
            deps,
            ledger: Mutex::new(ledger),
            loaded: OnceCell::new(),
            changed: Notify::new(),
            deciding: tokio::sync::Mutex::default(),
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
        let now = Timestamp::now();
        let today = jiff::tz::TimeZone::UTC.to_datetime(now).date();
        let from = today.saturating_sub(READ_DAYS.days());
        let read = |turns: &mut Vec<(String, SpentTurn)>, line: TurnLine| {
            turns.extend(line.spent().map(|spent| (line.turn, spent)));
        };
        let turns = self.deps.workspace.turns();
        let turns = turns.days(from, today.saturating_add(1.day()), Vec::new(), read).await;
        let mut ledger = self.ledger.lock();
        turns.into_iter().for_each(|(turn, spent)| ledger.finish(&turn, spent, now));
    }

    /// Counts a turn as running, unless a cap that applies to it is reached.
    ///
    /// # Errors
    /// The account that has reached its cap. The turn must not begin then.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        turn: &str,
        subject: &BudgetSubject,
    ) -> Result<CountedTurn, Box<AccountUse>> {
        let (has_caps, now) = (self.refresh().await, Timestamp::now());
        if has_caps {
            let mut ledger = self.ledger.lock();
            if let Some(reached) = last_reached(ledger.uses_of(subject, now)) {
                return Err(Box::new(reached));
            }
            ledger.begin(turn, subject.clone(), now);
        }
        Ok(CountedTurn { monitor: Arc::clone(self), turn: turn.to_owned() })
    }

    /// Counts a turn as running that a previous process began.
    pub(crate) async fn resume(
        self: &Arc<Self>,
        turn: &str,
        subject: &BudgetSubject,
    ) -> CountedTurn {
        if self.refresh().await {
            self.ledger.lock().begin(turn, subject.clone(), Timestamp::now());
        }
        CountedTurn { monitor: Arc::clone(self), turn: turn.to_owned() }
    }

    /// Returns the use of all accounts that apply to a turn.
    pub(crate) async fn uses(&self, subject: &BudgetSubject) -> Vec<AccountUse> {
        if !self.refresh().await {
            return Vec::new();
        }
        self.ledger.lock().uses_of(subject, Timestamp::now())
    }

    /// Returns an account that has reached its cap and applies to a turn.
    pub(crate) async fn reached(&self, subject: &BudgetSubject) -> Option<AccountUse> {
        if !self.refresh().await {
            return None;
        }
        last_reached(self.ledger.lock().uses_of(subject, Timestamp::now()))
    }

    /// Counts the usage that the agent of a running turn reports. Returns at once.
    pub(crate) fn on_usage(&self, turn: &str, usage: &Usage) {
        self.ledger.lock().report(turn, SpentAmounts::of_turn(Some(usage), 0));
        self.changed.notify_one();
    }

    /// Counts a finished turn once.
    pub(crate) fn finish(&self, line: &TurnLine) {
        let mut ledger = self.ledger.lock();
        if ledger.rules().caps.is_empty() {
            return;
        }
        if let Some(spent) = line.spent() {
            ledger.finish(&line.turn, spent, Timestamp::now());
            self.changed.notify_one();
        }
    }

    /// Saves a decision or a notice about an account, which then is in force.
    async fn save(&self, grant: BudgetGrant) -> bool {
        if let Err(error) = self.deps.workspace.budget_notes().save(grant.clone()).await {
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
        self.monitor.ledger.lock().abandon(&self.turn);
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
    let parent = match shared.channels.parents.of(lane) {
        Some(Lane::Channel(parent)) => Some(parent),
        _ => None,
    };
    BudgetSubject { parent, project: settings.project, ..BudgetSubject::of_lane(lane, &backend) }
}
