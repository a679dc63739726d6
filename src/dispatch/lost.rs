//! Replies that no parser could read: what is noted when one is lost, and what people are told when
//! a newer backend reads it.
//!
//! Delivering them stands in `redelivery`. Pinned by `tests/dispatch/lost.rs`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use super::reply::{Answer, Notice, Offer};
use super::{Dispatcher, Inner};
use crate::event::{Event, Lane, Origin, Sequence};
use crate::figures;
use crate::turn::reread::reread;
use crate::turn::{Backend, TurnResult};
use crate::workspace::{Binding, LostState, LostTurn};

use super::keeping::Kept;

/// What the ids of the buttons begin with: one reply, and all of a backend.
pub(super) const ONE: &str = "lost-";
pub(super) const ALL: &str = "deliver-";
/// Lost turns whose epoch is known.
const EPOCHS: usize = 1_000;

/// What is known of lost replies beside the file.
#[derive(Default)]
pub(super) struct Salvage {
    /// One is read and handed over at a time, so that none is twice.
    pub(super) alone: tokio::sync::Mutex<()>,
    /// What is on its way, by event.
    pub(super) answers: Mutex<HashMap<Sequence, Arc<Answer>>>,
    /// Resets of the lane when a turn of it was lost; see [`Binding::epoch`].
    pub(super) epochs: Mutex<HashMap<String, u64>>,
    /// The session that a lane and backend got from a recovered turn.
    pub(super) rebound: Mutex<HashMap<(Lane, String), String>>,
}

impl Salvage {
    /// The answer of an event that is only delivered.
    pub(super) fn answer(&self, event: Sequence) -> Option<Arc<Answer>> {
        self.answers.lock().remove(&event)
    }
}

impl Inner {
    /// Keeps the recording of a turn whose answer could not be read, and notes the turn. Returns
    /// the button for whoever asked; none: nothing was lost, or it could not be kept.
    pub(super) async fn lose(
        &self,
        event: &Event,
        turn: &str,
        backend: &str,
        (binding, requested): (&Binding, Option<&str>),
        result: &TurnResult,
    ) -> Option<Offer> {
        if !result.ending.is_lost() || !result.output {
            return None;
        }
        let kept = self.parts.recorder.keep(&result.recording, turn).await;
        let recording =
            kept.inspect_err(|error| tracing::error!(%error, "the recording of a lost reply cannot be kept; check RECORDINGS_DIR")).ok()?;
        let (channel, message) = match event.origin {
            Origin::Message { channel, message } => (Some(channel), Some(message)),
            Origin::Interaction { channel, .. } => (Some(channel), None),
            Origin::Internal { channel } => (channel, None),
            Origin::Console => (None, None),
        };
        let lost = LostTurn {
            turn: turn.to_owned(),
            state: LostState::Lost,
            at_ms: jiff::Timestamp::now().as_millisecond(),
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
        if let Err(error) = self.parts.workspace.lost_turns().note(lost).await {
            tracing::error!(%error, "a lost reply cannot be noted; its recording stays in RECORDINGS_DIR/lost");
            return None;
        }
        let mut epochs = self.salvage.epochs.lock();
        if epochs.len() >= EPOCHS {
            epochs.clear();
        }
        epochs.insert(turn.to_owned(), binding.epoch);
        figures::lost_reply(backend, LostState::Lost.word());
        tracing::warn!(generation = %result.generation, "the reply is lost until a newer backend reads it; its recording is kept");
        Some(Offer {
            id: format!("{ONE}{turn}"),
            label: "Try again with a newer parser".to_owned(),
        })
    }

    /// A failure was told: where its button is.
    pub(super) async fn told(&self, event: &Event, offer: Option<&Offer>) {
        let Some(turn) = offer.and_then(|offer| offer.id.strip_prefix(ONE)) else { return };
        let entry = self.parts.journal.as_ref().and_then(|journal| journal.entry(event.sequence));
        let Some(message) = entry.and_then(|entry| entry.posted.last().copied()) else { return };
        if let Err(error) = self.parts.workspace.lost_turns().set_notice(turn, message).await {
            tracing::warn!(turn, %error, "cannot note where the button of a lost reply is; it stays when the reply is delivered");
        }
    }

    /// An event is done again: what its earlier attempts lost is not wanted any more.
    pub(super) async fn outdo(&self, event: &Event, kept: &Kept) {
        if !kept.began_before() {
            return;
        }
        let lost = self.parts.workspace.lost_turns();
        let outdone = |turn: &LostTurn| {
            turn.event == event.sequence && turn.lane == event.lane && turn.state.is_open()
        };
        for turn in lost.all().await.into_iter().filter(outdone) {
            if let Err(error) = lost.mark(&turn.turn, LostState::GivenUp, None).await {
                tracing::warn!(turn = turn.turn, %error, "cannot note that a lost reply is not wanted any more");
            }
            figures::lost_reply(&turn.backend, LostState::GivenUp.word());
        }
    }

    /// What owners are told of the replies of a backend that are lost; none: none is.
    pub(super) async fn lost_summary(&self, backend: &str) -> Option<String> {
        let (lost, readable) =
            LostTurn::count(&self.parts.workspace.lost_turns().all().await, backend);
        (lost + readable > 0).then(|| {
            format!("Replies that could not be read: {lost} wait for a newer backend, {readable} can be delivered with `aetheel recover`.")
        })
    }

    /// Whether this program is the one to deliver a turn: what was asked at a terminal is told at a
    /// terminal.
    pub(super) fn is_ours(&self, lost: &LostTurn) -> bool {
        (lost.lane == Lane::Console) == self.parts.journal.is_none()
    }

    /// What a turn's recording gives with a backend; none where that is what could not read it.
    pub(super) async fn read_again(
        &self,
        lost: &LostTurn,
        backend: &dyn Backend,
    ) -> Result<crate::turn::reread::Reread, String> {
        if backend.generation().digest == lost.digest {
            return Err("the backend is still the one that could not read it".to_owned());
        }
        reread(backend, &self.parts.recorder.folder().join(&lost.recording), &lost.turn).await
    }

    /// Takes everything out of the queue that waits in a lane and that an agent would be asked for.
    pub(super) fn cancel_waiting(&self, lane: &Lane) -> Vec<Event> {
        let mut queue = self.queue.lock();
        let (delivered, waiting): (Vec<_>, Vec<_>) = queue
            .cancel_waiting(lane)
            .into_iter()
            .partition(|event| LostTurn::of_key(event.key.as_deref()).is_some());
        delivered.into_iter().for_each(|event| queue.restore(event));
        waiting
    }
}

impl Dispatcher {
    /// Reads the lost turns of these backends again that their present generations have not tried;
    /// of all, when none is named. Tells the operator's channel, once, of what can be read now. One
    /// after the other, each for a bounded time.
    pub async fn reread(&self, backends: Option<&[String]>) {
        let inner = &self.inner;
        let mut by_backend: BTreeMap<String, Vec<LostTurn>> = BTreeMap::new();
        for turn in inner.parts.workspace.lost_turns().all().await {
            let wanted = backends.is_none_or(|names| names.contains(&turn.backend));
            if wanted
                && turn.state.is_open()
                && inner.is_ours(&turn)
                && !self.is_on_its_way(&turn).await
            {
                by_backend.entry(turn.backend.clone()).or_default().push(turn);
            }
        }
        for (name, turns) in by_backend {
            if let Some(backend) = inner.parts.backends.get(&name) {
                self.reread_with(&name, &*backend, turns).await;
            }
        }
    }

