//! Messages of people for a turn that runs. What does not reach it becomes an ordinary prompt, so that nothing a person
//! wrote is lost in silence.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use super::view::Glimpse;
use super::{Dispatcher, Inner, Refusal, lock};
use crate::agent::descriptor::Feature;
use crate::agent::{Part, SteerOutcome};
use crate::event::NewEvent;
use crate::prompt;
use crate::turn::{Backend, Steering, StopReason};

/// How to reach a turn that runs.
pub(super) struct Running {
    pub(super) stop: watch::Sender<Option<StopReason>>,
    pub(super) steers: mpsc::UnboundedSender<Steering>,
    /// None until it is known who answers.
    pub(super) backend: Option<Arc<dyn Backend>>,
    /// What it is about, for people who look; since its beginning.
    pub(super) glimpse: Glimpse,
}

/// What became of a message for a running turn.
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
}

impl Steered {
    /// Whether it became a prompt, which will be answered by itself.
    #[must_use]
    pub fn is_prompt(self) -> bool {
        matches!(self, Self::Prompt | Self::NotNow | Self::Unsupported)
    }

    /// Says it to the person who wrote; none: the answer that comes says enough.
    #[must_use]
    pub fn told(self) -> Option<&'static str> {
        match self {
            Self::Injected => Some("Passed on: the agent has it in the running answer."),
            Self::Queued => Some("Passed on: the agent takes it up after the running answer."),
            Self::Dropped => Some("The agent lost this message. Please send it again."),
            Self::Prompt => None,
            Self::NotNow => Some("The agent cannot take it in right now: it is queued as your next prompt."),
            Self::Unsupported => Some("This agent takes nothing in while it works: it is queued as your next prompt."),
        }
    }
}

impl Dispatcher {
    /// Hands a message to the turn that runs in its lane, or submits it as an ordinary event where that is not possible.
    /// Takes until the agent said what became of it, at most as long as the turn. Dropping the future leaves the
    /// message on its way to the agent.
    ///
    /// # Errors
    /// [`Refusal`], in words for the person who wrote; nothing was kept.
    pub async fn steer(&self, event: NewEvent) -> Result<Steered, Refusal> {
        let limit = self.inner.parts.choices.prompt_limit;
        if event.prompt.len() > limit {
            return Err(Refusal::TooLong { bytes: event.prompt.len(), limit });
        }
        let lane = event.lane.clone();
        let steered = match self.inner.steer(&event) {
            None if self.is_busy(&lane) => Steered::NotNow,
            None => Steered::Prompt,
            Some(None) => Steered::Unsupported,
            Some(Some(outcome)) => match outcome.await {
                Ok(SteerOutcome::Injected) => Steered::Injected,
                Ok(SteerOutcome::Queued) => Steered::Queued,
                Ok(SteerOutcome::Dropped) => Steered::Dropped,
                // The turn ended before a word about it.
                Ok(SteerOutcome::NotNow) | Err(_) => Steered::NotNow,
            },
        };
        tracing::info!(%lane, outcome = ?steered, "a person steered");
        if steered.is_prompt() {
            self.submit(event)?.safe().await?;
        }
        Ok(steered)
    }
}

impl Inner {
    /// None: nothing runs there that could be steered now. Some of none: the backend cannot be.
    fn steer(&self, event: &NewEvent) -> Option<Option<oneshot::Receiver<SteerOutcome>>> {
        let running = lock(&self.running);
        let Running { steers, backend, .. } = running.get(&event.lane)?;
        let descriptor = backend.as_ref()?.descriptor();
        if !descriptor.has(Feature::Steer) {
            return Some(None);
        }
        let text = prompt::neutralise(&event.prompt, &descriptor.expands, event.author.as_deref());
        let (told, outcome) = oneshot::channel();
        // Where the turn has just ended, both ends are dropped, which says the same.
        let _ = steers.send(Steering { parts: vec![Part::Text(text)], told });
        Some(Some(outcome))
    }
}
