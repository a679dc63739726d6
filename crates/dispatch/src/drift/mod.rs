//! The drift monitor watches for output that a backend does not recognise, and for generations of a
//! backend that misread more than the previous one.
//!
//! It receives each unknown output while the turn runs ([`OnUnknown`](aetheel_turn::OnUnknown)),
//! and the result of each turn. It counts unknown output by kind ([`unknown`]), notifies the
//! operator of each kind once ([`messages`], with a redacted [`sample`]), saves the counts in
//! `state/drift.md`, and rolls back a backend that misreads more since a reload ([`regression`]).
//! `docs/drift.md` describes all of it. Turns never wait for the monitor: it saves and notifies in
//! tasks of its own. Tested by `tests/dispatch/drift.rs` and `tests/gateway/drift.rs`.

mod baseline;
mod messages;
mod regression;
mod sample;
mod unknown;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

use self::messages::{FirstSeen, RollbackResult};
use self::regression::{EndedTurn, GenerationTrials, Regression};
use self::unknown::UnknownOutputs;
use super::deps::DispatcherDeps;
use super::outlet::Notice;
use super::rollout::remove_from_lock;
use aetheel_model::agent::Unrecognised;
use aetheel_model::baseline::UNKNOWN_VERSION;
use aetheel_model::plain::with_causes;
use aetheel_recording::{Ending, Generation};
use aetheel_runtime::figures;
use aetheel_store::workspace::DriftKey;
use aetheel_turn::{TurnResult, UnknownOutput};

/// New kinds of output within this time share one notice.
const NOTICE_DELAY: Duration = Duration::from_millis(800);
/// The maximum number of kinds collected for one notice. Further kinds are only counted.
const NOTICE_KIND_LIMIT: usize = 20;
/// The maximum number of notices in a burst, and the time until one more is allowed. An agent whose
/// output is new every time must not flood a channel.
const NOTICE_LIMIT: NonZeroU32 = NonZeroU32::new(10).expect("not zero");
const NOTICE_INTERVAL: Duration = Duration::from_secs(600);
/// The maximum lengths of the name of a kind, of its position in the output, and of a version, in
/// characters.
const KIND_LIMIT: usize = 120;
const PATH_LIMIT: usize = 80;
const VERSION_LIMIT: usize = 40;

pub(super) struct DriftMonitor {
    deps: Arc<DispatcherDeps>,
    state: Mutex<DriftState>,
    tasks: TaskTracker,
    quota: DefaultDirectRateLimiter,
    /// Held while changes are saved and reported.
    publishing: tokio::sync::Mutex<()>,
}

struct DriftState {
    unknown: UnknownOutputs,
    trials: GenerationTrials,
    /// New kinds for the next notice, and the number of further ones.
    first_seen: Vec<FirstSeen>,
    further: usize,
    /// Whether a task runs that saves and notifies.
    flushing: bool,
}

impl DriftMonitor {
    /// Creates a monitor with the saved counts. `tasks` tracks its tasks.
    pub(super) fn new(parts: Arc<DispatcherDeps>, tasks: TaskTracker) -> Arc<Self> {
        let quota = RateLimiter::direct(
            Quota::with_period(NOTICE_INTERVAL)
                .unwrap_or_else(|| Quota::per_hour(NOTICE_LIMIT))
                .allow_burst(NOTICE_LIMIT),
        );
        let saved = parts.workspace.state.baselines.all().into_iter();
        parts.host.agents.baselines().restore(saved.map(|saved| (saved.0, saved.1)));
        let state = DriftState {
            unknown: UnknownOutputs::new(parts.workspace.state.drift.all()),
            trials: GenerationTrials::default(),
            first_seen: Vec::new(),
            further: 0,
            flushing: false,
        };
        Arc::new(Self {
            deps: parts,
            state: Mutex::new(state),
            tasks,
            quota,
            publishing: Default::default(),
        })
    }

