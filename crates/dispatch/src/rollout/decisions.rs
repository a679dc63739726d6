//! The decisions of owners about new versions, and rollouts that begin and end.

use std::sync::Arc;
use std::time::Duration;

use super::messages::DescribedRollout;
use super::offers::{NoticeKind, RolloutDecision, RolloutOffer};
use super::{EndedTurnRecording, component};
use crate::Shared;
use crate::questions::Person;
use crate::recovery::offer::{OfferEffect, OfferRefusal};
use aetheel_recording::RolloutPair;
use aetheel_store::workspace::{LostTurn, NotedDifference, RolloutEnd, RolloutNote, RolloutState};
use aetheel_turn::VersionError;

/// The longest time to wait for the result of a button press. Discord requires a response within
/// three seconds.
const PRESS_TIMEOUT: Duration = Duration::from_millis(1_800);

/// The rollout of a new version, as owners see it.
#[derive(Clone, Debug)]
pub struct RolloutView {
    /// The name of the component.
    pub backend: String,
    /// SHA-256 of the new version, lower-case hex.
    pub digest: String,
    /// The number of turns that were compared.
    pub compared: u64,
    /// The number of turns that were not compared.
    pub skipped: u64,
    /// The first differences.
    pub differences: Vec<NotedDifference>,
}

/// Shows and ends rollouts of new versions of backends. Cheap to clone.
#[derive(Clone)]
pub struct Rollouts {
    pub(super) shared: Arc<Shared>,
}

impl Rollouts {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Returns the rollout of a backend's new version, if there is one.
    #[must_use]
    pub fn of(&self, backend: &str) -> Option<RolloutView> {
        let monitor = &self.shared.rollout;
        let pair = self.shared.deps.backends.rollout(backend)?;
        let RolloutNote { backend, digest, compared, skipped, differences, .. } =
            monitor.note_of(&pair);
        Some(RolloutView { backend, digest, compared, skipped, differences })
    }

    /// Promotes or withdraws the new version with this digest. Returns its version.
    ///
    /// # Errors
    /// [`VersionError`] if it is not on rollout any more, or the decision cannot be carried out.
    /// Nothing was changed then.
    pub async fn decide(
        &self,
        backend: &str,
        digest: &str,
        decision: RolloutDecision,
    ) -> Result<String, VersionError> {
        let (backends, monitor) = (&self.shared.deps.backends, &self.shared.rollout);
        let _alone = monitor.deciding.lock().await;
        let pair = backends.rollout(backend).filter(|pair| component(pair).1 == digest);
        let pair = pair.ok_or_else(|| VersionError::NoSuchVersion(backend.to_owned()))?;
        let end = match decision {
            RolloutDecision::Promote => {
                drop(backends.promote(backend, digest).await?);
                RolloutEnd::Promoted
            }
            RolloutDecision::Withdraw => {
                drop(backends.withdraw(backend, digest).await?);
                RolloutEnd::Withdrawn
            }
        };
        monitor.forget(component(&pair).0, end).await;
        Ok(pair.successor.descriptor().version.clone())
    }

    /// Handles a press of a button below a notice about a rollout. Returns `None` for any other
    /// button, and for a button of another machine.
    pub async fn press(
        &self,
        id: &str,
        person: &Person,
    ) -> Option<Result<OfferEffect, OfferRefusal>> {
        let offer = RolloutOffer::parse(id)?;
        let (backend, decision) = (offer.backend, offer.decision);
        let pair = self.shared.deps.backends.rollout(backend)?;
        let digest = component(&pair).1.to_owned();
        if !offer.is_about(self.shared.deps.machine.as_deref(), &digest) {
            return None;
        }
        if !matches!(person, Person::User { owner: true, .. }) {
            tracing::warn!(
                backend,
                ?person,
                decision = decision.word(),
                "refused a decision about a new version: not an owner"
            );
            return Some(Err(OfferRefusal::NotOwner));
        }
        let (this, name) = (self.clone(), backend.to_owned());
        // Continues after Discord's time limit.
        let deciding = tokio::spawn(async move { this.decide(&name, &digest, decision).await });
        Some(match tokio::time::timeout(PRESS_TIMEOUT, deciding).await {
            Ok(Ok(Ok(version))) => {
                tracing::warn!(
                    backend,
                    version,
                    ?person,
                    decision = decision.word(),
                    "an owner decided about a new version with a button"
                );
                Ok(OfferEffect::Decided(match decision {
                    RolloutDecision::Promote => "✅ Promoted by",
                    RolloutDecision::Withdraw => "🗑️ Withdrawn by",
                }))
            }
            Ok(Ok(Err(VersionError::NoSuchVersion(_)))) => Err(OfferRefusal::Gone),
            Ok(Ok(Err(error))) => {
                tracing::error!(backend, %error, decision = decision.word(), "an owner's decision about a new version cannot be carried out");
                Err(OfferRefusal::NotPossible)
            }
            Ok(Err(_)) => Err(OfferRefusal::NotPossible),
            Err(_) => Err(OfferRefusal::Working),
        })
    }