    async fn reread_with(&self, name: &str, backend: &dyn Backend, turns: Vec<LostTurn>) {
        let (inner, generation) = (&self.inner, backend.generation());
        let digest = generation.digest.as_str();
        let (tried, new): (Vec<_>, Vec<_>) = turns
            .into_iter()
            .filter(|turn| turn.digest != digest)
            .partition(|turn| turn.tried.as_deref() == Some(digest));
        let before = tried.iter().filter(|turn| turn.state == LostState::Readable).count();
        let mut readable = Vec::new();
        for turn in new {
            if inner.queue.lock().is_closed() {
                return;
            }
            // Not while one is handed over.
            let _alone = inner.salvage.alone.lock().await;
            match inner.read_again(&turn, backend).await {
                Ok(_) => readable.push(turn.turn),
                Err(why) => {
                    tracing::info!(turn = turn.turn, backend = name, %generation, why, "a lost reply still cannot be read");
                    self.mark(&turn.turn, LostState::Lost, Some(digest)).await;
                }
            }
        }
        if readable.is_empty() {
            return;
        }
        let count = readable.len() + before;
        tracing::info!(backend = name, %generation, count, "lost replies can be read now; `aetheel recover` delivers them too");
        let replies =
            if count == 1 { "1 lost reply".to_owned() } else { format!("{count} lost replies") };
        let text = format!("{replies} of `{name}` can be read by {generation}. (recoverable)");
        // Told apart by its beginning, and at most 64 characters in all.
        let id: String = format!("{ALL}{}-{name}", digest.get(..12).unwrap_or(digest))
            .chars()
            .take(64)
            .collect();
        let offer = Some(Offer { id, label: "Deliver them".to_owned() });
        if let Err(error) =
            inner.parts.outlet.notify(Notice { channel: None, about: None, text, offer }).await
        {
            tracing::warn!(%error, "nobody could be told of lost replies that can be read; `aetheel recover` delivers them");
        }
        // Afterwards: after a death in between it is told again rather than never, and Discord
        // shows the same notice once.
        for turn in readable {
            self.mark(&turn, LostState::Readable, Some(digest)).await;
        }
    }

    pub(super) async fn mark(&self, turn: &str, state: LostState, tried: Option<&str>) {
        if let Err(error) = self.inner.parts.workspace.lost_turns().mark(turn, state, tried).await {
            tracing::warn!(turn, %error, "cannot note what became of a lost reply");
        }
    }
}
