//! Replies that no parser could read: their recordings, and their notes in `state/lost.md`.
//!
//! The module `redeliver` reads and delivers them. Tested by `tests/dispatch/lost.rs`.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::deps::DispatcherDeps;
use crate::outlet::Offer;
use crate::persistence::EventProgress;
use aetheel_model::event::{Event, EventOrigin, Lane};
use aetheel_model::plain::with_causes;
use aetheel_recording::Backend;
use aetheel_recording::reread::{RereadAnswer, RereadError, reread};
use aetheel_runtime::figures;
use aetheel_store::workspace::{Binding, LostState, LostTurn, LostTurns};
use aetheel_turn::TurnResult;

/// Prefixes of button ids: for one reply, and for all replies of a backend.
pub(super) const ONE: &str = "lost-";
pub(super) const ALL: &str = "deliver-";
/// The maximum number of lost turns whose epoch is remembered.
const EPOCH_LIMIT: usize = 1_000;

/// The lost replies, which are noted in `state/lost.md`, with additional data in memory.
pub(crate) struct LostReplies {
    deps: Arc<DispatcherDeps>,
    /// Held while a reply is read and enqueued, so that none is delivered twice.
    pub(super) delivery_lock: tokio::sync::Mutex<()>,
    /// The epoch of the lane's binding when the turn was lost, by turn. See [`Binding::epoch`].
    pub(super) epochs: Mutex<HashMap<String, u64>>,
    /// By lane and backend, the session of a recovered turn that the conversation continues.
    pub(super) recovered_sessions: Mutex<HashMap<(Lane, String), String>>,
}

impl LostReplies {
    pub(crate) fn new(deps: Arc<DispatcherDeps>) -> Self {
        Self {
            deps,
            delivery_lock: tokio::sync::Mutex::default(),
            epochs: Mutex::default(),
            recovered_sessions: Mutex::default(),
        }
    }

    /// Returns the notes in the file.
    pub(crate) fn notes(&self) -> &LostTurns {
        &self.deps.workspace.state.lost
    }

    /// Keeps the recording of a turn whose answer could not be read, or whose silence is
    /// suspicious, and adds a note about the turn. Returns the button for the person who asked, or
    /// `None` if the turn did not fail or could not be kept.
    pub(crate) async fn keep_unread(
        &self,
        event: &Event,
        turn: &str,
        backend: &str,
        binding: &Binding,
        requested: Option<&str>,
        result: &TurnResult,
    ) -> Option<Offer> {
        let findings = &result.findings;
        if !(result.ending.is_lost() || findings.suspicion.is_some()) || !findings.output {
            return None;
        }
        let kept = self.deps.recorder.keep(&result.recording, turn).await;
        let recording =
            kept.inspect_err(|error| tracing::error!(error = %with_causes(&error), "the recording of a lost reply cannot be kept; check RECORDINGS_DIR")).ok()?;
        let (channel, message) = match event.origin {
            EventOrigin::Message { channel, message } => (Some(channel), Some(message)),
            EventOrigin::Interaction { channel, .. } => (Some(channel), None),
            EventOrigin::Internal { channel } => (channel, None),
            EventOrigin::Console => (None, None),
        };
        let lost = LostTurn {
            turn: turn.to_owned(),
            state: LostState::Lost,
            at_ms: self.deps.clock.now_ms(),
            lane: event.lane.clone(),
            event: event.sequence,
            channel,
            message,
            asker: event.asker,
            notice: None,
            backend: backend.to_owned(),
            agent_version: result.agent_version.clone(),
            digest: result.generation.digest.clone(),
            tried: None,
            session: requested.map(str::to_owned),
            recording,
        };
        if let Err(error) = self.notes().note(lost).await {
            tracing::error!(error = %with_causes(&error), "a lost reply cannot be recorded; its recording stays in RECORDINGS_DIR/lost");
            return None;
        }
        let mut epochs = self.epochs.lock();
        if epochs.len() >= EPOCH_LIMIT {
            epochs.clear();
        }
        epochs.insert(turn.to_owned(), binding.epoch);
        figures::lost_reply(backend, LostState::Lost.word());
        let hint = format!("`aetheel report {turn}` writes a file for the backend's authors");
        tracing::warn!(generation = %result.generation, hint, "the reply is lost until a newer backend reads it; its recording is kept");
        // People see a merely suspicious turn like any other.
        result.ending.is_lost().then(|| Offer {
            id: format!("{ONE}{turn}"),
            label: "Show the answer again (when a newer backend can read it)".to_owned(),
        })
    }

