//! Creates the services of a dispatcher, and starts their tasks.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::Shared;
use super::budgets::notices::BudgetNotices;
use super::budgets::{self, BudgetMonitor};
use super::channel::ChannelContext;
use super::channel::listings::Listings;
use super::collisions::news::NeighbourClaims;
use super::collisions::{self, CollisionMonitor, FileReport};
use super::delegated::{CallQueue, PendingCall};
use super::delivery::AnswerDelivery;
use super::deps::DispatcherDeps;
use super::drift::DriftMonitor;
use super::health::DispatcherHealth;
use super::host_calls::{self, HandOffTimes};
use super::intake::rate_limit::RateLimit;
use super::lanes::LaneRegistry;
use super::lanes::holds::LaneHolds;
use super::lanes::paused::{self, WaitNotices};
use super::limits::UsageLimits;
use super::observers::ChangeSignal;
use super::part::TurnPart;
use super::persistence::EventPersistence;
use super::questions::Questions;
use super::recovery::unread::LostReplies;
use super::rollout::{RolloutMonitor, Rollouts, WaitingTurns};
use super::run::unsolicited;
use aetheel_model::queue::Queue;
use aetheel_runtime::supervisor;
use aetheel_turn::{Links, OnUnknown, UnsolicitedTurn};

/// The receivers of the tasks.
pub(super) struct Receivers {
    unsolicited: mpsc::UnboundedReceiver<UnsolicitedTurn>,
    file_uses: mpsc::Receiver<FileReport>,
    calls: mpsc::UnboundedReceiver<PendingCall>,
    holds: mpsc::Receiver<()>,
    comparisons: WaitingTurns,
}

impl Receivers {
    /// Starts the tasks. They end when the dispatcher is dropped.
    pub(super) fn start(self, shared: &Arc<Shared>) {
        let weak = || Arc::downgrade(shared);
        supervisor::spawn("unasked answers", unsolicited::deliver(weak(), self.unsolicited));
        supervisor::spawn("collisions", collisions::watch::warn_people(weak(), self.file_uses));
        let clock = shared.deps.clock.clone();
        supervisor::spawn("waits", paused::watch(weak(), self.holds, clock));
        let notices = shared.budget_notices.clone();
        supervisor::spawn("budgets", budgets::watch::watch(weak(), notices));
        supervisor::spawn("host calls", host_calls::carry_out_all(weak(), self.calls));
        supervisor::spawn_finite("rollout", Rollouts::compare_all(weak(), self.comparisons));
    }
}

/// Creates the state of a dispatcher with an empty queue.
pub(super) fn shared(
    deps: DispatcherDeps,
    parts: Vec<Arc<dyn TurnPart>>,
) -> (Arc<Shared>, Receivers) {
    let (deps, tasks) = (Arc::new(deps), TaskTracker::new());
    let drift = DriftMonitor::new(deps.clone(), tasks.clone());
    let (unsolicited_tx, unsolicited) = mpsc::unbounded_channel();
    let links = links(&deps, &drift, unsolicited_tx);
    let durability = Arc::new(EventPersistence::new(deps.clone()));
    let lost = Arc::new(LostReplies::new(deps.clone()));
    let delivery =
        AnswerDelivery::new(deps.clone(), durability.clone(), lost.clone(), tasks.clone());
    let changes = ChangeSignal::default();
    let (collisions, file_uses) = CollisionMonitor::new();
    let (call_queue, calls) = CallQueue::new();
    let (lane_holds, holds) = LaneHolds::new();
    let (rollout, comparisons) = RolloutMonitor::new(deps.clone());
    let (approvers, redactor) = (deps.choices.approvers.clone(), deps.redactor.clone());
    let budgets = BudgetMonitor::new(deps.clone());
    let shared = Shared {
        parts,
        listings: Listings::new(links.clone()),
        links,
        lanes: LaneRegistry::new(queue(&deps), lane_holds, changes.clone()),
        rate_limit: RateLimit::new(deps.choices.prompts_per_minute),
        durability,
        delivery: Arc::new(delivery),
        questions: Arc::new(Questions::new(approvers, redactor, changes)),
        channels: ChannelContext::new(deps.clone()),
        drift,
        collisions,
        neighbours: NeighbourClaims::default(),
        calls: call_queue,
        hand_offs: HandOffTimes::default(),
        limits: UsageLimits::new(deps.clone()),
        wait_notices: WaitNotices::default(),
        budget_notices: BudgetNotices::new(budgets.clone()),
        budgets,
        rollout,
        lost_replies: lost,
        health: DispatcherHealth::new(deps.clone()),
        tasks,
        deps,
    };
    (Arc::new(shared), Receivers { unsolicited, file_uses, calls, holds, comparisons })
}

fn links(
    deps: &DispatcherDeps,
    drift: &Arc<DriftMonitor>,
    unsolicited_tx: mpsc::UnboundedSender<UnsolicitedTurn>,
) -> Links {
    let monitor = drift.clone();
    let on_unknown: OnUnknown = Arc::new(move |unknown| monitor.on_unknown(unknown));
    let (host, launcher) = (Arc::new(deps.host.clone()), deps.launcher.clone());
    Links::new(host, launcher, deps.recorder.clone(), unsolicited_tx, on_unknown)
}

/// Returns an empty queue that continues the numbers of the journal.
fn queue(deps: &DispatcherDeps) -> Queue {
    let mut queue = Queue::new(deps.limits);
    let journal = deps.journal.as_ref();
    let (first, last) = journal.map_or((0, 0), |journal| (journal.block_start(), journal.last()));
    queue.numbers.count_from(first, last);
    queue
}
