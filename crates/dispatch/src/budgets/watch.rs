//! Stops the running turns when a cap is reached.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::timeout;

use super::notices::BudgetNotices;
use super::{BudgetMonitor, PART};
use crate::Shared;
use aetheel_store::workspace::{JournalMark, PendingSave};

/// How often the time of running turns is compared with the caps.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest time between two exchanges with the other nodes of a cluster that reports of usage
/// cause.
const EXCHANGE_INTERVAL: Duration = Duration::from_millis(50);
/// How long the stop of a turn waits until its reason is saved. A full disk must not let the turn
/// use more.
const SAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Watches the sums and the files with limits until the dispatcher is dropped. Wakes the lanes that
/// wait at a cap which is not reached any more, or whose settings changed.
pub(crate) async fn watch(shared: Weak<Shared>, notices: Arc<BudgetNotices>) {
    let monitor = notices.monitor.clone();
    let mut channels = None;
    loop {
        let is_changed = tokio::select! {
            () = monitor.changed.notified() => true,
            () = monitor.deps.clock.sleep(CHECK_INTERVAL) => false,
        };
        let Some(shared) = shared.upgrade() else { return };
        let holds = &shared.lanes.holds;
        let read = notices.follow_files().await;
        if channels.replace(read.clone()).is_some_and(|before| !Arc::ptr_eq(&before, &read)) {
            holds.on_reason_change();
        }
        let is_awaited = monitor.cluster.take_awaited();
        let is_asking = !notices.asked.lock().is_empty();
        let is_waiting = holds.any_other_reason(PART, &HashSet::new());
        let is_idle = monitor.ledger.lock().is_idle();
        let is_due = is_changed || is_awaited || is_asking || is_waiting || !is_idle;
        if is_due && monitor.refresh().await {
            // A slow database does not delay what this machine knows by itself.
            monitor.stop_at_caps(&shared).await;
            if monitor.cluster_budgets().is_some() {
                monitor.sync().await;
                monitor.stop_at_caps(&shared).await;
            }
            let reached = notices.give_notice().await;
            if holds.any_other_reason(PART, &reached) {
                holds.on_reason_change();
            }
            drop(shared);
            if monitor.cluster_budgets().is_some() {
                tokio::time::sleep(EXCHANGE_INTERVAL).await;
            }
        } else if is_asking || is_waiting {
            notices.end_questions(&HashSet::new());
            holds.on_reason_change();
        }
    }
}

impl BudgetMonitor {
    /// Stops the running turns that count in an account which has reached its cap. The journal gets
    /// the reason first: an agent may outlive the gateway, and the next process must not take its
    /// interruption for the request of a person.
    async fn stop_at_caps(&self, shared: &Shared) {
        let turns = self.ledger.lock().turns_to_stop(self.deps.clock.now());
        let due = shared.lanes.events_of(&turns);
        let journal = self.deps.journal.as_ref();
        let savings = due.iter().map(|event| Some(journal?.mark(*event, JournalMark::CutOff)));
        let savings: Vec<PendingSave> = savings.flatten().collect();
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
}
