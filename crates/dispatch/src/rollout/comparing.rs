//! Compares how both versions read a turn that has ended, and draws the consequences.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::decisions::Rollouts;
use super::messages;
use super::offers::NoticeKind;
use super::{EndedTurnRecording, WaitingTurns, component};
use crate::Shared;
use crate::recovery::redeliver::Redelivery;
use aetheel_model::plain::{short_line, with_causes};
use aetheel_model::rollout::Rollout;
use aetheel_recording::RolloutPair;
use aetheel_recording::comparison::{CompareError, TurnDifference, compare_turn};
use aetheel_runtime::figures::{self, RolloutResult};
use aetheel_store::workspace::{
    MAX_NOTED_DIFFERENCES, NotedDifference, RolloutEnd, RolloutNote, RolloutState,
};

/// How many times as long as a comparison took the task rests after it: it works at most a
/// twentieth of the time.
const REST_FACTOR: u32 = 19;
/// Maximum length of the failure of a guest in a difference, in characters.
const MAX_FAILURE_CHARS: usize = 160;

impl Rollouts {
    /// Compares turns one after the other, until the dispatcher is dropped. Turns that a new version
    /// served come first, and are not followed by a rest.
    pub(crate) async fn compare_all(shared: Weak<Shared>, mut turns: WaitingTurns) {
        let mut rest = Instant::now();
        loop {
            let beside = async {
                sleep_until(rest).await;
                turns.beside.recv().await
            };
            let next = tokio::select! {
                biased;
                ended = turns.served.recv() => ended,
                ended = beside => ended,
            };
            let (Some(ended), Some(shared)) = (next, shared.upgrade()) else { return };
            let served = ended.served;
            let took = Self::new(shared).compare(ended).await;
            if !served {
                rest = Instant::now() + took * REST_FACTOR;
            }
        }
    }