    /// Reports the rollouts that began or ended since the last call. Called after every change of
    /// the loaded components. After a restart, the first call completes what the previous process
    /// began.
    pub async fn follow(&self) {
        let alone = self.shared.rollout.deciding.lock().await;
        let notes: Vec<RolloutNote> = self.shared.rollout.notes.lock().values().cloned().collect();
        for note in notes {
            let pair = self.shared.deps.backends.rollout(&note.backend);
            if pair.is_none_or(|pair| component(&pair).1 != note.digest) {
                self.report_end(&note).await;
            }
        }
        let mut stopped = Vec::new();
        for name in self.shared.deps.backends.names() {
            let Some(pair) = self.shared.deps.backends.rollout(&name) else { continue };
            let (backend, digest) = component(&pair);
            let is_known = self.shared.rollout.notes.lock().contains_key(backend);
            if !self.shared.rollout.logged.lock().insert(digest.to_owned()) {
                continue;
            }
            let note = self.shared.rollout.note_of(&pair);
            if !is_known {
                self.begin(&pair, note);
            } else if self.resume(&name, &pair, &note).await {
                stopped.push((pair, note));
            }
        }
        drop(alone);
        for (pair, note) in stopped {
            self.end_harmful(&pair, &note).await;
        }
    }

    /// Notifies the operator of a rollout that begins. It is saved after that: after a crash in
    /// between, the notice is posted again, and Discord shows a repeated notice once.
    fn begin(&self, pair: &RolloutPair, note: RolloutNote) {
        let monitor = Arc::clone(&self.shared.rollout);
        monitor.notes.lock().insert(note.backend.clone(), note.clone());
        let before = {
            let mut begun = monitor.begun.lock();
            let count = begun.entry(note.digest.clone()).or_insert(0);
            std::mem::replace(count, count.wrapping_add(1))
        };
        let notice = monitor.question(NoticeKind::Began(before), pair, &note);
        let pair = pair.clone();
        tokio::spawn(async move {
            monitor.post(notice).await;
            monitor.save(&pair).await;
        });
    }

    /// Continues a rollout of the previous process. Returns whether a harmful difference was found,
    /// but the version still waits to be withdrawn.
    async fn resume(&self, name: &str, pair: &RolloutPair, note: &RolloutNote) -> bool {
        let RolloutNote { backend, compared, served, state, .. } = note;
        let version = &pair.successor.descriptor().version;
        tracing::info!(
            backend,
            version,
            compared,
            served,
            state = state.word(),
            "the rollout of a new version continues; hint: `aetheel backend rollout {backend}` shows its state"
        );
        if !self.shared.deps.rollout.serves_in_part() {
            return false;
        }
        if *state == RolloutState::Stopped {
            return true;
        }
        // The previous process may have ended before it judged these turns.
        let digests = self.generations(note);
        let is_open = |turn: &LostTurn| {
            turn.backend == name && turn.state.is_open() && digests.contains(&turn.digest)
        };
        let lost = self.shared.lost_replies.notes().all().await;
        for turn in lost.into_iter().filter(is_open) {
            let recording = self.shared.deps.recorder.folder().join(&turn.recording);
            let ended = EndedTurnRecording {
                backend: name.to_owned(),
                link: recording.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
                turn: turn.turn,
                recording,
                served: true,
                failure: None,
                again: true,
            };
            let _ = self.shared.rollout.served.send(ended); // fails only while the program ends
        }
        false
    }

    /// Reports a rollout that another program or a change of the file ended, or that this program
    /// ended just before a crash.
    async fn report_end(&self, note: &RolloutNote) {
        let (backends, monitor) = (&self.shared.deps.backends, &self.shared.rollout);
        let (backend, digest) = (&note.backend, &note.digest);
        let serves = backends.component_digest(backend).as_ref() == Some(digest);
        tracing::info!(
            backend,
            component = digest,
            serves,
            "the rollout of a new version has ended"
        );
        if note.state == RolloutState::Stopped && !serves {
            self.deliver_lost_of(std::slice::from_ref(digest)).await;
        }
        let now = backends.names().into_iter().find_map(|name| {
            backends
                .get(&name)
                .filter(|_| backends.component_digest(&name).as_ref() == Some(digest))
        });
        if let Some(now) = now.filter(|_| serves) {
            let text = DescribedRollout {
                version: &now.descriptor().version,
                serving: String::new(),
                note,
                rollout: &self.shared.deps.rollout,
                machine: self.shared.deps.machine.as_deref(),
            };
            monitor.notify(text.promoted());
        }
        let end = if serves { RolloutEnd::Promoted } else { RolloutEnd::Withdrawn };
        monitor.forget(backend, end).await;
    }
}
