//! Messages of people for a turn that runs. What does not reach it becomes an ordinary prompt, so
//! that nothing a person wrote is lost in silence.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use super::keeping::safe;
use super::stage::Stage;
use super::view::Glimpse;
use super::{Dispatcher, Inner, Refusal};
use crate::agent::descriptor::Feature;
use crate::agent::{Part, SteerOutcome};
use crate::event::{Event, Lane, NewEvent, Sequence};
use crate::figures::{self, Outcome};
use crate::prompt;
use crate::turn::{Backend, Steering, StopReason};

/// How to reach a turn that runs.
pub(super) struct Running {
    /// The event it is about.
    pub(super) event: Sequence,
    pub(super) stop: watch::Sender<Option<StopReason>>,
    pub(super) steers: mpsc::UnboundedSender<Steering>,
    /// None until it is known who answers.
    pub(super) backend: Option<Arc<dyn Backend>>,
    /// What shows it, from then on.
    pub(super) stage: Option<Arc<Stage>>,
    /// What it is about, for people who look; since its beginning.
    pub(super) glimpse: Glimpse,
    /// Messages that its agent took in: open in the journal until what the turn came to is kept.
    /// None: it is.
    pub(super) heard: Option<Vec<Event>>,
}

impl Running {
    pub(super) fn new(
        event: &Event,
        stop: watch::Sender<Option<StopReason>>,
        steers: mpsc::UnboundedSender<Steering>,
    ) -> Self {
        let glimpse = Glimpse::of(event, jiff::Timestamp::now());
        Self {
            event: event.sequence,
            stop,
            steers,
            backend: None,
            stage: None,
            glimpse,
            heard: Some(Vec::new()),
        }
    }
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
    /// Somebody stopped the turn before it got there; whoever wrote is told so as of any prompt
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

    /// Says it to the person who wrote; none: the answer that comes says enough.
    #[must_use]
    pub fn told(self) -> Option<&'static str> {
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
        // Nobody says so only where everything ends.
        self.0.await.unwrap_or(Steered::Later)
    }
}

