//! The drift radar: what agents say that their backends do not know, and whether a backend reads
//! worse than the one before.
//!
//! Told of every unknown thing while the turn runs (`turn::OnUnknown`) and of every turn's end, it
//! counts, tells the operator of first sights, keeps the counts in `state/drift.md`, and has a
//! backend rolled back that reads worse since a reload. What it does stands in `docs/drift.md`. It
//! never holds a turn up: writing and telling happen in tasks of their own. Pinned by
//! `tests/dispatch/drift.rs` and `tests/gateway/drift.rs`.

mod sample;
mod sightings;
mod trial;
mod wording;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

use self::sightings::Sightings;
use self::trial::{Ended, Trials, Verdict};
use self::wording::{First, Outcome};
use super::reply::{Notice, Outlet};
use crate::agent::Unrecognised;
use crate::figures;
use crate::redact::Redactor;
use crate::turn::{Backends, Ending, Generation, TurnResult, UnknownOutput};
use crate::workspace::{DriftKey, DriftNotes};

/// First sights within this time are one notice.
const BURST: Duration = Duration::from_millis(800);
/// Kept for one notice; more are counted.
const IN_A_NOTICE: usize = 20;
/// Notices at once, and the time after which there may be one more: an agent that says something
/// else every time must not flood a channel.
const NOTICES: NonZeroU32 = NonZeroU32::new(10).expect("not zero");
const ONE_MORE: Duration = Duration::from_secs(600);
/// Characters of what a kind is called, where it was, and of a version.
const WHAT: usize = 120;
const PATH: usize = 80;
const VERSION: usize = 40;

/// See the module.
pub(super) struct Radar {
    state: Mutex<State>,
    notes: DriftNotes,
    outlet: Arc<dyn Outlet>,
    backends: Arc<dyn Backends>,
    redactor: Redactor,
    /// `BACKEND_ROLLBACK`.
    rollback: bool,
    tasks: TaskTracker,
    quota: DefaultDirectRateLimiter,
}

struct State {
    sightings: Sightings,
    trials: Trials,
    /// Seen for the first time and not told yet, and how many more.
    fresh: Vec<First>,
    further: usize,
    /// Somebody is on the way to write and tell.
    sweeping: bool,
}