    /// Counts output that a backend does not recognise. Returns at once.
    pub(super) fn on_unknown(self: &Arc<Self>, output: &UnknownOutput<'_>) {
        let UnknownOutput {
            backend,
            generation,
            agent_version,
            link,
            unknown: Unrecognised { difference, what, path, sample },
        } = *output;
        let key = self.key(backend, generation, agent_version, what);
        let generation = generation.to_string();
        figures::unrecognised(backend, &key.agent_version, &generation);
        let mut state = self.state.lock();
        if state.unknown.count(key.clone(), link, self.deps.clock.now()) {
            let path =
                path.as_ref().map(|path| sample::clean_line(path, PATH_LIMIT, &self.deps.redactor));
            let DriftKey { agent_version, what, .. } = &key;
            tracing::warn!(
                backend,
                agent_version,
                generation,
                recording = link,
                what,
                difference = difference.word(),
                path,
                "the agent sent output that its backend does not recognise; see docs/drift.md"
            );
            if state.first_seen.len() < NOTICE_KIND_LIMIT {
                let (sample, recording) =
                    (sample::sample(sample, &self.deps.redactor), link.to_owned());
                state.first_seen.push(FirstSeen { key, generation, path, sample, recording });
            } else {
                state.further += 1;
            }
        }
        if !std::mem::replace(&mut state.flushing, true) {
            self.tasks.spawn(Arc::clone(self).flush());
        }
    }

    /// Evaluates the result of a turn. `is_partial` means that its generation serves only some lanes;
    /// it is then judged by its rollout.
    pub(super) fn on_turn_end(
        self: &Arc<Self>,
        backend: &str,
        result: &TurnResult,
        is_partial: bool,
    ) {
        let TurnResult { generation, agent_version, ending, transcript, link, findings, .. } =
            result;
        let agent_version = agent_version.as_deref();
        let keys: Vec<DriftKey> = transcript
            .unrecognised()
            .keys()
            .map(|what| self.key(backend, generation, agent_version, what))
            .collect();
        self.note_baseline(backend, result);
        let what = match ending {
            // Reported to the operator, because otherwise only the person who asked would see it.
            Ending::Unread(_) if keys.is_empty() => {
                Some("an answer without anything readable".to_owned())
            }
            _ => findings.suspicion.as_ref().map(ToString::to_string),
        };
        if let Some(what) = what {
            let unknown =
                Unrecognised { what, path: None, sample: String::new(), ..Unrecognised::default() };
            self.on_unknown(&UnknownOutput {
                backend,
                generation,
                agent_version,
                link,
                unknown: &unknown,
            });
        }
        if is_partial {
            return;
        }
        let misread = matches!(ending, Ending::Unread(_) | Ending::Backend(_))
            || findings.suspicion.is_some();
        let version = self.version(agent_version);
        let unknown: Vec<String> = keys.into_iter().map(|key| key.what).collect();
        let ended =
            EndedTurn { backend, generation, agent_version: &version, misread, unknown: &unknown };
        let mut state = self.state.lock();
        let DriftState { unknown: seen, trials, .. } = &mut *state;
        let verdict = trials.record_turn(&ended, |generation, what| {
            seen.has(&self.key(backend, generation, agent_version, what))
        });
        if let Some(verdict) = verdict {
            self.tasks.spawn(Arc::clone(self).roll_back(backend.to_owned(), verdict));
        }
    }

    /// Returns a line for owners about the unknown output of an agent of this version under a
    /// generation, or `None` if there was no such output.
    pub(super) fn summary(
        &self,
        backend: &str,
        generation: &Generation,
        agent_version: Option<&str>,
    ) -> Option<String> {
        let (version, component) = (self.version(agent_version), component(generation));
        messages::summary(self.state.lock().unknown.of(backend, &version, &component))
    }

