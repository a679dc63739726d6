//! Messages of people for a running turn.
//!
//! A message that does not reach the turn becomes an ordinary prompt, so that none is lost
//! silently.

use tokio::sync::oneshot;

use super::Intake;
use crate::lanes::Steerable;
use crate::outlet::messages::PromptRefusal;
use crate::persistence::wait_until_saved;
use aetheel_model::agent::SteerOutcome;
use aetheel_model::event::{Event, NewEvent};
use aetheel_runtime::figures::{self, EventOutcome};
use aetheel_store::workspace::JournalMark;

/// The result of a message for a running turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteeringResult {
    /// The model received it during the turn.
    Injected,
    /// The agent keeps it until the turn has ended.
    Queued,
    /// The agent lost it.
    Dropped,
    /// No turn was running, so it became a prompt.
    Prompt,
    /// The agent could not take it now, so it became the next prompt.
    NotNow,
    /// The backend does not support messages during a turn, so it became the next prompt.
    Unsupported,
    /// Somebody stopped the turn before the message arrived. The message is refused like any
    /// waiting prompt.
    Stopped,
    /// The gateway ends. The next process runs it as a prompt.
    Later,
}

impl SteeringResult {
    /// Returns whether the message became a prompt, which is answered or refused on its own.
    #[must_use]
    pub fn is_prompt(self) -> bool {
        matches!(self, Self::Prompt | Self::NotNow | Self::Unsupported | Self::Stopped)
    }

    /// Returns a confirmation for the author, or `None` if the answer that follows is enough.
    #[must_use]
    pub fn message(self) -> Option<&'static str> {
        match self {
            Self::Injected => Some("Passed on: the agent has it in the running answer."),
            Self::Queued => Some("Passed on: the agent handles it after the running answer."),
            Self::Dropped => Some("The agent lost this message. Please send it again."),
            Self::Prompt | Self::Stopped => None,
            Self::Later => Some("I am restarting: this is handled as soon as I am back."),
            Self::NotNow => Some(
                "The agent cannot take messages right now: this is queued as your next prompt.",
            ),
            Self::Unsupported => Some(
                "This agent takes no messages while it works: this is queued as your next prompt.",
            ),
        }
    }
}

/// A saved message that is being passed on to a running turn.
#[derive(Debug)]
pub struct PendingSteering(oneshot::Receiver<SteeringResult>);

impl PendingSteering {
    /// Waits for the result, at most until the turn ends. Dropping the future does not recall the
    /// message.
    pub async fn outcome(self) -> SteeringResult {
        // The sender is dropped without a result only if the gateway ends.
        self.0.await.unwrap_or(SteeringResult::Later)
    }
}

impl Intake {
    /// Passes a message on to the running turn of its lane, or submits it as an ordinary event if
    /// that is not possible. Returns once it is saved. If the gateway ends before the turn, the
    /// next process runs the message as a prompt.
    ///
    /// # Errors
    /// [`PromptRefusal`], worded for the author. A refused message is not saved.
    pub async fn steer(&self, event: NewEvent) -> Result<PendingSteering, PromptRefusal> {
        let limit = self.shared.deps.choices.prompt_limit;
        if event.prompt.len() > limit {
            return Err(PromptRefusal::TooLong { bytes: event.prompt.len(), limit });
        }
        let (outcome_tx, outcome) = oneshot::channel();
        let prompt = match self.shared.lanes.steerable(&event.lane) {
            Steerable::Yes => None,
            Steerable::Unsupported => Some(SteeringResult::Unsupported),
            Steerable::NotNow if self.shared.lanes.is_busy(&event.lane) => {
                Some(SteeringResult::NotNow)
            }
            Steerable::NotNow => Some(SteeringResult::Prompt),
        };
        if let Some(steered) = prompt {
            let lane = event.lane.clone();
            self.submit(event)?.wait_until_saved().await?;
            tracing::info!(%lane, outcome = ?steered, "message for a running turn");
            // The caller may have dropped the receiver.
            let _ = outcome_tx.send(steered);
            return Ok(PendingSteering(outcome));
        }
        let event = self.save_steering(event).await?;
        let this = self.clone();
        self.shared.tasks.spawn(async move {
            let steered = this.deliver_steering(&event).await;
            tracing::info!(event = event.sequence, lane = %event.lane, outcome = ?steered, "message for a running turn");
            let _ = outcome_tx.send(steered);
        });
        Ok(PendingSteering(outcome))
    }

    /// Saves a message for a running turn, as an event that does not wait in a lane. The limits of
    /// the queue do not apply to it, because it needs no turn.
    async fn save_steering(&self, event: NewEvent) -> Result<Event, PromptRefusal> {
        let durability = &self.shared.durability;
        if durability.is_failing() {
            return Err(PromptRefusal::NotSaved);
        }
        let (event, saving) = {
            let mut queue = self.shared.lanes.queue.lock();
            if queue.is_closed() {
                return Err(PromptRefusal::ShuttingDown);
            }
            if durability.is_known(&event) {
                return Err(PromptRefusal::Known);
            }
            let event = queue.numbers.assign(event, self.shared.deps.clock.now_ms());
            queue.hold_again(event.clone());
            let saving = durability.save_event(&event);
            (event, saving)
        };
        if !wait_until_saved(saving).await {
            self.shared.lanes.queue.lock().cancel(event.sequence);
            durability.discard_unsaved(&event);
            return Err(PromptRefusal::NotSaved);
        }
        Ok(event)
    }

    /// Passes a saved message on to the running turn, or puts it into the queue.
    async fn deliver_steering(&self, event: &Event) -> SteeringResult {
        let Some((turn, outcome)) = self.shared.lanes.steer(event) else {
            return self.enqueue_steering(event);
        };
        let steered = match outcome.await {
            Ok(SteerOutcome::Injected) => SteeringResult::Injected,
            Ok(SteerOutcome::Queued) => SteeringResult::Queued,
            Ok(SteerOutcome::Dropped) => SteeringResult::Dropped,
            // The turn ended before it processed the message.
            Ok(SteerOutcome::NotNow) | Err(_) => return self.enqueue_steering(event),
        };
        let goes_on = steered != SteeringResult::Dropped
            && self.shared.lanes.add_received(event, turn, steered == SteeringResult::Injected);
        if !goes_on {
            self.shared.durability.mark_finished(event);
        } else if let Some(journal) = &self.shared.deps.journal {
            journal.mark(event.sequence, JournalMark::JoinedTurn(turn));
        }
        self.shared.lanes.queue.lock().cancel(event.sequence);
        self.shared.lanes.notify_finished();
        steered
    }

    /// Puts a message that no turn accepted into the queue, as a prompt of its lane.
    fn enqueue_steering(&self, event: &Event) -> SteeringResult {
        if self.shared.lanes.queue.lock().release(event.clone()) {
            figures::count_event(event.kind, EventOutcome::Accepted);
            if let Some(person) = event.asker {
                // The message counts against the rate limit, but is not refused: it was accepted
                // before.
                let _ = self.shared.rate_limit.count(person);
            }
            self.shared.start_waiting();
            return SteeringResult::NotNow;
        }
        if self.shared.lanes.queue.lock().is_closed() && self.shared.deps.journal.is_some() {
            SteeringResult::Later
        } else {
            SteeringResult::Stopped
        }
    }
}
