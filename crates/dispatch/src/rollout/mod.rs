//! The rollout monitor lets a new version of a backend read the turns that the serving version
//! served, and decides whether it serves.
//!
//! After a turn, both versions replay its recording and are compared
//! ([`comparison`](aetheel_turn::comparison)). One task does this, one turn after the other, and
//! rests between two turns, so that it uses at most a twentieth of one processor. If too many turns
//! wait, further ones are skipped and counted. The first harmful difference stops a rollout. After
//! enough turns without one, the new version is promoted. Turns never wait for the monitor. Tested
//! by `tests/rollout`.

mod messages;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::deps::DispatcherDeps;
use super::outlet::Notice;
use aetheel_model::config::Rollout;
use aetheel_model::figures::{self, RolloutResult};
use aetheel_model::plain::with_causes;
use aetheel_model::supervisor;
use aetheel_store::workspace::{MAX_NOTED_DIFFERENCES, NotedDifference, RolloutNote, RolloutState};
use aetheel_turn::comparison::{TurnDifference, compare_turn};
use aetheel_turn::{Backend, RolloutPair, TurnResult};

/// Maximum number of turns that wait to be compared.
pub const MAX_WAITING_COMPARISONS: usize = 8;
/// How many times as long as a comparison took the task rests after it: it works at most a
/// twentieth of the time.
const REST_FACTOR: u32 = 19;

/// A turn that waits to be compared.
struct EndedTurnRecording {
    backend: String,
    turn: String,
    /// The id of its link, which names the recording.
    link: String,
    recording: PathBuf,
}

pub(super) struct RolloutMonitor {
    deps: Arc<DispatcherDeps>,
    /// The rollouts, by the name of the component.
    notes: Mutex<BTreeMap<String, RolloutNote>>,
    waiting: mpsc::Sender<EndedTurnRecording>,
}

impl RolloutMonitor {
    /// Creates a monitor with the saved rollouts, and starts its task. Must be called within a
    /// Tokio runtime.
    pub(super) fn new(deps: Arc<DispatcherDeps>) -> Arc<Self> {
        let (waiting, turns) = mpsc::channel(MAX_WAITING_COMPARISONS);
        let saved = deps.workspace.rollout_notes().all();
        let notes = saved.into_iter().map(|note| (note.backend.clone(), note)).collect();
        let monitor = Arc::new(Self { deps, notes: Mutex::new(notes), waiting });
        supervisor::spawn_finite("rollout", compare_all(Arc::downgrade(&monitor), turns));
        monitor
    }

    /// Queues a turn that ended to be compared, if a new version of its backend is on rollout.
    /// Returns at once.
    pub(super) fn on_turn_end(&self, backend: &str, turn: &str, result: &TurnResult) {
        if !matches!(self.deps.rollout, Rollout::Shadow(_)) {
            return;
        }
        let Some(pair) = self.deps.backends.rollout(backend) else { return };
        if self.note_of(&pair).state == RolloutState::Stopped {
            return;
        }
        let ended = EndedTurnRecording {
            backend: backend.to_owned(),
            turn: turn.to_owned(),
            link: result.link.clone(),
            recording: result.recording.clone(),
        };
        if self.waiting.try_send(ended).is_err() {
            self.skip(&pair, turn, "too many turns wait to be compared");
        }
    }