    /// Saves and reports changes every [`NOTICE_DELAY`], until no more arrive.
    async fn flush(self: Arc<Self>) {
        loop {
            tokio::time::sleep(NOTICE_DELAY).await;
            self.publish().await;
            let mut state = self.state.lock();
            if !state.unknown.has_changes() {
                state.flushing = false;
                return;
            }
        }
    }

    /// Saves and reports all pending changes. Waits for another call that already does this.
    pub(super) async fn publish(&self) {
        let _publishing = self.publishing.lock().await;
        let (changes, fresh, further) = {
            let mut state = self.state.lock();
            (
                state.unknown.take_changes(),
                std::mem::take(&mut state.first_seen),
                std::mem::take(&mut state.further),
            )
        };
        if changes.is_empty() {
            return;
        }
        let notify = async {
            if !fresh.is_empty() {
                self.notify(messages::first_seen(&fresh, further)).await;
            }
        };
        // Concurrently, so that neither a slow disk nor a slow network delays the other.
        let file = &self.deps.workspace.state.drift;
        let saved = tokio::join!(file.save_all(changes), notify).0;
        match saved {
            Ok(()) => self.state.lock().unknown.merge_saved(file.all()),
            Err(error) => tracing::error!(
                error = %with_causes(&error),
                "cannot save state/drift.md; after a restart the same output is reported again"
            ),
        }
    }

    async fn roll_back(self: Arc<Self>, backend: String, verdict: Regression) {
        let (generation, measured) =
            (verdict.generation.to_string(), messages::measurement(&verdict));
        let outcome = if self.deps.rollback {
            match self.deps.backends.roll_back(&backend, &verdict.generation).await {
                Ok(serves) => {
                    self.state.lock().trials.exempt_restored(&serves);
                    remove_from_lock(&self.deps.workspace, &verdict.generation.digest).await;
                    RollbackResult::Done(serves.to_string())
                }
                Err(error) => RollbackResult::Failed(error.to_string()),
            }
        } else {
            RollbackResult::Disabled
        };
        match &outcome {
            RollbackResult::Done(serves) => {
                tracing::error!(
                    backend,
                    generation,
                    serves,
                    measured,
                    "a backend read worse than its previous version and was rolled back"
                );
                figures::rolled_back(&backend, "done");
            }
            RollbackResult::Failed(why) => {
                tracing::error!(
                    backend,
                    generation,
                    why,
                    measured,
                    "a backend reads worse than its previous version and could not be rolled back; put the file of the earlier version into BACKENDS_DIR"
                );
                figures::rolled_back(&backend, "failed");
            }
            RollbackResult::Disabled => {
                tracing::error!(
                    backend,
                    generation,
                    measured,
                    "a backend reads worse than its previous version; BACKEND_ROLLBACK is `never`, so it stays; `aetheel backend rollback` rolls it back"
                );
                figures::rolled_back(&backend, "off");
            }
        }
        self.notify(messages::rolled_back(&backend, &verdict, &outcome)).await;
    }

    async fn notify(&self, text: String) {
        if self.quota.check().is_err() {
            tracing::warn!(
                "no notice about drift: too many were sent; `aetheel doctor` shows the counts"
            );
            return;
        }
        if let Err(error) = self.deps.outlet.notify(Notice::for_operator(text, None)).await {
            tracing::warn!(%error, "cannot send the notice about drift; the log and `aetheel doctor` show the drift");
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
            what: sample::clean_line(what, KIND_LIMIT, &self.deps.redactor),
            component: component(generation),
        }
    }

    fn version(&self, agent_version: Option<&str>) -> String {
        agent_version.map_or_else(
            || UNKNOWN_VERSION.to_owned(),
            |version| sample::clean_line(version, VERSION_LIMIT, &self.deps.redactor),
        )
    }
}

fn component(generation: &Generation) -> String {
    generation.digest.get(..12).unwrap_or(&generation.digest).to_owned()
}
