//! Taking events in: what is accepted waits in its lane and is kept, what is refused is kept too.
//!
//! A message for a turn that runs goes to its agent ([`steering`]). People may [`withdraw`] a prompt
//! while it waits. [`decline`] keeps refusals that adapters decide on, [`rate_limit`] says how fast
//! one person may ask. [`router`] sends events to the node that has their lane.

mod decline;
pub(super) mod rate_limit;
pub(super) mod router;
mod steering;
mod withdraw;

pub use self::decline::Declined;
pub use self::steering::{Steered, Underway};
use super::Dispatcher;
use super::durability::safe;
use super::outlet::messages::Refusal;
use super::run::attachments;
use aetheel_model::event::{Event, NewEvent, Sequence};
use aetheel_model::figures::{self, Outcome};
use aetheel_store::workspace::Saving;

/// An event that was taken.
#[derive(Debug)]
pub struct Accepted {
    /// Its place in the order of acceptance.
    pub sequence: Sequence,
    /// How many events of its lane come before it, the running one included.
    pub ahead: usize,
    saving: Option<Saving>,
}

impl Accepted {
    /// Makes one of an event that needs no keeping.
    #[must_use]
    pub fn unkept(sequence: Sequence, ahead: usize) -> Self {
        Self { sequence, ahead, saving: None }
    }

    /// Waits until the event outlives the program.
    ///
    /// # Errors
    /// [`Refusal::NotSaved`]: it was taken back, and is forgotten.
    pub async fn safe(self) -> Result<Sequence, Refusal> {
        if safe(self.saving).await { Ok(self.sequence) } else { Err(Refusal::NotSaved) }
    }
}

impl Dispatcher {
    /// Accepts an event, or says why not. Returns at once; the answer goes to the outlet.
    ///
    /// # Errors
    /// [`Refusal`], in words for the person who asked; nothing was kept.
    pub fn submit(&self, event: NewEvent) -> Result<Accepted, Refusal> {
        let (lane, kind, asker, limit) =
            (event.lane.clone(), event.kind, event.asker, self.inner.parts.choices.prompt_limit);
        let refused = |refusal: Refusal| {
            figures::event(kind, Outcome::Refused);
            tracing::warn!(%lane, ?kind, asker, depth = self.inner.lanes.queue.lock().waiting(), "event refused: {refusal}");
            Err(refusal)
        };
        // An event that comes twice is neither counted nor refused twice.
        if self.inner.durability.knows(&event) {
            tracing::debug!(%lane, ?kind, "event was taken before");
            return Err(Refusal::Known);
        }
        if event.prompt.len() > limit {
            return refused(Refusal::TooLong { bytes: event.prompt.len(), limit });
        }
        // Found out before it costs its author anything.
        if self.inner.durability.is_failing() {
            return Err(Refusal::NotSaved);
        }
        if let Err(refusal) = attachments::announced(&event.attached, &self.inner.parts.choices) {
            return refused(refusal);
        }
        // Messages written while we were away come as fast as we catch up.
        if let Some(wait) = event
            .asker
            .filter(|_| !event.missed)
            .and_then(|person| self.inner.rate_limit.count(person).err())
        {
            return refused(Refusal::TooFast { seconds: wait.as_secs() + 1 });
        }
        match self.accept(event) {
            Ok((event, ahead, saving)) => {
                figures::event(kind, Outcome::Accepted);
                tracing::info!(event = event.sequence, %lane, ?kind, "event accepted");
                let sequence = event.sequence;
                if event.opens_thread {
                    self.open_thread(event.clone(), saving.clone());
                }
                if let Some(saving) = saving.clone() {
                    self.watch_saving(event, saving);
                }
                self.pump();
                Ok(Accepted { sequence, ahead, saving })
            }
            Err(refusal) => refused(refusal),
        }
    }

    /// Takes an event into the queue and the journal, in the same order. Returns how many come
    /// before it in its lane.
    fn accept(&self, event: NewEvent) -> Result<(Event, usize, Option<Saving>), Refusal> {
        let mut queue = self.inner.lanes.queue.lock();
        // Again, now that nobody else can come between.
        if self.inner.durability.knows(&event) {
            return Err(Refusal::Known);
        }
        let now_ms = jiff::Timestamp::now().as_millisecond();
        let event = if event.opens_thread {
            queue.hold(event, now_ms)?
        } else {
            queue.accept(event, now_ms)?
        };
        let ahead = queue.position(event.sequence).unwrap_or(0);
        let saving = self.inner.durability.keep_accepted(&event);
        Ok((event, ahead, saving))
    }

    /// Waits for an event to be on disk, and takes it back when it cannot be.
    pub(super) fn watch_saving(&self, event: Event, saving: Saving) {
        let inner = self.inner.clone();
        self.inner.tasks.spawn(async move {
            let saved = saving.done().await;
            // One that was handed out already is refused by its own task, which has to find what
            // became of its saving.
            let taken_back = !saved && inner.lanes.queue.lock().cancel(event.sequence).is_some();
            if saved || taken_back {
                inner.durability.saved(event.sequence);
            }
            if taken_back {
                inner.durability.not_saved(&event);
                inner.lanes.tell_finished();
            }
        });
    }
}