    /// Returns a line for owners about the rollout of a backend's new version, if there is one.
    pub(super) fn summary(&self, backend: &str) -> Option<String> {
        let pair = self.deps.backends.rollout(backend)?;
        let note = self.note_of(&pair);
        Some(messages::summary(&pair.successor.descriptor().version, &note, &self.deps.rollout))
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

    /// Compares a turn. Returns the time that it took.
    async fn compare(&self, ended: EndedTurnRecording) -> Duration {
        let Some(pair) = self.deps.backends.rollout(&ended.backend) else { return Duration::ZERO };
        if self.note_of(&pair).state == RolloutState::Stopped {
            return Duration::ZERO;
        }
        let recorder = self.deps.recorder.clone();
        // An error means that the program ends.
        let _ = tokio::task::spawn_blocking(move || recorder.flush()).await;
        let begun = Instant::now();
        let compared = compare_turn(&pair, &ended.recording, &ended.turn).await;
        let took = begun.elapsed();
        match compared {
            Ok(differences) => self.record(&pair, &ended, differences).await,
            Err(error) => {
                self.skip(&pair, &ended.turn, &with_causes(&error));
                self.save(self.note_of(&pair)).await;
            }
        }
        took
    }

    async fn record(
        &self,
        pair: &RolloutPair,
        ended: &EndedTurnRecording,
        differences: Vec<TurnDifference>,
    ) {
        let noted: Vec<NotedDifference> = differences
            .iter()
            .map(|difference| NotedDifference {
                recording: ended.link.clone(),
                line: difference.line,
                harmful: difference.harmful,
                text: self.deps.redactor.redact(messages::difference(difference)),
            })
            .collect();
        let harmful = noted.iter().any(|difference| difference.harmful);
        let note = self.change(pair, |note| {
            note.compared += 1;
            note.different += u64::from(!noted.is_empty());
            if harmful {
                note.state = RolloutState::Stopped;
                // The differences that stop it must be among the kept ones.
                note.differences.retain(|difference| difference.harmful);
            }
            note.differences.extend(noted.iter().cloned());
            note.differences.sort_by_key(|difference| !difference.harmful);
            note.differences.truncate(MAX_NOTED_DIFFERENCES);
        });
        let backend = note.backend.as_str();
        figures::rollout_turn(
            backend,
            match (harmful, noted.is_empty()) {
                (true, _) => RolloutResult::Harmful,
                (false, false) => RolloutResult::Different,
                (false, true) => RolloutResult::Same,
            },
        );
        for NotedDifference { recording, line, harmful, text } in &noted {
            tracing::info!(
                backend,
                recording,
                line,
                harmful,
                "the new version reads a turn differently: {text}"
            );
        }
        self.save(note.clone()).await;
        let version = &pair.successor.descriptor().version;
        if harmful {
            tracing::error!(
                backend,
                version,
                recording = ended.link,
                "the rollout of a new version was stopped, because it reads a turn worse; hint: `aetheel backend rollout {backend}` shows the differences"
            );
            self.notify(messages::stopped(version, &note));
        } else if let Rollout::Shadow(turns) = self.deps.rollout
            && note.compared >= u64::from(turns.get())
        {
            self.promote(pair, &note).await;
        }
    }

    async fn promote(&self, pair: &RolloutPair, note: &RolloutNote) {
        let (backend, version) = (&note.backend, &pair.successor.descriptor().version);
        match self.deps.backends.promote(backend, &note.digest).await {
            Ok(generation) => {
                let (compared, skipped) = (note.compared, note.skipped);
                tracing::info!(backend, %generation, compared, skipped, "the rollout of a new version has ended: it serves");
                self.notes.lock().remove(backend);
                if let Err(error) =
                    self.deps.workspace.rollout_notes().remove(backend.clone()).await
                {
                    tracing::warn!(backend, error = %with_causes(&error), "cannot remove a rollout from state/rollouts.md");
                }
                self.notify(messages::promoted(version, note));
            }
            Err(error) => {
                tracing::error!(backend, version, %error, "the new version cannot be promoted; this is tried again after the next turn");
            }
        }
    }

    async fn save(&self, note: RolloutNote) {
        if let Err(error) = self.deps.workspace.rollout_notes().save(note).await {
            tracing::error!(
                error = %with_causes(&error),
                "cannot save state/rollouts.md; after a restart the rollout begins again"
            );
        }
    }

    /// Notifies the operator in a task of its own.
    fn notify(&self, text: String) {
        let outlet = Arc::clone(&self.deps.outlet);
        let text = self.deps.redactor.redact(text);
        tokio::spawn(async move {
            if let Err(error) = outlet.notify(Notice::for_operator(text, None)).await {
                tracing::warn!(%error, "cannot send the notice about a rollout; the log has its result");
            }
        });
    }
}

/// Returns the name and the digest of the component on rollout.
fn component(pair: &RolloutPair) -> (&str, &str) {
    let successor: &dyn Backend = &*pair.successor;
    (&successor.descriptor().name, &successor.generation().digest)
}

/// Compares turns one after the other, until the monitor is dropped.
async fn compare_all(monitor: Weak<RolloutMonitor>, mut turns: mpsc::Receiver<EndedTurnRecording>) {
    while let Some(ended) = turns.recv().await {
        let Some(monitor) = monitor.upgrade() else { return };
        let took = monitor.compare(ended).await;
        drop(monitor);
        tokio::time::sleep(took * REST_FACTOR).await;
    }
}
