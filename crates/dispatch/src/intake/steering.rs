//! Messages of people for a turn that runs. A message that does not reach it becomes an ordinary
//! prompt, so that nothing a person wrote is lost in silence.

use tokio::sync::oneshot;

use crate::Dispatcher;
use crate::durability::safe;
use crate::lanes::Steerable;
use crate::outlet::messages::Refusal;
use aetheel_model::agent::SteerOutcome;
use aetheel_model::event::{Event, NewEvent};
use aetheel_model::figures::{self, Outcome};

/// The outcome of a message for a running turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steered {
    /// The model has it.
    Injected,
    /// The agent keeps it for after this turn.
    Queued,
    /// The agent lost it.
    Dropped,
    /// Nothing ran: it became a prompt.
    Prompt,
    /// The agent could not take it now: it became the next prompt.
    NotNow,
    /// The backend cannot be steered: it became the next prompt.
    Unsupported,
    /// Somebody stopped the turn before it got there; whoever wrote learns that as of any prompt
    /// that waited.
    Stopped,
    /// The gateway ends: the next life takes it up.
    Later,
}

impl Steered {
    /// Whether it became a prompt, which is answered or refused by itself.
    #[must_use]
    pub fn is_prompt(self) -> bool {
        matches!(self, Self::Prompt | Self::NotNow | Self::Unsupported | Self::Stopped)
    }

    /// The message for the person who wrote; none: the answer that comes says enough.
    #[must_use]
    pub fn message(self) -> Option<&'static str> {
        match self {
            Self::Injected => Some("Passed on: the agent has it in the running answer."),
            Self::Queued => Some("Passed on: the agent takes it up after the running answer."),
            Self::Dropped => Some("The agent lost this message. Please send it again."),
            Self::Prompt | Self::Stopped => None,
            Self::Later => Some("I am restarting: this is taken up as soon as I am back."),
            Self::NotNow => {
                Some("The agent cannot take it in right now: it is queued as your next prompt.")
            }
            Self::Unsupported => Some(
                "This agent takes nothing in while it works: it is queued as your next prompt.",
            ),
        }
    }
}

/// A message for a running turn, which outlives the program.
#[derive(Debug)]
pub struct Underway(oneshot::Receiver<Steered>);

impl Underway {
    /// Waits until it is known what became of the message, at most as long as the turn. Dropping
    /// the future leaves the message on its way to the agent.
    pub async fn outcome(self) -> Steered {
        // The sender goes without a word only where everything ends.
        self.0.await.unwrap_or(Steered::Later)
    }
}

impl Dispatcher {
    /// Hands a message to the turn that runs in its lane, or submits it as an ordinary event where
    /// that is not possible. Returns once it is kept: where this life of the gateway ends before
    /// that turn does, the next one takes it as a prompt.
    ///
    /// # Errors
    /// [`Refusal`], in words for the person who wrote; nothing was kept.
    pub async fn steer(&self, event: NewEvent) -> Result<Underway, Refusal> {
        let limit = self.inner.parts.choices.prompt_limit;
        if event.prompt.len() > limit {
            return Err(Refusal::TooLong { bytes: event.prompt.len(), limit });
        }
        let (outcome_tx, outcome) = oneshot::channel();
        let prompt = match self.inner.lanes.steerable(&event.lane) {
            Steerable::Yes => None,
            Steerable::Unsupported => Some(Steered::Unsupported),
            Steerable::NotNow if self.is_busy(&event.lane) => Some(Steered::NotNow),
            Steerable::NotNow => Some(Steered::Prompt),
        };
        if let Some(steered) = prompt {
            let lane = event.lane.clone();
            self.submit(event)?.safe().await?;
            tracing::info!(%lane, outcome = ?steered, "a person steered");
            // Where nobody waits for it, nobody needs it.
            let _ = outcome_tx.send(steered);
            return Ok(Underway(outcome));
        }
        let event = self.keep_steer(event).await?;
        let this = self.clone();
        self.inner.tasks.spawn(async move {
            let steered = this.see_steered(&event).await;
            tracing::info!(event = event.sequence, lane = %event.lane, outcome = ?steered, "a person steered");
            let _ = outcome_tx.send(steered);
        });
        Ok(Underway(outcome))
    }

    /// Keeps a message for a turn that runs: an event that waits in no lane. It is refused by no
    /// limit of the queue, for it costs no turn.
    async fn keep_steer(&self, event: NewEvent) -> Result<Event, Refusal> {
        let durability = &self.inner.durability;
        if durability.is_failing() {
            return Err(Refusal::NotSaved);
        }
        let (event, saving) = {
            let mut queue = self.inner.lanes.queue.lock();
            if queue.is_closed() {
                return Err(Refusal::ShuttingDown);
            }
            if durability.knows(&event) {
                return Err(Refusal::Known);
            }
            let event = queue.number(event, jiff::Timestamp::now().as_millisecond());
            queue.hold_again(event.clone());
            let saving = durability.keep(&event);
            (event, saving)
        };
        if !safe(saving).await {
            self.inner.lanes.queue.lock().cancel(event.sequence);
            durability.not_saved(&event);
            return Err(Refusal::NotSaved);
        }
        Ok(event)
    }

    /// Sees a kept message to the turn that runs, or into the queue.
    async fn see_steered(&self, event: &Event) -> Steered {
        let Some((turn, outcome)) = self.inner.lanes.steer(event) else {
            return self.queue_steered(event);
        };
        let steered = match outcome.await {
            Ok(SteerOutcome::Injected) => Steered::Injected,
            Ok(SteerOutcome::Queued) => Steered::Queued,
            Ok(SteerOutcome::Dropped) => Steered::Dropped,
            // The turn ended before a word about it.
            Ok(SteerOutcome::NotNow) | Err(_) => return self.queue_steered(event),
        };
        let goes_on = steered != Steered::Dropped
            && self.inner.lanes.received(event, turn, steered == Steered::Injected);
        if let Some(journal) = self.inner.parts.journal.as_ref().filter(|_| goes_on) {
            journal.heard(event.sequence, turn);
        }
        if !goes_on {
            self.inner.durability.check_off(event);
        }
        self.inner.lanes.queue.lock().cancel(event.sequence);
        self.inner.lanes.tell_finished();
        steered
    }

    /// Makes a message that no turn took in the prompt of its lane that it would have been.
    fn queue_steered(&self, event: &Event) -> Steered {
        if self.inner.lanes.queue.lock().release(event.clone()) {
            figures::event(event.kind, Outcome::Accepted);
            if let Some(person) = event.asker {
                // It counts and is not refused: it was taken.
                let _ = self.inner.rate_limit.count(person);
            }
            self.pump();
            return Steered::NotNow;
        }
        if self.inner.lanes.queue.lock().is_closed() && self.inner.parts.journal.is_some() {
            Steered::Later
        } else {
            Steered::Stopped
        }
    }
}
