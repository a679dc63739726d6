//! Warns people that a cap is near, and asks owners about caps that are reached.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{BudgetMonitor, GrantSaving, messages, offers};
use crate::outlet::{DeliveryError, Notice, WaitTopic};
use aetheel_model::budget::{AccountUse, BudgetGrant};
use aetheel_store::workspace::Channels;

/// The open questions about caps, and the decisions of owners.
pub(crate) struct BudgetNotices {
    pub(super) monitor: Arc<BudgetMonitor>,
    /// Held while a decision or a notice is saved.
    pub(super) deciding: tokio::sync::Mutex<()>,
    /// The marks of the caps about which owners were asked, until they are not reached any more.
    pub(super) asked: Mutex<HashSet<String>>,
    /// The decisions of owners about caps, by mark.
    pub(super) decided: Mutex<HashMap<String, String>>,
}

impl BudgetNotices {
    pub(crate) fn new(monitor: Arc<BudgetMonitor>) -> Arc<Self> {
        let grants = monitor.deps.workspace.state.budgets.all();
        Arc::new(Self {
            asked: Mutex::new(grants.iter().filter_map(offers::asked_mark).collect()),
            monitor,
            deciding: tokio::sync::Mutex::default(),
            decided: Mutex::default(),
        })
    }

    /// Returns what an owner decided about the cap with this mark.
    pub(crate) fn decision_about(&self, mark: &str) -> Option<String> {
        self.decided.lock().get(mark).cloned()
    }

    /// Reads the files with limits again, so that the log has a fault soon after the file was saved, and
    /// warns the operator that one became empty. Returns the settings of channels.
    pub(super) async fn follow_files(&self) -> Arc<Channels> {
        let workspace = &self.monitor.deps.workspace;
        let (channels, _) = (workspace.channels().await, workspace.budgets().rules().await);
        for file in workspace.limit_files().take_emptied() {
            tracing::warn!(file, "the file became empty; its limits are no longer in force");
            let notice = Notice::for_operator(messages::emptied(file), None);
            if self.post(notice).await.is_err() {
                tracing::warn!("cannot send the notice about a file; hint: set OUTPUT_CHANNEL_ID");
            }
        }
        channels
    }

    /// Warns people and asks owners about caps that are near or reached. Returns the marks of the
    /// caps that are reached.
    pub(super) async fn give_notice(&self) -> HashSet<String> {
        let uses = self.monitor.ledger.lock().uses(self.monitor.deps.clock.now());
        let reached = uses.iter().filter(|used| used.is_reached()).map(offers::mark).collect();
        self.end_questions(&reached);
        for used in uses {
            if used.is_reached() {
                self.ask_owner(&used).await;
            } else if used.is_near() {
                self.warn(&used).await;
            }
        }
        reached
    }

    /// Warns people that a cap is near, once for each cap.
    async fn warn(&self, used: &AccountUse) {
        let _alone = self.deciding.lock().await;
        let grant = self.monitor.ledger.lock().grant(&used.account, used.span);
        if grant.warned == Some(used.cap) {
            return;
        }
        let notice = Notice::for_operator(messages::warning(used), None);
        tracing::warn!(account = %used.account, percent = used.percent(), "a budget is nearly used up");
        if !self.announces(BudgetGrant { warned: Some(used.cap), ..grant }).await {
            return;
        }
        // Without a channel for notices, the channel that used the budget gets the warning.
        let channel = self.monitor.ledger.lock().last_channel(&used.account);
        if self.post(notice.clone()).await.is_err()
            && (channel.is_none() || self.post(Notice { channel, ..notice }).await.is_err())
        {
            tracing::warn!("cannot send the warning about a budget; hint: set OUTPUT_CHANNEL_ID");
        }
    }

    /// Asks an owner about a cap that is reached, once for each cap.
    async fn ask_owner(&self, used: &AccountUse) {
        let _alone = self.deciding.lock().await;
        let grant = self.monitor.ledger.lock().grant(&used.account, used.span);
        // An owner may have decided after the sums were compared.
        let is_lifted = grant.until.is_some_and(|until| until > self.monitor.deps.clock.now());
        if is_lifted || grant.asked == Some(used.cap) {
            return;
        }
        let mark = offers::mark(used);
        self.decided.lock().remove(&mark);
        self.asked.lock().insert(mark.clone());
        tracing::warn!(account = %used.account, used = used.rule.unit.describe(used.used), cap = used.rule.unit.describe(used.cap), "a budget is used up");
        let text = messages::question(used);
        let notice = self.redacted(Notice::for_operator(text, offers::buttons(used, None)));
        let wait = WaitTopic { topic: topic_of(&mark), reason: mark };
        let (grant, outlet) =
            (BudgetGrant { asked: Some(used.cap), ..grant }, &self.monitor.deps.outlet);
        if self.announces(grant).await && outlet.announce_wait(wait, notice).await.is_err() {
            tracing::warn!(
                "cannot send the question about a budget; hint: set OUTPUT_CHANNEL_ID; the channels that wait have the same buttons"
            );
        }
    }

    /// Saves that people get a notice. Returns whether this machine sends it. In a cluster, the machine
    /// that saves it first does. If a machine alone cannot save it, people get the notice again after
    /// a restart.
    async fn announces(&self, grant: BudgetGrant) -> bool {
        if self.monitor.cluster_budgets().is_some() {
            return self.monitor.save(grant).await == GrantSaving::Saved;
        }
        if !self.monitor.save_here(grant.clone()).await {
            self.monitor.ledger.lock().set_grant(grant);
        }
        true
    }

    async fn post(&self, notice: Notice) -> Result<(), DeliveryError> {
        self.monitor.deps.outlet.notify(self.redacted(notice)).await
    }

    fn redacted(&self, notice: Notice) -> Notice {
        Notice { text: self.monitor.deps.redactor.redact(notice.text), ..notice }
    }

    /// Edits the notices about caps that are not reached any more.
    pub(super) fn end_questions(&self, reached: &HashSet<String>) {
        let ended: Vec<String> =
            self.asked.lock().extract_if(|mark| !reached.contains(mark)).collect();
        for mark in ended {
            let line = self.decision_about(&mark);
            let line = line.as_deref().unwrap_or(messages::AVAILABLE_AGAIN);
            self.monitor.deps.outlet.end_wait(&topic_of(&mark), line);
        }
    }
}

fn topic_of(mark: &str) -> String {
    format!("budget-{mark}")
}
