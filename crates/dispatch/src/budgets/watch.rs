//! Stops the running turns when a cap is reached, warns people, and asks owners.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::timeout;

use super::{BudgetMonitor, GrantSaving, messages, offers};
use crate::Shared;
use crate::outlet::{DeliveryError, Notice, WaitTopic};
use aetheel_model::budget::{AccountUse, BudgetGrant};
use aetheel_store::workspace::PendingSave;

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
        let is_asking = !monitor.asked.lock().is_empty();
        let is_due = is_changed || is_awaited || is_asking || !monitor.ledger.lock().is_idle();
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
        } else if is_asking {
            end_questions(&monitor, &[]);
        }
    }
}

/// Reads the files with limits again, so that the log has a fault soon after the file was saved, and
/// warns the operator that one became empty.
async fn follow_files(monitor: &BudgetMonitor) {
    let workspace = &monitor.deps.workspace;
    drop((workspace.channels().await, workspace.budgets().rules().await));
    for file in workspace.limit_files().take_emptied() {
        tracing::warn!(file, "the file became empty; its limits are no longer in force");
        let notice = Notice::for_operator(messages::emptied(file), None);
        if post(monitor, notice).await.is_err() {
            tracing::warn!("cannot send the notice about a file; hint: set OUTPUT_CHANNEL_ID");
        }
    }
}

impl BudgetMonitor {
    /// Warns people and asks owners about caps that are near or reached.
    async fn give_notice(&self) {
        let uses = self.ledger.lock().uses(self.deps.clock.now());
        end_questions(self, &uses);
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
        let notice = Notice::for_operator(messages::warning(used), None);
        tracing::warn!(account = %used.account, percent = used.percent(), "a budget is nearly used up");
        if !announces(self, BudgetGrant { warned: Some(used.cap), ..grant }).await {
            return;
        }
        // Without a channel for notices, the channel that used the budget gets the warning.
        let channel = self.ledger.lock().last_channel(&used.account);
        if post(self, notice.clone()).await.is_err()
            && (channel.is_none() || post(self, Notice { channel, ..notice }).await.is_err())
        {
            tracing::warn!("cannot send the warning about a budget; hint: set OUTPUT_CHANNEL_ID");
        }
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
        let mark = offers::mark(used);
        self.decided.lock().remove(&mark);
        self.asked.lock().insert(mark.clone());
        tracing::warn!(account = %used.account, used = used.rule.unit.describe(used.used), cap = used.rule.unit.describe(used.cap), "a budget is used up");
        let text = messages::question(used);
        let notice = Notice::for_operator(text, offers::buttons(used, None));
        let wait = WaitTopic { topic: topic_of(&mark), reason: mark };
        let grant = BudgetGrant { asked: Some(used.cap), ..grant };
        if announces(self, grant).await && post_wait(self, wait, notice).await.is_err() {
            tracing::warn!(
                "cannot send the question about a budget; hint: set OUTPUT_CHANNEL_ID; the channels that wait have the same buttons"
            );
        }
    }
}

/// Saves that people get a notice. Returns whether this machine sends it. In a cluster, the machine
/// that saves it first does. If a machine alone cannot save it, people get the notice again after
/// a restart.
async fn announces(monitor: &BudgetMonitor, grant: BudgetGrant) -> bool {
    if monitor.cluster_budgets().is_some() {
        return monitor.save(grant).await == GrantSaving::Saved;
    }
    if !monitor.save_here(grant.clone()).await {
        monitor.ledger.lock().set_grant(grant);
    }
    true
}

async fn post(monitor: &BudgetMonitor, notice: Notice) -> Result<(), DeliveryError> {
    let text = monitor.deps.redactor.redact(notice.text);
    monitor.deps.outlet.notify(Notice { text, ..notice }).await
}

async fn post_wait(
    monitor: &BudgetMonitor,
    wait: WaitTopic,
    notice: Notice,
) -> Result<(), DeliveryError> {
    let text = monitor.deps.redactor.redact(notice.text);
    monitor.deps.outlet.announce_wait(wait, Notice { text, ..notice }).await
}

/// Edits the notices about caps that are not reached any more.
fn end_questions(monitor: &BudgetMonitor, uses: &[AccountUse]) {
    let reached: HashSet<String> =
        uses.iter().filter(|used| used.is_reached()).map(offers::mark).collect();
    let ended: Vec<String> =
        monitor.asked.lock().extract_if(|mark| !reached.contains(mark)).collect();
    for mark in ended {
        let line = monitor.decision_about(&mark);
        let line = line.as_deref().unwrap_or(messages::AVAILABLE_AGAIN);
        monitor.deps.outlet.end_wait(&topic_of(&mark), line);
    }
}

fn topic_of(mark: &str) -> String {
    format!("budget-{mark}")
}