impl Radar {
    /// Makes one that knows what was noted before. What it begins is tracked by `tasks`.
    pub(super) fn new(
        notes: DriftNotes,
        outlet: Arc<dyn Outlet>,
        backends: Arc<dyn Backends>,
        redactor: Redactor,
        rollback: bool,
        tasks: TaskTracker,
    ) -> Arc<Self> {
        let quota = RateLimiter::direct(
            Quota::with_period(ONE_MORE)
                .unwrap_or_else(|| Quota::per_hour(NOTICES))
                .allow_burst(NOTICES),
        );
        let sightings = Sightings::new(notes.known());
        let state = State {
            sightings,
            trials: Trials::default(),
            fresh: Vec::new(),
            further: 0,
            sweeping: false,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            notes,
            outlet,
            backends,
            redactor,
            rollback,
            tasks,
            quota,
        })
    }

    /// An agent said something unknown. Returns at once.
    pub(super) fn saw(self: &Arc<Self>, sighting: &UnknownOutput<'_>) {
        let UnknownOutput {
            backend,
            generation,
            agent_version,
            link,
            unknown: Unrecognised { what, path, sample },
        } = *sighting;
        let key = self.key(backend, generation, agent_version, what);
        let generation = generation.to_string();
        figures::unrecognised(backend, &key.agent_version, &generation);
        let mut state = self.state.lock();
        if state.sightings.note(key.clone(), link, jiff::Timestamp::now()) {
            let path = path.as_ref().map(|path| sample::words(path, PATH, &self.redactor));
            let DriftKey { agent_version, what, .. } = &key;
            tracing::warn!(
                backend,
                agent_version,
                generation,
                recording = link,
                what,
                path,
                "the agent says something its backend does not know; docs/drift.md says what to do"
            );
            if state.fresh.len() < IN_A_NOTICE {
                let (sample, recording) = (sample::sample(sample, &self.redactor), link.to_owned());
                state.fresh.push(First { key, generation, path, sample, recording });
            } else {
                state.further += 1;
            }
        }
        if !std::mem::replace(&mut state.sweeping, true) {
            self.tasks.spawn(Arc::clone(self).sweep());
        }
    }

    /// A turn has ended.
    pub(super) fn ended(self: &Arc<Self>, backend: &str, result: &TurnResult) {
        let TurnResult { generation, agent_version, ending, transcript, link, .. } = result;
        let agent_version = agent_version.as_deref();
        let keys: Vec<DriftKey> = transcript
            .unrecognised()
            .keys()
            .map(|what| self.key(backend, generation, agent_version, what))
            .collect();
        if let (Ending::Unread(_), true) = (ending, keys.is_empty()) {
            // Otherwise nobody would hear of it but who asked.
            let unknown = Unrecognised {
                what: "an answer without anything readable".to_owned(),
                path: None,
                sample: String::new(),
            };
            self.saw(&UnknownOutput {
                backend,
                generation,
                agent_version,
                link,
                unknown: &unknown,
            });
        }
        let misread = matches!(ending, Ending::Unread(_) | Ending::Backend(_));
        let version = self.version(agent_version);
        let unknown: Vec<String> = keys.into_iter().map(|key| key.what).collect();
        let ended =
            Ended { backend, generation, agent_version: &version, misread, unknown: &unknown };
        let mut state = self.state.lock();
        let State { sightings, trials, .. } = &mut *state;
        let verdict = trials.ended(&ended, |generation, what| {
            sightings.has(&self.key(backend, generation, agent_version, what))
        });
        if let Some(verdict) = verdict {
            self.tasks.spawn(Arc::clone(self).roll_back(backend.to_owned(), verdict));
        }
    }

    /// What a generation met with an agent of this version, in a line for owners; none: nothing.
    pub(super) fn summary(
        &self,
        backend: &str,
        generation: &Generation,
        agent_version: Option<&str>,
    ) -> Option<String> {
        let (version, component) = (self.version(agent_version), component(generation));
        wording::summary(self.state.lock().sightings.of(backend, &version, &component))
    }

    /// Writes down and tells what came together, until nothing more comes.
    async fn sweep(self: Arc<Self>) {
        loop {
            tokio::time::sleep(BURST).await;
            let (changes, fresh, further) = {
                let mut state = self.state.lock();
                (
                    state.sightings.take_changes(),
                    std::mem::take(&mut state.fresh),
                    std::mem::take(&mut state.further),
                )
            };
            let tell = async {
                if !fresh.is_empty() {
                    self.tell(wording::first_sights(&fresh, further)).await;
                }
            };
            // Neither waits for a slow disk or a slow network of the other.
            let saved = tokio::join!(self.notes.save(changes), tell).0;
            let mut state = self.state.lock();
            match saved {
                Ok(written) => state.sightings.adopt(written),
                Err(error) => {
                    tracing::error!(%error, "drift is not written down; after a restart it is told of again")
                }
            }
            if !state.sightings.has_changes() {
                state.sweeping = false;
                return;
            }
        }
    }

    async fn roll_back(self: Arc<Self>, backend: String, verdict: Verdict) {
        let (generation, measured) = (verdict.generation.to_string(), wording::measured(&verdict));
        let outcome = if self.rollback {
            match self.backends.roll_back(&backend, &verdict.generation).await {
                Ok(serves) => {
                    self.state.lock().trials.restored(&serves);
                    Outcome::Done(serves.to_string())
                }
                Err(why) => Outcome::Failed(why),
            }
        } else {
            Outcome::Off
        };
        match &outcome {
            Outcome::Done(serves) => {
                tracing::error!(
                    backend,
                    generation,
                    serves,
                    measured,
                    "a backend read worse than the one before and was rolled back"
                );
                figures::rolled_back(&backend, "done");
            }
            Outcome::Failed(why) => {
                tracing::error!(
                    backend,
                    generation,
                    why,
                    measured,
                    "a backend reads worse than the one before and could not be rolled back; put the earlier component into BACKENDS_DIR"
                );
                figures::rolled_back(&backend, "failed");
            }
            Outcome::Off => {
                tracing::error!(
                    backend,
                    generation,
                    measured,
                    "a backend reads worse than the one before; BACKEND_ROLLBACK is `never`, so it stays: `aetheel backend rollback` takes it back"
                );
                figures::rolled_back(&backend, "off");
            }
        }
        self.tell(wording::rolled_back(&backend, &verdict, &outcome)).await;
    }

    async fn tell(&self, text: String) {
        if self.quota.check().is_err() {
            tracing::warn!(
                "drift is not told in Discord: there were too many notices about it; `aetheel doctor` has the counts"
            );
            return;
        }
        let notice = Notice { channel: None, about: None, text, offer: None };
        if let Err(error) = self.outlet.notify(notice).await {
            tracing::warn!(%error, "nobody could be told of drift; the log and `aetheel doctor` have it");
        }
    }

    fn key(
        &self,
        backend: &str,
        generation: &Generation,
        agent_version: Option<&str>,
        what: &str,
    ) -> DriftKey {
        DriftKey {
            backend: backend.to_owned(),
            agent_version: self.version(agent_version),
            what: sample::words(what, WHAT, &self.redactor),
            component: component(generation),
        }
    }

    fn version(&self, agent_version: Option<&str>) -> String {
        agent_version.map_or_else(
            || "unknown".to_owned(),
            |version| sample::words(version, VERSION, &self.redactor),
        )
    }
}

fn component(generation: &Generation) -> String {
    generation.digest.get(..12).unwrap_or(&generation.digest).to_owned()
}
