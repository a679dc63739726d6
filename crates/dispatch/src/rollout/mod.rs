//! The rollout of new versions of backends: which version serves a turn, and when a new version
//! serves all of them or is dropped.
//!
//! After a turn, both versions replay its recording and are compared
//! ([`comparison`](aetheel_recording::comparison)). One task does this, one turn after the other. After a
//! turn that the serving version served, it rests, so that it uses at most a twentieth of one
//! processor; if too many of these turns wait, further ones are skipped and counted. The first
//! harmful difference ends a rollout. After enough turns without one, the new version is promoted.
//! Turns never wait for this. Tested by `tests/rollout`.
//!
//! | module | content |
//! |---|---|
//! | [`share`] | which lanes a new version serves |
//! | [`offers`] | the buttons below notices |
//! | [`messages`] | texts for the operator |
//! | [`comparing`] | compares turns, and draws the consequences |
//! | [`decisions`] | the decisions of owners, and rollouts that begin and end |

mod comparing;
mod decisions;
mod messages;
mod offers;
mod share;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;

pub use self::decisions::{RolloutView, Rollouts};
pub use self::offers::RolloutDecision;

use self::messages::DescribedRollout;
use self::offers::NoticeKind;
use super::deps::DispatcherDeps;
use super::outlet::Notice;
use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;
use aetheel_model::plain::with_causes;
use aetheel_model::rollout::Rollout;
use aetheel_recording::{Backend, Ending, Generation, GuestFailure, RolloutPair};
use aetheel_runtime::figures::{self, RolloutResult};
use aetheel_store::workspace::{BackendLock, RolloutEnd, RolloutNote, RolloutState, Workspace};
use aetheel_turn::TurnResult;

/// Maximum number of turns of the serving version that wait to be compared.
pub const MAX_WAITING_COMPARISONS: usize = 8;

/// A turn that waits to be compared.
struct EndedTurnRecording {
    backend: String,
    turn: String,
    /// The id of its link, which names the recording.
    link: String,
    recording: PathBuf,
    /// Whether the new version served it.
    served: bool,
    /// The failure of the guest that ended it.
    failure: Option<String>,
    /// Whether a previous process may have counted it.
    again: bool,
}

/// The turns that wait to be compared.
pub(super) struct WaitingTurns {
    served: mpsc::UnboundedReceiver<EndedTurnRecording>,
    beside: mpsc::Receiver<EndedTurnRecording>,
}

/// Knows the rollouts, and selects the version that serves a turn.
pub(super) struct RolloutMonitor {
    deps: Arc<DispatcherDeps>,
    /// The rollouts, by the name of the component.
    notes: Mutex<BTreeMap<String, RolloutNote>>,
    /// The digests of the generations that served a part of the lanes.
    partial: Mutex<BTreeSet<String>>,
    /// Turns of new versions. Their number is not limited: a turn that was served must be judged.
    served: mpsc::UnboundedSender<EndedTurnRecording>,
    beside: mpsc::Sender<EndedTurnRecording>,
    /// Held while a rollout begins or ends.
    deciding: tokio::sync::Mutex<()>,
    /// The components whose rollout this process has logged.
    logged: Mutex<BTreeSet<String>>,
    /// How often this process began the rollout of a component.
    begun: Mutex<BTreeMap<String, u8>>,
    /// The components about which a notice says that they wait for the operator.
    waits: Mutex<BTreeSet<String>>,
}

impl RolloutMonitor {
    /// Creates a monitor with the saved rollouts. [`Rollouts::compare_all`] compares the turns that
    /// wait.
    pub(super) fn new(deps: Arc<DispatcherDeps>) -> (Arc<Self>, WaitingTurns) {
        let (served, served_turns) = mpsc::unbounded_channel();
        let (beside, turns_beside) = mpsc::channel(MAX_WAITING_COMPARISONS);
        let saved = deps.workspace.state.rollouts.all();
        let notes = saved.into_iter().map(|note| (note.backend.clone(), note)).collect();
        let monitor = Self {
            deps,
            notes: Mutex::new(notes),
            partial: Mutex::default(),
            served,
            beside,
            deciding: tokio::sync::Mutex::default(),
            logged: Mutex::default(),
            begun: Mutex::default(),
            waits: Mutex::default(),
        };
        (Arc::new(monitor), WaitingTurns { served: served_turns, beside: turns_beside })
    }