    /// Records the message that has the button of a failure.
    pub(crate) async fn note_button(&self, event: &Event, offer: Option<&Offer>) {
        let Some(turn) = offer.and_then(|offer| offer.id.strip_prefix(ONE)) else { return };
        let entry = self.deps.journal.as_ref().and_then(|journal| journal.entry(event.sequence));
        let Some(message) = entry.and_then(|entry| entry.posted.last().copied()) else { return };
        if let Err(error) = self.notes().set_notice(turn, message).await {
            tracing::warn!(turn, error = %with_causes(&error), "cannot save where the button of a lost reply is; it stays after the reply is delivered");
        }
    }

    /// Gives up the lost replies of previous attempts at an event, because the event runs again.
    pub(crate) async fn supersede(&self, event: &Event, kept: &EventProgress) {
        if !kept.began_before() {
            return;
        }
        let lost = self.notes();
        let superseded = |turn: &LostTurn| {
            turn.event == event.sequence && turn.lane == event.lane && turn.state.is_open()
        };
        for turn in lost.all().await.into_iter().filter(superseded) {
            if let Err(error) = lost.mark(&turn.turn, LostState::GivenUp, None).await {
                tracing::warn!(turn = turn.turn, error = %with_causes(&error), "cannot record that a lost reply was given up");
            }
            figures::lost_reply(&turn.backend, LostState::GivenUp.word());
        }
    }

    /// Returns a line for owners about the lost replies of a backend, or `None` if it has no lost
    /// replies.
    pub(crate) async fn summary(&self, backend: &str) -> Option<String> {
        let (lost, readable) = LostTurn::count(&self.notes().all().await, backend);
        (lost + readable > 0).then(|| {
            format!("Replies that could not be read: {lost} wait for a newer backend, {readable} can be delivered with `aetheel recover`.")
        })
    }

    /// Returns whether this program delivers a turn. The console delivers the turns of the console,
    /// and the gateway all others.
    pub(super) fn is_ours(&self, lost: &LostTurn) -> bool {
        (lost.lane == Lane::Console) == self.deps.journal.is_none()
    }

    /// Reads a turn's recording with a backend.
    ///
    /// # Errors
    /// [`RereadError`] if the recording has no answer, or if this backend failed to read it before.
    pub(super) async fn read_again(
        &self,
        lost: &LostTurn,
        backend: &dyn Backend,
    ) -> Result<RereadAnswer, RereadError> {
        if backend.generation().digest == lost.digest {
            return Err(RereadError::SameBackend);
        }
        reread(backend, &self.deps.recorder.folder().join(&lost.recording), &lost.turn).await
    }

    /// Returns whether a lost reply was enqueued before. If it was delivered and `lost.md` does not
    /// record that, this method records it.
    pub(super) async fn is_being_delivered(&self, lost: &LostTurn) -> bool {
        let key = lost.key();
        let Some(journal) = self.deps.journal.as_ref().filter(|journal| journal.contains_key(&key))
        else {
            return false;
        };
        if !journal.open_events().iter().any(|entry| entry.event.key.as_deref() == Some(&key)) {
            self.mark_delivered(&lost.turn).await;
        }
        true
    }

    /// Records that a lost reply was delivered.
    pub(super) async fn mark_delivered(&self, turn: &str) {
        if let Err(error) = self.notes().mark(turn, LostState::Delivered, None).await {
            tracing::warn!(turn, error = %with_causes(&error), "cannot record the state of a lost reply");
        }
    }

    /// Records whether a component can read a lost reply, unless the reply was delivered meanwhile.
    pub(super) async fn mark_tried(&self, turn: &str, state: LostState, tried: &str) {
        if let Err(error) = self.notes().mark_open(turn, state, tried).await {
            tracing::warn!(turn, error = %with_causes(&error), "cannot record the state of a lost reply");
        }
    }

    /// Records the final state of a recovered reply, before its event is marked as finished.
    pub(crate) async fn record_outcome(&self, event: &Event, state: LostState) {
        let Some(turn) = LostTurn::of_key(event.key.as_deref()) else { return };
        let lost = self.notes();
        if let Err(error) = lost.mark(turn, state, None).await {
            tracing::error!(turn, error = %with_causes(&error), "cannot record the state of a recovered reply in state/lost.md");
        }
        let Some(lost) = lost.get(turn).await else { return };
        figures::lost_reply(&lost.backend, state.word());
        let button = lost.channel.zip(lost.notice);
        if let Some((channel, message)) = button.filter(|_| state == LostState::Delivered) {
            self.deps.outlet.remove_offer_button(channel, message).await;
        }
    }
}
