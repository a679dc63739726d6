//! Delivers answers, however long that takes, without blocking lanes or the slots of turns.
//!
//! An outlet that cannot deliver now waits until it can, and keeps the answers of a channel in
//! order. A lane waits at most [`LANE_HOLD_LIMIT`] for its answer, then takes its next event while
//! the delivery continues in the background. An answer that is not delivered when the program ends
//! stays in the journal, and the next process delivers it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::deps::DispatcherDeps;
use super::in_flight::InFlightEvents;
use super::outlet::handle::ReplyHandle;
use super::outlet::{DeliveryError, Notice, Reply, TurnAnswer};
use super::persistence::{EventPersistence, EventProgress, NextStart};
use super::recovery::unread::LostReplies;
use aetheel_model::event::Event;
use aetheel_runtime::figures::{self, EventOutcome};
use aetheel_store::workspace::LostState;

/// The longest time that a lane waits for the delivery of its answer.
const LANE_HOLD_LIMIT: Duration = Duration::from_secs(10);

/// Delivers answers and marks their events as finished in the journal.
pub(crate) struct AnswerDelivery {
    deps: Arc<DispatcherDeps>,
    durability: Arc<EventPersistence>,
    lost_replies: Arc<LostReplies>,
    tasks: TaskTracker,
    /// Becomes true when the program ends. Deliveries then stop, and the next process continues
    /// them.
    shutting_down: watch::Sender<bool>,
    /// The events whose answer is being delivered.
    pub(crate) in_flight: InFlightEvents,
}

impl AnswerDelivery {
    pub(crate) fn new(
        deps: Arc<DispatcherDeps>,
        durability: Arc<EventPersistence>,
        lost_replies: Arc<LostReplies>,
        tasks: TaskTracker,
    ) -> Self {
        let (shutting_down, in_flight) = (watch::channel(false).0, InFlightEvents::default());
        Self { deps, durability, lost_replies, tasks, shutting_down, in_flight }
    }

    /// Returns the number of deliveries in progress.
    pub(crate) fn pending(&self) -> usize {
        // Each running delivery holds a receiver.
        self.shutting_down.receiver_count()
    }

    /// Stops all deliveries. The next process continues those whose events are in the journal.
    pub(crate) fn leave_to_next_start(&self) {
        self.shutting_down.send_replace(true);
    }

    /// Runs `work` as a task that ends at the latest when the program ends. Returns its result, or
    /// `None` if it takes longer than [`LANE_HOLD_LIMIT`] or the program ends. In the first case it
    /// continues in the background.
    async fn run_detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let mut leaving = self.shutting_down.subscribe();
        let task = async move {
            tokio::select! {
                biased;
                done = work => Some(done),
                // The sender outlives all tasks.
                _ = leaving.wait_for(|leaving| *leaving) => None,
            }
        };
        match tokio::time::timeout(LANE_HOLD_LIMIT, self.tasks.spawn(task.in_current_span())).await
        {
            Ok(Ok(done)) => done,
            Ok(Err(broken)) if broken.is_panic() => std::panic::resume_unwind(broken.into_panic()),
            Ok(Err(_)) | Err(_) => None,
        }
    }

    /// Delivers an answer and marks its event as finished. Returns once that is done, or after
    /// [`LANE_HOLD_LIMIT`]. The delivery then continues in the background.
    pub(crate) async fn deliver(
        self: &Arc<Self>,
        event: &Event,
        kept: &EventProgress,
        reply: &ReplyHandle,
        answer: TurnAnswer,
    ) {
        let Some(reply) = reply.take() else { return };
        let (this, event, kept) = (Arc::clone(self), event.clone(), kept.clone());
        let in_hand = self.in_flight.track(&event);
        let delivering = async move {
            this.deliver_and_record(&event, &kept, reply, answer).await;
            drop(in_hand);
        };
        if self.run_detached(delivering).await.is_none() {
            tracing::warn!("the answer is not delivered yet; delivery continues in the background");
        }
    }

    async fn deliver_and_record(
        &self,
        event: &Event,
        kept: &EventProgress,
        reply: Box<dyn Reply>,
        answer: TurnAnswer,
    ) {
        let offer = answer.offer.clone();
        match reply.finish(answer).await {
            Ok(()) => {
                self.lost_replies.note_button(event, offer.as_ref()).await;
                figures::count_event(event.kind, EventOutcome::Delivered);
                tracing::info!("answer delivered");
                self.lost_replies.record_outcome(event, LostState::Delivered).await;
                self.durability.mark_finished(event);
            }
            Err(error @ DeliveryError::Later(_)) => {
                tracing::warn!(%error, "the answer is left to the next start")
            }
            // Another version of the gateway may be able to deliver it, so it is tried once more.
            Err(error @ DeliveryError::Refused(_)) if kept.has_retry_left() => {
                figures::count_event(event.kind, EventOutcome::Undelivered);
                tracing::error!(%error, "the answer was not delivered; it is kept and tried once more after the next start");
            }
            Err(error) => {
                figures::count_event(event.kind, EventOutcome::Undelivered);
                tracing::error!(%error, "the answer was not delivered; it is in the recording");
                if matches!(error, DeliveryError::Gone(_)) {
                    let text = format!(
                        "The answer to event {} of {} could not be delivered: its channel no longer exists. The recording of the turn contains it.",
                        event.sequence, event.lane
                    );
                    // If there is no channel for notices, the error above is in the log.
                    let _ = self.deps.outlet.notify(Notice::for_operator(text, None)).await;
                }
                self.lost_replies.record_outcome(event, LostState::GivenUp).await;
                self.durability.mark_finished(event);
            }
        }
    }

    /// Delivers an answer that is not in the journal. It is lost if the program ends first. `what`
    /// names the answer in the log.
    pub(crate) async fn send(&self, reply: Box<dyn Reply>, answer: TurnAnswer, what: &'static str) {
        let sent = async move {
            if let Err(error) = reply.finish(answer).await {
                tracing::warn!(%error, "{what} was not delivered");
            }
        };
        self.run_detached(sent).await;
    }

    /// Notifies the author that an accepted event will not be answered.
    pub(crate) async fn refuse(&self, event: &Event, why: &str) {
        figures::count_event(event.kind, EventOutcome::Withdrawn);
        tracing::info!(event = event.sequence, lane = %event.lane, why, "event withdrawn before its turn");
        let answer = TurnAnswer::failed(self.deps.choices.backend.clone(), why);
        self.send(self.deps.outlet.open(event), answer, "a refusal").await;
    }

    /// Notifies the author that the next process continues with the turn.
    pub(crate) async fn announce_restart(
        &self,
        reply: &ReplyHandle,
        answer: TurnAnswer,
        id: &str,
        next: NextStart,
    ) {
        let Some(reply) = reply.take() else { return };
        let what = match next {
            NextStart::Rerun => {
                tracing::info!("the turn was stopped and runs again after the next start");
                "I am restarting; this is answered as soon as I am back."
            }
            NextStart::AskPeople => {
                tracing::info!(
                    "the turn was stopped after its agent had used a tool; people are asked after the next start"
                );
                "I am restarting and had to stop here, after a tool was used. As soon as I am back I ask whether to try again."
            }
        };
        let failure = Some(format!("{what} (restarting, {id})"));
        self.send(reply, TurnAnswer { failure, ..answer }, "the notice about the restart").await;
    }
}