    /// Returns the version of a backend that serves a lane. `parent` is the channel of the lane's
    /// thread.
    pub(super) fn serving(
        &self,
        name: &str,
        lane: &Lane,
        parent: Option<ChannelId>,
    ) -> Option<Arc<dyn Backend>> {
        let partial = self.live_for(name, lane, parent);
        let partial = partial.or_else(|| self.successor_for(name, lane, parent));
        // A version that fails again and again must not hold up its lanes.
        let Some(partial) = partial.filter(|backend| backend.paused().is_none()) else {
            return self.deps.backends.get(name);
        };
        self.partial.lock().insert(partial.generation().digest.clone());
        Some(partial)
    }

    /// Returns the version in development that serves a lane.
    fn live_for(
        &self,
        name: &str,
        lane: &Lane,
        parent: Option<ChannelId>,
    ) -> Option<Arc<dyn Backend>> {
        let Lane::Channel(channel) = lane else { return None };
        let live = |channel| self.deps.backends.live(name, channel);
        live(*channel).or_else(|| live(parent?))
    }

    fn successor_for(
        &self,
        name: &str,
        lane: &Lane,
        parent: Option<ChannelId>,
    ) -> Option<Arc<dyn Backend>> {
        let rollout = &self.deps.rollout;
        if !rollout.serves_in_part() {
            return None;
        }
        let pair = self.deps.backends.rollout(name)?;
        let includes = share::includes(rollout, component(&pair).1, lane, parent);
        if !includes || self.note_of(&pair).state == RolloutState::Stopped {
            return None;
        }
        self.deps.backends.successor(name)
    }

    /// Returns whether a generation served a part of the lanes and does not serve all of them now.
    pub(super) fn is_partial(&self, name: &str, generation: &Generation) -> bool {
        let is_it = |backend: Option<Arc<dyn Backend>>| {
            backend.is_some_and(|backend| backend.generation() == generation)
        };
        let was = || self.partial.lock().contains(&generation.digest);
        !is_it(self.deps.backends.get(name)) && (was() || is_it(self.deps.backends.successor(name)))
    }

    /// Queues a turn that ended to be compared, if a new version of its backend is on rollout.
    /// Returns at once. Must be called after a lost reply was recorded, because a rollout that ends
    /// delivers lost replies.
    pub(super) fn on_turn_end(&self, backend: &str, turn: &str, result: &TurnResult) {
        if self.deps.rollout == Rollout::Now {
            return;
        }
        let Some(pair) = self.deps.backends.rollout(backend) else { return };
        if self.note_of(&pair).state == RolloutState::Stopped {
            return;
        }
        let successor = self.deps.backends.successor(backend);
        let served = self.is_partial(backend, &result.generation);
        if served && successor.is_none_or(|it| *it.generation() != result.generation) {
            // A version in development, or one that was dropped since.
            return;
        }
        if !served && matches!(self.deps.rollout, Rollout::Channels(_)) {
            return;
        }
        let failure = match &result.ending {
            Ending::Backend(GuestFailure::Paused(_)) => None,
            Ending::Backend(failure) => Some(failure.to_string()),
            _ => None,
        };
        let ended = EndedTurnRecording {
            backend: backend.to_owned(),
            turn: turn.to_owned(),
            link: result.link.clone(),
            recording: result.recording.clone(),
            served,
            failure,
            again: false,
        };
        if served {
            let _ = self.served.send(ended); // fails only while the program ends
        } else if self.beside.try_send(ended).is_err() {
            self.skip(&pair, turn, "too many turns wait to be compared");
        }
    }

    /// Returns a line for owners about the rollout of a backend's new version, if there is one.
    pub(super) fn summary(&self, backend: &str) -> Option<String> {
        let pair = self.deps.backends.rollout(backend)?;
        Some(self.describe(&pair, &self.note_of(&pair)).summary())
    }

    /// Returns the note about the rollout of this component, or an empty one.
    fn note_of(&self, pair: &RolloutPair) -> RolloutNote {
        let (name, digest) = component(pair);
        let notes = self.notes.lock();
        let known = notes.get(name).filter(|note| note.digest == digest);
        known.cloned().unwrap_or_else(|| RolloutNote::new(name, digest))
    }

