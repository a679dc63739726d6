//! Restores links that outlived the gateway from their recordings, or ends them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::key::LinkKey;
use super::{ContinuedTurn, Links, TurnSlot};
use crate::link::{
    FailedRebuild, FormerLink, Keepsake, Link, LinkRequest, LinkSession, RebuiltTurn, ResumedLink,
    remove_folder,
};
use crate::tools::{ToolRates, WINDOW};
use crate::{Backends, Survivor};
use aetheel_model::agent::descriptor::LinkSharing;
use aetheel_model::agent::{SessionKey, TurnRef};
use aetheel_model::event::Lane;
use aetheel_model::plain::with_causes;
use aetheel_recording::comparison::RebuildError;
use aetheel_recording::{
    Backend, Header, RecordedHandOff, Recorder, Recording, RecordingTail, ResumeError, TailError,
};

/// Number of gateway processes that may try to continue a link without any progress. After that,
/// the link is suspected of crashing them.
const MAX_REVIVE_ATTEMPTS: u32 = 10;

/// The reason why a link that outlived the gateway is ended.
#[derive(Debug, thiserror::Error)]
enum ReviveError {
    #[error("{0} gateway processes tried to continue it and made no progress")]
    TooManyAttempts(u32),
    #[error("its saved state cannot be read")]
    Keepsake(#[from] serde_json::Error),
    #[error(transparent)]
    Recording(#[from] ResumeError),
    #[error(transparent)]
    Tail(#[from] TailError),
    #[error("its backend `{0}` is no longer installed")]
    NoBackend(String),
    #[error(transparent)]
    Rebuild(#[from] RebuildError),
    #[error("reading its recording was interrupted")]
    BrokeOff,
}

impl Links {
    /// Restores the links that outlived the gateway, and the counts of calls of the host's tools. A
    /// link that cannot be restored is ended, and the log contains the reason. Returns the recent
    /// hand-offs.
    pub async fn revive(&self, backends: &Arc<dyn Backends>) -> Vec<RecordedHandOff> {
        let (recorder, rates) = (self.0.recorder.clone(), self.0.tool_rates.clone());
        let per_hour = self.0.host.tool_limits.per_hour;
        let hand_offs = count_recorded_calls(recorder, rates, per_hour).await;
        let survivors = self.0.launcher.survivors().await;
        let revived = survivors.into_iter().map(|survivor| {
            let (links, backends) = (self.clone(), Arc::clone(backends));
            // In parallel, because each has to read and replay a recording.
            tokio::spawn(async move { links.revive_or_end(&*backends, &survivor).await })
        });
        for revived in revived.collect::<Vec<_>>() {
            if let Err(broken) = revived.await {
                tracing::error!(%broken, "restoring a link failed unexpectedly; this is a bug of aetheel");
            }
        }
        self.0.tool_endpoints.set_restoring(false);
        self.retire_idle();
        hand_offs
    }

    async fn revive_or_end(&self, backends: &dyn Backends, survivor: &Survivor) {
        let Err(error) = self.revive_one(backends, survivor).await else { return };
        let why = with_causes(&error);
        tracing::warn!(
            link = survivor.run,
            why,
            "an agent outlived the gateway, but its link cannot continue; it is ended, and its turns are recovered as after a crash of the machine"
        );
        self.0.launcher.end(&survivor.run);
        if let Ok(Keepsake { folder: Some(folder), .. }) = Keepsake::read(&survivor.keepsake) {
            remove_folder(folder);
        }
    }

    async fn revive_one(
        &self,
        backends: &dyn Backends,
        survivor: &Survivor,
    ) -> Result<(), ReviveError> {
        if survivor.attach_count > MAX_REVIVE_ATTEMPTS {
            return Err(ReviveError::TooManyAttempts(survivor.attach_count));
        }
        let keepsake = Keepsake::read(&survivor.keepsake)?;
        let FormerRecording { mut recording, header, text, positions } =
            resume(self.0.recorder.clone(), keepsake.recording.clone()).await?;
        let name = &header.backend;
        let mut failure = ReviveError::NoBackend(name.clone());
        for position in positions {
            let tail = match parse(&text, position).await {
                Ok(tail) => tail,
                Err(error) => {
                    let why = with_causes(&error);
                    let link = &survivor.run;
                    tracing::warn!(
                        link,
                        why,
                        "a part of a recording cannot be used; a longer part is tried"
                    );
                    failure = error;
                    continue;
                }
            };
            for backend in candidates(backends, name, tail.digest(&header)).await {
                let parts = self.parts(&survivor.run, &backend, keepsake.cwd.clone());
                let keepsake = keepsake.clone();
                let former = FormerLink { tail: &tail, survivor, keepsake };
                match Link::resume(parts, recording, former).await {
                    Ok(resumed) => {
                        keep_resumed(self, resumed, &tail, &backend, &survivor.run);
                        return Ok(());
                    }
                    Err(failed) => {
                        let FailedRebuild { error, recording: unchanged } = *failed;
                        if !error.allows_another_attempt() {
                            return Err(error.into());
                        }
                        let (link, why) = (&survivor.run, with_causes(&error));
                        let (checkpoint, generation) =
                            (tail.checkpoint.is_some(), backend.generation());
                        tracing::info!(link, checkpoint, %generation, why, "an attempt to rebuild a link failed");
                        (recording, failure) = (unchanged, error.into());
                    }
                }
            }
        }
        Err(failure)
    }

    /// Keeps a long-lived link with its sessions and returns its key. If another link already has
    /// this key, the restored one closes after its turns.
    fn keep_revived(
        &self,
        backend: &Arc<dyn Backend>,
        link: &Link,
        sessions: Vec<(SessionKey, LinkSession)>,
    ) -> Option<LinkKey> {
        let descriptor = backend.descriptor();
        let key = match (descriptor.sharing, sessions.last()) {
            (LinkSharing::Turn, _) => return None,
            (LinkSharing::Session, Some((_, session))) => LinkKey::single(backend, &session.lane),
            (LinkSharing::Link, Some((_, session))) => LinkKey::shared(backend, &session.cwd),
            (_, None) => {
                link.send(LinkRequest::Retire);
                return None;
            }
        };
        self.0.kept.keep_restored(&key, link, sessions);
        Some(key)
    }
}

/// Counts the calls that the recordings of the last hour contain. Returns the hand-offs among
/// them. Calls that were refused count too, up to the limit.
async fn count_recorded_calls(
    recorder: Recorder,
    rates: ToolRates,
    per_hour: u32,
) -> Vec<RecordedHandOff> {
    let (now, instant) = (Timestamp::now(), Instant::now());
    let count = move |lane: &Lane, at: Timestamp| {
        let age = Duration::try_from(now.duration_since(at)).unwrap_or_default();
        if let Some(at) = instant.checked_sub(age) {
            rates.count(lane, per_hour, at);
        }
    };
    let since = now.checked_sub(WINDOW).unwrap_or(Timestamp::MIN);
    let read = tokio::task::spawn_blocking(move || recorder.recent_calls(since, count)).await;
    let read = read.map_err(std::io::Error::other).and_then(|read| read);
    read.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot count the calls of host tools before the restart; hint: check RECORDINGS_DIR");
        Vec::new()
    })
}

/// Keeps a rebuilt link and its turns, and drives it.
fn keep_resumed(
    links: &Links,
    resumed: ResumedLink<impl Future<Output = ()> + Send + 'static>,
    tail: &RecordingTail,
    backend: &Arc<dyn Backend>,
    link: &str,
) {
    let ResumedLink { link: resumed, rebuilt, run } = resumed;
    let name = &backend.descriptor().name;
    links.0.turns.fetch_max(rebuilt.last_turn.saturating_add(1), Ordering::Relaxed);
    let key = links.keep_revived(backend, &resumed, rebuilt.sessions);
    links.0.open.add(name, &resumed);
    links.0.tasks.spawn(run);
    let turns = rebuilt.turns.len();
    let (checkpoint, inputs) = (tail.checkpoint.is_some(), rebuilt.replayed);
    tracing::info!(link, turns, backend = name, generation = %backend.generation(), checkpoint, inputs, "a link outlived the gateway and continues");
    // Each turn is kept until its event is recovered.
    for turn in rebuilt.turns {
        let RebuiltTurn { id, event, lane, start, reports, asks } = turn;
        let slot = TurnSlot {
            links: links.clone(),
            link: resumed.clone(),
            turn: TurnRef { session: start.session, turn: start.turn },
            reports,
            lane: lane.clone(),
            key: key.clone(),
            ending: "abandoned".to_owned(),
        };
        let continued = ContinuedTurn { id, backend: Arc::clone(backend), start, asks, slot };
        links.0.continued.insert(event, lane, continued);
    }
}

/// A recording of an earlier gateway process.
struct FormerRecording {
    recording: Recording,
    header: Header,
    text: Arc<str>,
    /// The parts from which the link may be rebuilt.
    positions: Vec<usize>,
}

/// Continues the recording of a link.
async fn resume(recorder: Recorder, path: PathBuf) -> Result<FormerRecording, ReviveError> {
    let read = move || {
        let (recording, header, text) = recorder.resume(&path)?;
        let positions = RecordingTail::positions(&text);
        Ok::<_, ResumeError>(FormerRecording { recording, header, text: text.into(), positions })
    };
    let read = tokio::task::spawn_blocking(read).await;
    Ok(read.map_err(|_| ReviveError::BrokeOff)??)
}

/// Parses a part of a recording.
async fn parse(text: &Arc<str>, position: usize) -> Result<RecordingTail, ReviveError> {
    let text = Arc::clone(text);
    let parsed = tokio::task::spawn_blocking(move || RecordingTail::parse(&text, position)).await;
    Ok(parsed.map_err(|_| ReviveError::BrokeOff)??)
}

/// Returns the generations of a backend that may read a recording: that of the component which read
/// it before, and the one that serves, which is used if it returns the recorded actions.
async fn candidates(backends: &dyn Backends, name: &str, digest: &str) -> Vec<Arc<dyn Backend>> {
    let former = backends.by_digest(name, digest).await;
    let known = former.as_ref().map(|former| former.generation().clone());
    let serving = backends.get(name).filter(|serving| Some(serving.generation()) != known.as_ref());
    former.into_iter().chain(serving).collect()
}
