//! The stages of a turn: `admit → prepare → run → conclude → settle`.
//!
//! | stage | module | result |
//! |---|---|---|
//! | admit | [`admit`] | the event runs, waits, or has an answer already |
//! | prepare | [`prepare`], [`resumed`] | a [`TurnPlan`](super::plan::TurnPlan) |
//! | run | [`agent_turn`] | the agent's answer |
//! | conclude | [`conclude`] | an [`Outcome`] |
//! | settle | [`settle`] | the answer is saved and delivered, the line of the turn is written, and the lane is free |
//!
//! Each stage calls the [parts](super::part) of the turn. [`settle`] is the only place that writes the
//! line of a turn and frees its lane and slot.
//!
//! [`start`] creates the input that starts the turn, [`audience`] shows the running turn without secrets ([`redact_stream`]),
//! and [`artifacts`] stores the agent's files. [`session`] saves the session of the turn. [`recap`]
//! has the previous messages of a channel that moved here, and [`switch`] the turns of other agents.
//! A turn that a limit or a budget interrupted continues with an event of [`continuation`].
//! [`turn_log`] records the finished turn. [`turn_renderer`] renders a recorded turn as people saw it.

mod admit;
mod agent_turn;
pub(crate) mod artifacts;
pub(crate) mod audience;
mod conclude;
pub(crate) mod continuation;
mod prepare;
pub(crate) mod recap;
pub(crate) mod redact_stream;
mod resumed;
mod session;
mod settle;
pub(crate) mod start;
pub(crate) mod switch;
pub(crate) mod turn_log;
pub(crate) mod turn_renderer;
pub(super) mod unsolicited;

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tracing::Instrument as _;

use self::admit::Admission;
use super::Shared;
use super::budgets;
use super::lanes::panics::catch_panic;
use super::lanes::slot::LaneSlot;
use super::outlet::handle::ReplyHandle;
use super::part::{Outcome, PartOfTurn, TurnContext};
use super::persistence::wait_until_saved;
use aetheel_model::event::Event;
use aetheel_runtime::figures;
use aetheel_store::workspace::PendingSave;
use aetheel_turn::{Steering, StopReason};

pub(crate) use self::agent_turn::report;

/// Stops a turn, and passes messages of people to it.
pub(crate) struct TurnControls {
    pub(crate) stop: watch::Receiver<Option<StopReason>>,
    pub(crate) steers: mpsc::UnboundedReceiver<Steering>,
}

/// The turn of one event.
pub(crate) struct EventTurn {
    turn: Arc<TurnContext>,
    /// The parts that joined the turn.
    parts: Vec<Box<dyn PartOfTurn>>,
    /// `None` until the turn is admitted.
    reply: Option<Arc<ReplyHandle>>,
    /// Occupies the lane and the slot until the turn is settled.
    slot: Option<LaneSlot>,
}

/// Runs the turn of an event from its start to its end. Returns once the event is settled.
pub(crate) async fn run(
    shared: Arc<Shared>,
    event: Event,
    controls: TurnControls,
    saving: Option<PendingSave>,
    slot: LaneSlot,
) {
    if let Some(probe) = shared.health.take_probe(&event) {
        return shared.health.complete(probe).await;
    }
    let continued = shared.links.continued().id(event.sequence, &event.lane);
    let (is_resumed, id) = (continued.is_some(), continued.unwrap_or_else(turn_id));
    let unknown = tracing::field::Empty;
    // The span has the level `error`, so that log lines of every level have its fields.
    let span = tracing::error_span!("turn", turn = id, event = event.sequence, lane = %event.lane, backend = unknown, generation = unknown);
    figures::record_wait(event.kind, event.accepted_ms);
    async {
        if !wait_until_saved(saving).await {
            return shared.durability.discard_unsaved(&event);
        }
        let progress = shared.durability.progress_of(&event);
        let subject = budgets::subject_of(&shared, &event).await;
        let TurnControls { stop, steers } = controls;
        let turn = TurnContext { event, id, is_resumed, subject, stop, progress, shared };
        let (turn, slot) = (Arc::new(turn), Some(slot));
        let mut task = EventTurn { turn, parts: Vec::new(), reply: None, slot };
        let outcome = catch_panic(task.outcome(steers)).await.unwrap_or(Outcome::Panicked);
        if catch_panic(task.settle(outcome)).await.is_err() {
            task.settle(Outcome::Panicked).await;
        }
    }
    .instrument(span)
    .await;
}

impl EventTurn {
    /// Runs the stages before the last.
    async fn outcome(&mut self, steers: mpsc::UnboundedReceiver<Steering>) -> Outcome {
        match self.admit().await {
            Admission::Run => {}
            Admission::Deliver(answer) => return Outcome::DeliverSaved(*answer),
            Admission::Wait => return Outcome::Wait(None),
            Admission::Drop => return Outcome::Finished,
        }
        let answer = match self.prepare().await {
            Ok(plan) => self.run_agent(plan, steers).await,
            Err(refused) => refused,
        };
        self.conclude(answer).await
    }

    /// Returns the reply of the turn, which is opened the first time.
    fn reply(&mut self) -> Arc<ReplyHandle> {
        let TurnContext { event, progress, shared, .. } = &*self.turn;
        let open = || ReplyHandle::new(progress.open_reply(&*shared.deps.outlet, event));
        Arc::clone(self.reply.get_or_insert_with(open))
    }
}

/// Returns a random id of eight characters, which is enough to find a turn in months of logs.
pub(crate) fn turn_id() -> String {
    uuid::Uuid::new_v4().simple().to_string().chars().take(8).collect()
}
