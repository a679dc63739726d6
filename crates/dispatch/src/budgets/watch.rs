//! Stops the running turns when a cap is reached, warns people, and asks owners.

use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;

use super::{BudgetMonitor, messages, offers};
use crate::Shared;
use crate::outlet::Notice;
use aetheel_model::budget::{AccountUse, BudgetGrant};
use aetheel_turn::StopReason;

/// How often the time of running turns is compared with the caps.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Watches the sums until the dispatcher is dropped.
pub(crate) async fn watch(shared: Weak<Shared>, monitor: Arc<BudgetMonitor>) {
    loop {
        let is_changed = tokio::select! {
            () = monitor.changed.notified() => true,
            () = tokio::time::sleep(CHECK_INTERVAL) => false,
        };
        let Some(shared) = shared.upgrade() else { return };
        if (is_changed || !monitor.ledger.lock().is_idle()) && monitor.refresh().await {
            monitor.check(&shared).await;
        }
    }
}

impl BudgetMonitor {
    async fn check(&self, shared: &Shared) {
        let now = Timestamp::now();
        let (stopped, uses) = {
            let mut ledger = self.ledger.lock();
            (ledger.turns_to_stop(now), ledger.uses(now))
        };
        for (lane, running) in shared.lanes.running.lock().iter() {
            if running.turn_id.as_ref().is_some_and(|turn| stopped.contains(turn)) {
                let stops = running.stop.send_if_modified(|reason| {
                    reason.is_none() && reason.replace(StopReason::Budget).is_none()
                });
                if stops {
                    tracing::warn!(%lane, turn = running.turn_id, "a budget is used up; the turn is stopped");
                }
            }
        }
        for used in uses {
            if used.is_reached() {
                self.ask_owner(&used).await;
            } else if used.is_near() {
                self.warn(&used).await;
            }
        }
    }

    /// Warns people that a cap is near, once for each cap.
    async fn warn(&self, used: &AccountUse) {
        let _alone = self.deciding.lock().await;
        let grant = self.ledger.lock().grant(&used.account, used.span);
        if grant.warned == Some(used.cap) {
            return;
        }
        let zone = &self.deps.choices.time_zone;
        tracing::warn!(account = %used.account, percent = used.percent(), "a budget is nearly used up");
        self.post(Notice::for_operator(messages::warning(used, zone), None)).await;
        self.note(BudgetGrant { warned: Some(used.cap), ..grant }).await;
    }

    /// Asks an owner about a cap that is reached, once for each cap.
    async fn ask_owner(&self, used: &AccountUse) {
        let _alone = self.deciding.lock().await;
        let grant = self.ledger.lock().grant(&used.account, used.span);
        if grant.asked == Some(used.cap) {
            return;
        }
        let zone = &self.deps.choices.time_zone;
        tracing::warn!(account = %used.account, used = used.rule.unit.describe(used.used), cap = used.rule.unit.describe(used.cap), "a budget is used up");
        let text = messages::question(used, zone);
        self.post(Notice::for_operator(text, offers::buttons(used, None))).await;
        self.note(BudgetGrant { asked: Some(used.cap), ..grant }).await;
    }

    /// Saves that people got a notice. If that fails, they get it again after a restart.
    async fn note(&self, grant: BudgetGrant) {
        if !self.save(grant.clone()).await {
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
