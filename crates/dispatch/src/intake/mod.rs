//! Accepting events into the queue and the journal.
//!
//! [`steering`] passes messages on to running turns, [`withdraw`] lets people cancel or edit a
//! waiting prompt, [`decline`] saves refusals that adapters decide on, [`rate_limit`] limits the
//! prompts of a person, [`probe`] sends the probes of the health checks, and [`router`] sends
//! events to the node that serves their lane.

mod decline;
mod probe;
pub(super) mod rate_limit;
pub(super) mod router;
mod steering;
mod withdraw;

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

pub use self::decline::SavedRefusal;
pub use self::steering::{PendingSteering, SteeringResult};
use super::Shared;
use super::attachments;
use super::outlet::messages::PromptRefusal;
use super::persistence::wait_until_saved;
use super::thread;
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::event::{Event, NewEvent, Sequence};
use aetheel_model::id::UserId;
use aetheel_model::plain::hex;
use aetheel_runtime::figures::{self, EventOutcome};
use aetheel_store::workspace::PendingSave;

/// An accepted event.
#[derive(Debug)]
pub struct Accepted {
    /// The number of the event, in the order of acceptance.
    pub sequence: Sequence,
    /// How many events of its lane precede it, including the running one.
    pub ahead: usize,
    saving: Option<PendingSave>,
}

impl Accepted {
    /// Creates the result for an event that is not saved.
    #[must_use]
    pub fn without_saving(sequence: Sequence, ahead: usize) -> Self {
        Self { sequence, ahead, saving: None }
    }

    /// Waits until the event is on disk.
    ///
    /// # Errors
    /// [`PromptRefusal::NotSaved`] if the event could not be saved. It is then no longer accepted.
    pub async fn wait_until_saved(self) -> Result<Sequence, PromptRefusal> {
        if wait_until_saved(self.saving).await {
            Ok(self.sequence)
        } else {
            Err(PromptRefusal::NotSaved)
        }
    }
}

/// Accepts, steers, edits, withdraws and rejects events. Cheap to clone.
#[derive(Clone)]
pub struct Intake {
    shared: Arc<Shared>,
}

impl Intake {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Accepts or refuses an event. Returns at once; the answer goes to the outlet.
    ///
    /// # Errors
    /// [`PromptRefusal`], worded for the person who asked. A refused event is not saved.
    pub fn submit(&self, event: NewEvent) -> Result<Accepted, PromptRefusal> {
        let (lane, kind, asker, limit) =
            (event.lane.clone(), event.kind, event.asker, self.shared.deps.choices.prompt_limit);
        let refused = |refusal: PromptRefusal| {
            figures::count_event(kind, EventOutcome::Refused);
            tracing::warn!(%lane, ?kind, asker = asker.map(UserId::to_field), depth = self.shared.lanes.queue.lock().lanes().waiting().len(), "event refused: {refusal}");
            Err(refusal)
        };
        // A repeated event is neither counted nor refused a second time.
        if self.shared.durability.is_known(&event) {
            tracing::debug!(%lane, ?kind, "event was accepted before");
            return Err(PromptRefusal::Known);
        }
        if event.prompt.len() > limit {
            return refused(PromptRefusal::TooLong { bytes: event.prompt.len(), limit });
        }
        // Checked before the rate limit, so that the failure does not count against the author.
        if self.shared.durability.is_failing() {
            return Err(PromptRefusal::NotSaved);
        }
        if let Err(refusal) =
            attachments::check_announced(&event.attached, &self.shared.deps.choices)
        {
            return refused(refusal);
        }
        // Messages that were missed during an outage arrive as fast as the gateway reads them.
        if let Some(wait) = event
            .asker
            .filter(|_| !event.missed)
            .and_then(|person| self.shared.rate_limit.count(person).err())
        {
            return refused(PromptRefusal::TooFast { seconds: wait.as_secs() + 1 });
        }
        match self.accept(event) {
            Ok((event, ahead, saving)) => {
                figures::count_event(kind, EventOutcome::Accepted);
                tracing::info!(event = event.sequence, %lane, ?kind, "event accepted");
                let sequence = event.sequence;
                note_prompt(&event);
                if event.opens_thread {
                    thread::open(&self.shared, event.clone(), saving.clone());
                }
                if let Some(saving) = saving.clone() {
                    self.shared.watch_saving(event, saving);
                }
                self.shared.start_waiting();
                Ok(Accepted { sequence, ahead, saving })
            }
            Err(refusal) => refused(refusal),
        }
    }

    /// Adds an event to the queue and to the journal, in the same order. Returns the number of
    /// events that precede it in its lane.
    fn accept(
        &self,
        event: NewEvent,
    ) -> Result<(Event, usize, Option<PendingSave>), PromptRefusal> {
        let mut queue = self.shared.lanes.queue.lock();
        // Checked again under the lock of the queue.
        if self.shared.durability.is_known(&event) {
            return Err(PromptRefusal::Known);
        }
        let now_ms = self.shared.deps.clock.now_ms();
        let event = if event.opens_thread {
            queue.hold(event, now_ms)?
        } else {
            queue.accept(event, now_ms)?
        };
        let ahead = queue.lanes().position(event.sequence).unwrap_or(0);
        let saving = self.shared.durability.save_accepted(&event);
        Ok((event, ahead, saving))
    }
}

/// Adds an accepted prompt to the audit log, without its text.
fn note_prompt(event: &Event) {
    let kind = serde_json::to_value(event.kind).ok();
    AuditEntry::new(AuditKind::PromptAccepted)
        .by(event.asker, event.author.as_deref())
        .in_lane(&event.lane)
        .with("event", event.sequence)
        .with_known("source", kind.as_ref().and_then(serde_json::Value::as_str))
        .with("bytes", event.prompt.len())
        .with("sha256", hex(&Sha256::digest(&event.prompt)))
        .note();
}