    /// Changes the note about the rollout of this component, and returns it.
    fn change(&self, pair: &RolloutPair, change: impl FnOnce(&mut RolloutNote)) -> RolloutNote {
        let mut note = self.note_of(pair);
        change(&mut note);
        self.notes.lock().insert(note.backend.clone(), note.clone());
        note
    }

    fn skip(&self, pair: &RolloutPair, turn: &str, reason: &str) {
        let note = self.change(pair, |note| note.skipped += 1);
        figures::rollout_turn(&note.backend, RolloutResult::Skipped);
        tracing::debug!(
            backend = note.backend,
            turn,
            reason,
            "a turn was not compared with the new version"
        );
    }

    /// Saves the current note about a rollout, unless it has ended. Waits until a decision is carried
    /// out, because a decision removes the note.
    async fn save(&self, pair: &RolloutPair) {
        let _alone = self.deciding.lock().await;
        let (backend, digest) = component(pair);
        let note = self.notes.lock().get(backend).filter(|note| note.digest == digest).cloned();
        let Some(note) = note else { return };
        if let Err(error) = self.deps.workspace.state.rollouts.save(note).await {
            tracing::error!(
                error = %with_causes(&error),
                "cannot save state/rollouts.md; after a restart the rollout begins again"
            );
        }
    }

    /// Moves the note about a rollout that has ended to the history.
    async fn forget(&self, backend: &str, end: RolloutEnd) {
        let Some(note) = self.notes.lock().remove(backend) else { return };
        self.logged.lock().remove(&note.digest);
        self.waits.lock().remove(&note.digest);
        if end == RolloutEnd::Withdrawn {
            remove_from_lock(&self.deps.workspace, &note.digest).await;
        }
        let files = &self.deps.workspace.state;
        if let Err(error) = files.end_rollout(note, end, self.deps.clock.now()).await {
            tracing::warn!(backend, error = %with_causes(&error), "cannot move a rollout from state/rollouts.md to state/rollout-history.md");
        }
    }

    fn describe<'a>(
        &'a self,
        pair: &'a RolloutPair,
        note: &'a RolloutNote,
    ) -> DescribedRollout<'a> {
        DescribedRollout {
            version: &pair.successor.descriptor().version,
            serving: messages::named(&*pair.serving),
            note,
            rollout: &self.deps.rollout,
            machine: self.deps.machine.as_deref(),
        }
    }

    /// Returns the notice about something that an owner can decide, with its buttons.
    fn question(&self, kind: NoticeKind, pair: &RolloutPair, note: &RolloutNote) -> Notice {
        let text = self.describe(pair, note).notice(kind);
        let buttons = offers::buttons(kind, self.deps.machine.as_deref(), note);
        Notice::for_operator(self.deps.redactor.redact(text), buttons)
    }

    /// Posts a notice. Without a channel for notices, the log has its result.
    async fn post(&self, notice: Notice) {
        if let Err(error) = self.deps.outlet.notify(notice).await {
            tracing::warn!(%error, "cannot send the notice about a rollout; the log has its result");
        }
    }

    /// Posts a notice without buttons in a task of its own.
    fn notify(self: &Arc<Self>, text: String) {
        let notice = Notice::for_operator(self.deps.redactor.redact(text), None);
        self.notify_of(notice);
    }

    fn notify_of(self: &Arc<Self>, notice: Notice) {
        let monitor = Arc::clone(self);
        tokio::spawn(async move { monitor.post(notice).await });
    }
}

/// Removes a version that serves no more from `backends.lock.md`, and logs if that fails.
pub(super) async fn remove_from_lock(workspace: &Workspace, digest: &str) {
    if let Err(error) = BackendLock::remove_version(workspace.folder(), digest.to_owned()).await {
        tracing::warn!(digest, error = %with_causes(&error), "backends.lock.md still names a version that was rolled back; remove its section, or `aetheel backend install --locked` installs it again");
    }
}

/// Returns the name and the digest of the component on rollout.
fn component(pair: &RolloutPair) -> (&str, &str) {
    let successor: &dyn Backend = &*pair.successor;
    (&successor.descriptor().name, &successor.generation().digest)
}
