//! Stops the running turns when a cap is reached, warns people, and asks owners.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::timeout;

use super::{BudgetMonitor, GrantSaving, messages, offers};
use crate::Shared;
use crate::outlet::Notice;
use aetheel_model::budget::{AccountUse, BudgetGrant};
use aetheel_store::workspace::{LimitFiles, PendingSave};

/// How often the time of running turns is compared with the caps.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest time between two exchanges with the other nodes of a cluster that reports of usage
/// cause.
const EXCHANGE_INTERVAL: Duration = Duration::from_millis(50);
/// How long the stop of a turn waits until its reason is saved. A full disk must not let the turn
/// use more.
const SAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Watches the sums until the dispatcher is dropped.
pub(crate) async fn watch(shared: Weak<Shared>, monitor: Arc<BudgetMonitor>) {
    loop {
        let is_changed = tokio::select! {
            () = monitor.changed.notified() => true,
            () = monitor.deps.clock.sleep(CHECK_INTERVAL) => false,
        };
        let Some(shared) = shared.upgrade() else { return };
        follow_files(&monitor).await;
        let is_awaited = monitor.cluster.take_awaited();
        let is_due = is_changed || is_awaited || !monitor.ledger.lock().is_idle();
        if is_due && monitor.refresh().await {
            // A slow database does not delay what this machine knows by itself.
            monitor.stop_at_caps(&shared).await;
            if monitor.cluster_budgets().is_some() {
                monitor.sync().await;
                monitor.stop_at_caps(&shared).await;
            }
            monitor.give_notice().await;
            drop(shared);
            if monitor.cluster_budgets().is_some() {
                tokio::time::sleep(EXCHANGE_INTERVAL).await;
            }
        }
    }
}

/// Reads the files with limits again, so that the log has a fault soon after the file was saved, and
/// warns the operator that one became empty.
async fn follow_files(monitor: &BudgetMonitor) {
    let workspace = &monitor.deps.workspace;
    drop((workspace.channels().await, workspace.budgets().rules().await));
    for file in LimitFiles::of(workspace).take_emptied() {
        tracing::warn!(file, "the file became empty; its limits are no longer in force");
        monitor.post(Notice::for_operator(messages::emptied(file), None)).await;
    }
}

impl BudgetMonitor {
    /// Warns people and asks owners about caps that are near or reached.
    async fn give_notice(&self) {
        let uses = self.ledger.lock().uses(self.deps.clock.now());
        for used in uses {
            if used.is_reached() {
                self.ask_owner(&used).await;
            } else if used.is_near() {
                self.warn(&used).await;
            }
        }
    }

    /// Stops the running turns that count in an account which has reached its cap. The journal gets
    /// the reason first: an agent may outlive the gateway, and the next process must not take its
    /// interruption for the request of a person.
    async fn stop_at_caps(&self, shared: &Shared) {
        let turns = self.ledger.lock().turns_to_stop(self.deps.clock.now());
        let due = shared.lanes.events_of(&turns);
        let journal = self.deps.journal.iter();
        let savings: Vec<PendingSave> =
            journal.flat_map(|journal| due.iter().map(|event| journal.cut_off(*event))).collect();
        let are_saved = async {
            let mut are_saved = true;
            for saving in savings {
                are_saved &= saving.done().await;
            }
            are_saved
        };
        if !matches!(timeout(SAVE_TIMEOUT, are_saved).await, Ok(true)) {
            tracing::warn!(
                "the reason for which turns are stopped could not be saved; if the gateway dies now, they do not continue by themselves"
            );
        }
        due.into_iter().for_each(|event| shared.lanes.cut_off(event));
    }

    /// Warns people that a cap is near, once for each cap.
    async fn warn(&self, used: &AccountUse) {
        let _alone = self.deciding.lock().await;
        let grant = self.ledger.lock().grant(&used.account, used.span);
        if grant.warned == Some(used.cap) {
            return;
        }
        let zone = &self.deps.choices.time_zone;
        let notice = Notice::for_operator(messages::warning(used, zone), None);
        tracing::warn!(account = %used.account, percent = used.percent(), "a budget is nearly used up");
        self.announce(notice, BudgetGrant { warned: Some(used.cap), ..grant }).await;
    }

    /// Asks an owner about a cap that is reached, once for each cap.
    async fn ask_owner(&self, used: &AccountUse) {
        let _alone = self.deciding.lock().await;
        let grant = self.ledger.lock().grant(&used.account, used.span);
        // An owner may have decided after the sums were compared.
        let is_lifted = grant.until.is_some_and(|until| until > self.deps.clock.now());
        if is_lifted || grant.asked == Some(used.cap) {
            return;
        }
        let zone = &self.deps.choices.time_zone;
        tracing::warn!(account = %used.account, used = used.rule.unit.describe(used.used), cap = used.rule.unit.describe(used.cap), "a budget is used up");
        let text = messages::question(used, zone);
        let notice = Notice::for_operator(text, offers::buttons(used, None));
        self.announce(notice, BudgetGrant { asked: Some(used.cap), ..grant }).await;
    }

    /// Sends a notice and saves that. If that fails on a machine alone, people get the notice again
    /// after a restart. In a cluster, the machine that saves it first sends it.
    async fn announce(&self, notice: Notice, grant: BudgetGrant) {
        if self.cluster_budgets().is_some() {
            match self.save(grant.clone()).await {
                GrantSaving::Saved => self.post(notice).await,
                GrantSaving::Overtaken | GrantSaving::Failed => {}
            }
            return;
        }
        self.post(notice).await;
        if !self.save_here(grant.clone()).await {
            self.ledger.lock().set_grant(grant);
        }
    }

    async fn post(&self, notice: Notice) {
        let text = self.deps.redactor.redact(notice.text);
        if let Err(error) = self.deps.outlet.notify(Notice { text, ..notice }).await {
            tracing::warn!(%error, "cannot send the notice about a budget; hint: set OUTPUT_CHANNEL_ID; the channels that wait have the same buttons");
        }
    }
}