    /// Compares a turn. Returns the time that it took.
    async fn compare(&self, ended: EndedTurnRecording) -> Duration {
        let (shared, monitor) = (&self.shared, &self.shared.rollout);
        let Some(pair) = shared.deps.backends.rollout(&ended.backend) else {
            return Duration::ZERO;
        };
        if monitor.note_of(&pair).state == RolloutState::Stopped {
            return Duration::ZERO;
        }
        let recorder = shared.deps.recorder.clone();
        // An error means that the program ends.
        let _ = tokio::task::spawn_blocking(move || recorder.flush()).await;
        let begun = Instant::now();
        let compared = compare_turn(&pair, &ended.recording, &ended.turn).await;
        let took = begun.elapsed();
        // The rollout may have ended in the meantime. Its note is in the history then.
        let is_same = |now: RolloutPair| component(&now) == component(&pair);
        if !shared.deps.backends.rollout(&ended.backend).is_some_and(is_same) {
            return took;
        }
        match judged(compared, ended.failure.as_deref()) {
            Ok(differences) => self.record(&pair, &ended, differences).await,
            Err(error) => {
                monitor.skip(&pair, &ended.turn, &with_causes(&error));
                monitor.save(&pair).await;
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
        let monitor = &self.shared.rollout;
        let noted: Vec<NotedDifference> = differences
            .iter()
            .map(|difference| NotedDifference {
                turn: ended.turn.clone(),
                recording: ended.link.clone(),
                line: difference.line,
                harmful: difference.harmful,
                text: self.shared.deps.redactor.redact(messages::difference(difference)),
            })
            .collect();
        let harmful = noted.iter().any(|difference| difference.harmful);
        if ended.again && !harmful {
            return;
        }
        let note = monitor.change(pair, |note| {
            note.compared += 1;
            note.served += u64::from(ended.served);
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
        for NotedDifference { recording, line, harmful, text, .. } in &noted {
            tracing::info!(
                backend,
                recording,
                line,
                harmful,
                "the new version reads a turn differently: {text}"
            );
        }
        monitor.save(pair).await;
        if harmful {
            let version = &pair.successor.descriptor().version;
            tracing::error!(
                backend,
                version,
                recording = ended.link,
                "the rollout of a new version was stopped, because it reads a turn worse; hint: `aetheel backend rollout {backend}` shows the differences"
            );
            self.end_harmful(pair, &note).await;
        } else if self.is_proven(&note) {
            self.promote_proven(pair, &note).await;
        }
    }

    /// Returns whether a version has read or served enough turns to be promoted.
    fn is_proven(&self, note: &RolloutNote) -> bool {
        match self.shared.deps.rollout {
            Rollout::Shadow(turns) => note.compared >= u64::from(turns.get()),
            Rollout::Canary { turns, .. } => note.served >= u64::from(turns.get()),
            Rollout::Now | Rollout::Channels(_) => false,
        }
    }

    /// Draws the consequence of a harmful difference. A version that serves nobody waits for the
    /// operator. Otherwise it is withdrawn, and the serving version reads the replies that it lost.
    pub(super) async fn end_harmful(&self, pair: &RolloutPair, note: &RolloutNote) {
        let monitor = &self.shared.rollout;
        if !self.shared.deps.rollout.serves_in_part() {
            monitor.notify_of(monitor.question(NoticeKind::Stopped, pair, note));
            return;
        }
        let _alone = monitor.deciding.lock().await;
        let digests = self.generations(note);
        match self.shared.deps.backends.withdraw(&note.backend, &note.digest).await {
            Ok(_) => {
                self.deliver_lost_of(&digests).await;
                monitor.forget(&note.backend, RolloutEnd::Withdrawn).await;
                monitor.notify(monitor.describe(pair, note).withdrawn());
            }
            Err(error) => {
                tracing::error!(backend = note.backend, %error, "the new version serves nobody any more, but cannot be withdrawn");
                self.deliver_lost_of(&digests).await;
                monitor.notify_of(monitor.question(NoticeKind::Stopped, pair, note));
            }
        }
    }

    /// Returns the digests of the generations that a component on rollout has.
    pub(super) fn generations(&self, note: &RolloutNote) -> Vec<String> {
        let backends = &self.shared.deps.backends;
        let has_it = |name: &String| {
            backends
                .rollout(name)
                .is_some_and(|pair| pair.successor.generation().digest == note.digest)
        };
        let names = backends.names().into_iter().filter(has_it);
        let built = names.filter_map(|name| backends.successor(&name));
        built
            .map(|backend| backend.generation().digest.clone())
            .chain([note.digest.clone()])
            .collect()
    }

    /// Delivers the replies that these generations lost, if the serving version can read them.
    pub(super) async fn deliver_lost_of(&self, digests: &[String]) {
        let redelivery = Redelivery::new(Arc::clone(&self.shared));
        let lost = self.shared.lost_replies.notes().all().await;
        let turns =
            lost.into_iter().filter(|turn| turn.state.is_open() && digests.contains(&turn.digest));
        let turns: Vec<String> = turns.map(|turn| turn.turn).collect();
        redelivery.deliver_all(&turns).await;
    }

    async fn promote_proven(&self, pair: &RolloutPair, note: &RolloutNote) {
        let (backend, version) = (&note.backend, &pair.successor.descriptor().version);
        let monitor = &self.shared.rollout;
        let _alone = monitor.deciding.lock().await;
        match self.shared.deps.backends.promote(backend, &note.digest).await {
            Ok(generation) => {
                let (compared, skipped) = (note.compared, note.skipped);
                tracing::info!(backend, %generation, compared, skipped, "the rollout of a new version has ended: it serves");
                monitor.forget(backend, RolloutEnd::Promoted).await;
                monitor.notify(monitor.describe(pair, note).promoted());
            }
            Err(error) => {
                tracing::error!(backend, version, %error, "the new version cannot be promoted; this is tried again after the next turn");
                if monitor.waits.lock().insert(note.digest.clone()) {
                    monitor.notify_of(monitor.question(NoticeKind::Waits, pair, note));
                }
            }
        }
    }
}

/// Adds the failure of a guest to the differences of its turn, unless the serving version fails as
/// well.
fn judged(
    compared: Result<Vec<TurnDifference>, CompareError>,
    failure: Option<&str>,
) -> Result<Vec<TurnDifference>, CompareError> {
    let Some(failure) = failure else { return compared };
    let failed = || TurnDifference {
        line: 1,
        what: "failure",
        before: None,
        now: Some(short_line(failure, MAX_FAILURE_CHARS)),
        harmful: true,
    };
    match compared {
        Ok(mut differences) => {
            if !differences.iter().any(|difference| difference.harmful) {
                differences.push(failed());
            }
            Ok(differences)
        }
        Err(CompareError::Serving(failure)) => Err(CompareError::Serving(failure)),
        Err(_) => Ok(vec![failed()]),
    }
}