/// What a lane has for a message.
enum Ear {
    /// Nothing that could be steered now.
    None,
    /// A backend that cannot be.
    Deaf,
    /// A turn that takes it in.
    Open,
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
        let (tell, told) = oneshot::channel();
        let prompt = match self.inner.ear(&event.lane) {
            Ear::Open => None,
            Ear::Deaf => Some(Steered::Unsupported),
            Ear::None if self.is_busy(&event.lane) => Some(Steered::NotNow),
            Ear::None => Some(Steered::Prompt),
        };
        if let Some(steered) = prompt {
            let lane = event.lane.clone();
            self.submit(event)?.safe().await?;
            tracing::info!(%lane, outcome = ?steered, "a person steered");
            // Where nobody waits for it, nobody needs it.
            let _ = tell.send(steered);
            return Ok(Underway(told));
        }
        let event = self.keep_steer(event).await?;
        let this = self.clone();
        self.inner.tasks.spawn(async move {
            let steered = this.see_steered(&event).await;
            tracing::info!(event = event.sequence, lane = %event.lane, outcome = ?steered, "a person steered");
            let _ = tell.send(steered);
        });
        Ok(Underway(told))
    }

    /// Keeps a message for a turn that runs: an event that waits in no lane. It is refused by no
    /// limit of the queue, for it costs no turn.
    async fn keep_steer(&self, event: NewEvent) -> Result<Event, Refusal> {
        let journal = self.inner.parts.journal.as_ref();
        if journal.is_some_and(|journal| journal.is_failing()) {
            return Err(Refusal::NotSaved);
        }
        let (event, saving) = {
            let mut queue = self.inner.queue.lock();
            if queue.is_closed() {
                return Err(Refusal::ShuttingDown);
            }
            if self.inner.knows(&event) {
                return Err(Refusal::Known);
            }
            let event = queue.number(event, jiff::Timestamp::now().as_millisecond());
            queue.hold_again(event.clone());
            let saving = journal.map(|journal| journal.accepted(&self.inner.to_keep(&event)));
            (event, saving)
        };
        if !safe(saving).await {
            self.inner.queue.lock().cancel(event.sequence);
            self.inner.not_saved(&event);
            return Err(Refusal::NotSaved);
        }
        Ok(event)
    }

    /// Sees a kept message to the turn that runs, or into the queue.
    async fn see_steered(&self, event: &Event) -> Steered {
        let Some((turn, outcome)) = self.inner.pass(event) else {
            return self.queue_steered(event);
        };
        let steered = match outcome.await {
            Ok(SteerOutcome::Injected) => Steered::Injected,
            Ok(SteerOutcome::Queued) => Steered::Queued,
            Ok(SteerOutcome::Dropped) => Steered::Dropped,
            // The turn ended before a word about it.
            Ok(SteerOutcome::NotNow) | Err(_) => return self.queue_steered(event),
        };
        let goes_on = steered != Steered::Dropped && {
            let mut running = self.inner.running.lock();
            let turn = running.get_mut(&event.lane).filter(|running| running.event == turn);
            if let Some(stage) = turn
                .as_ref()
                .and_then(|turn| turn.stage.as_ref())
                .filter(|_| steered == Steered::Injected)
            {
                stage.with(|reply| reply.steered());
            }
            let heard = turn.and_then(|running| running.heard.as_mut());
            heard.map(|heard| heard.push(event.clone())).is_some()
        };
        if let Some(journal) = self.inner.parts.journal.as_ref().filter(|_| goes_on) {
            journal.heard(event.sequence, turn);
        }
        if !goes_on {
            self.inner.check_off(event);
        }
        self.inner.queue.lock().cancel(event.sequence);
        self.inner.finished.notify_waiters();
        steered
    }

    /// Makes a message that no turn took in the prompt of its lane that it would have been.
    fn queue_steered(&self, event: &Event) -> Steered {
        if self.inner.queue.lock().release(event.clone()) {
            figures::event(event.kind, Outcome::Accepted);
            if let Some(person) = event.asker {
                // It counts and is not refused: it was taken.
                let _ = self.inner.pace.count(person);
            }
            self.pump();
            return Steered::NotNow;
        }
        if self.inner.queue.lock().is_closed() && self.inner.parts.journal.is_some() {
            Steered::Later
        } else {
            Steered::Stopped
        }
    }
}

impl Inner {
    fn ear(&self, lane: &Lane) -> Ear {
        let running = self.running.lock();
        match running.get(lane).and_then(|running| running.backend.as_ref()) {
            None => Ear::None,
            Some(backend) if backend.descriptor().has(Feature::Steer) => Ear::Open,
            Some(_) => Ear::Deaf,
        }
    }

    /// Sends a message to the turn that runs in its lane; none: there is none that could be steered
    /// now.
    fn pass(&self, event: &Event) -> Option<(Sequence, oneshot::Receiver<SteerOutcome>)> {
        let running = self.running.lock();
        let Running { steers, backend, event: turn, .. } = running.get(&event.lane)?;
        let descriptor = backend.as_ref()?.descriptor();
        if !descriptor.has(Feature::Steer) {
            return None;
        }
        let text = prompt::neutralise(&event.prompt, &descriptor.expands, event.author.as_deref());
        let (reply_tx, outcome) = oneshot::channel();
        // Where the turn has just ended, both ends are dropped, which says the same.
        let _ = steers.send(Steering { parts: vec![Part::Text(text)], reply_tx });
        Some((*turn, outcome))
    }

    /// What a turn came to is kept, or it was stopped for good: the messages it took in are over.
    pub(super) fn heard_out(&self, turn: &Event) {
        for event in self.take_heard(turn) {
            self.check_off(&event);
        }
    }

    /// Has the messages that a turn of ours took in and did not come to an end with answered by
    /// themselves.
    pub(super) fn unhear(&self, turn: &Event) {
        for event in self.take_heard(turn) {
            self.queue.lock().restore(event);
        }
    }

    fn take_heard(&self, turn: &Event) -> Vec<Event> {
        let mut running = self.running.lock();
        let running = running.get_mut(&turn.lane).filter(|running| running.event == turn.sequence);
        running.and_then(|running| running.heard.take()).unwrap_or_default()
    }
}
