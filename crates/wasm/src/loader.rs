//! The task that loads components, one at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{broadcast, oneshot};
use tokio::time::Instant;

use super::admitter::Admitter;
use super::candidates::Candidates;
use super::component::ComponentBackend;
use super::engine::Engine;
use super::error::AdmissionError;
use super::keeper::ComponentKeeper;
use super::live_versions::LiveLoader;
use super::load_order;
use super::options::RegistryOptions;
use super::report::LoadReport;
use super::requested::RequestedCapabilities;
use super::source;
use super::watch::FolderWatch;
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::plain::with_causes;
use aetheel_model::rollout::Rollout;
use aetheel_recording::Generation;
use aetheel_runtime::figures;
use aetheel_store::disk::Stamp;
use aetheel_store::workspace::LiveFolder;
use aetheel_turn::VersionError;

/// The files whose capabilities wait for the operator's approval.
pub(super) type UnacceptedFiles = Mutex<BTreeMap<PathBuf, Arc<RequestedCapabilities>>>;

/// Reads and admits components, and makes them serve.
pub(super) struct Loader {
    pub(super) admitter: Admitter,
    pub(super) rescan: Duration,
    pub(super) candidates: Candidates,
    reports: broadcast::Sender<LoadReport>,
    pub(super) watch: FolderWatch,
    pub(super) files: BTreeMap<PathBuf, KnownFile>,
    pub(super) keeper: ComponentKeeper,
    /// How a new version replaces the one that serves.
    pub(super) rollout: Rollout,
    /// The versions in development.
    pub(super) live: LiveLoader,
    waiting: Arc<UnacceptedFiles>,
}

pub(super) enum LoaderRequest {
    /// Check all files.
    Rescan,
    /// Add components that serve to the store from now on.
    Keep,
    /// Serve the versions in development of this folder from now on.
    FollowLive(LiveFolder),
    /// Select a component again, because the version of the backend's agent changed. The reply is
    /// whether another component serves now.
    Choose(String, oneshot::Sender<bool>),
    /// Make the component serve that served before the generation with this digest or, without a
    /// digest, the component that served last.
    RollBack(String, Option<String>, oneshot::Sender<Result<Generation, VersionError>>),
    /// Make the component on rollout with this digest serve.
    Promote(String, String, oneshot::Sender<Result<Generation, VersionError>>),
    /// Drop the component on rollout with this digest. The reply is the path of its moved file.
    Withdraw(String, String, oneshot::Sender<Result<PathBuf, VersionError>>),
    /// Return the kept components of a backend that may still be used.
    Kept(String, oneshot::Sender<Vec<Arc<ComponentBackend>>>),
    /// Return whether a component of a backend that served earlier is kept.
    HasEarlier(String, oneshot::Sender<bool>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookReason {
    /// The file was touched, so any result is reported.
    Touched,
    /// The file is checked again to be safe, so only changes are reported.
    Rescan,
}

#[derive(Debug)]
pub(super) struct KnownFile {
    /// The stamp of the file, or `None` if the next rescan must read the file again.
    pub(super) stamp: Option<Stamp>,
    /// The stamp of the signature file, if signatures are required.
    pub(super) signature: Option<Stamp>,
    /// The digest of its content, or `None` if it was not read.
    pub(super) digest: Option<String>,
    /// The backend that it contains, or `None` if it was refused.
    pub(super) name: Option<String>,
    /// The missing decision of the operator for which it was refused.
    pub(super) pending_decision: Option<PendingDecision>,
}

impl KnownFile {
    /// Describes a file into which the loader put a component. The next rescan sets the stamp.
    pub(super) fn placed(signature: Option<Stamp>, digest: String, name: &str) -> Self {
        let (digest, name) = (Some(digest), Some(name.to_owned()));
        Self { stamp: None, signature, digest, name, pending_decision: None }
    }
}

/// A decision of the operator that a file waits for.
#[derive(Debug)]
pub(super) enum PendingDecision {
    /// Trust. Contains the backends for which it was pinned when it was refused.
    Trust(BTreeSet<String>),
    Acceptance(Arc<RequestedCapabilities>),
}

impl Loader {
    pub(super) fn new(
        engine: Engine,
        options: RegistryOptions,
        candidates: Candidates,
        reports: broadcast::Sender<LoadReport>,
        waiting: Arc<UnacceptedFiles>,
        live: LiveLoader,
    ) -> Self {
        // Events contain absolute paths.
        let directory = std::path::absolute(&options.directory).unwrap_or(options.directory);
        let admitter = Admitter { engine, gate: options.gate };
        let keeper = ComponentKeeper {
            store: options.components,
            is_keeping: false,
            limit: admitter.limit(),
        };
        Self {
            admitter,
            rescan: options.rescan,
            candidates,
            reports,
            watch: FolderWatch::new(directory, options.quiet),
            files: BTreeMap::new(),
            keeper,
            rollout: options.rollout,
            live,
            waiting,
        }
    }

    /// Loads files that were refused because the operator's trust or approval was missing, if it
    /// was given since.
    pub(super) async fn retry_unaccepted(&mut self) {
        let mut ready = Vec::new();
        for (path, seen) in &self.files {
            let is_decided = match (&seen.pending_decision, &seen.digest) {
                (Some(PendingDecision::Trust(pinned_for)), Some(digest)) => {
                    self.admitter.gate.pinned_for(digest).await != *pinned_for
                }
                (Some(PendingDecision::Acceptance(wants)), _) => {
                    self.admitter.gate.wants(&wants.descriptor).await.is_none()
                }
                _ => false,
            };
            ready.extend(is_decided.then(|| path.clone()));
        }
        for path in ready {
            self.look_at(&path, LookReason::Touched).await;
        }
    }

    /// Checks every file that exists or existed, unless it is known and has not changed.
    pub(super) async fn look_at_everything(&mut self) {
        // Start watching first, so that later changes are reported.
        self.watch.renew();
        let was_missing = self.watch.is_missing;
        let found = self.watch.list().await;
        if self.watch.is_missing && !was_missing {
            tracing::warn!(path = %self.watch.directory.display(), "the backends folder cannot be read; hint: create it (BACKENDS_DIR), it is then loaded without a restart");
        }
        let gone: Vec<_> =
            self.files.keys().filter(|path| !found.contains_key(*path)).cloned().collect();
        for path in gone {
            self.look_at(&path, LookReason::Rescan).await;
        }
        let (components, limit) = (self.keeper.store.clone(), self.admitter.limit());
        let unknown = found.iter().any(|(path, _)| !self.files.contains_key(path));
        let mut found = Vec::from_iter(found);
        if unknown {
            let order = move || load_order::sort_files(found, components.as_ref(), limit);
            found = tokio::task::spawn_blocking(order).await.unwrap_or_default();
        }
        for (path, stamp) in found {
            let signature = self.admitter.gate.stamp(&path);
            if self
                .files
                .get(&path)
                .is_none_or(|seen| seen.stamp != Some(stamp) || seen.signature != signature)
            {
                self.look_at(&path, LookReason::Rescan).await;
            }
        }
    }

    /// Checks one file and updates the components that serve.
    pub(super) async fn look_at(&mut self, path: &Path, cause: LookReason) {
        let start = Instant::now();
        // Take the stamp before the file is read, so that later changes lead to another check.
        let signature = self.admitter.gate.stamp(path);
        let (mut pinned_for, mut read) = (BTreeSet::new(), None);
        let (stamp, digest, outcome) = match self.admitter.read(path).await {
            Ok(source) => {
                // A file that changed very recently is read again later, because its stamp
                // alone proves nothing.
                let stamp = Some(source.stamp).filter(source::is_settled);
                if let Some(seen) = self.files.get_mut(path)
                    && cause == LookReason::Rescan
                    && seen.digest.as_ref() == Some(&source.digest)
                    && seen.signature == signature
                {
                    seen.stamp = stamp;
                    return;
                }
                pinned_for = self.admitter.gate.pinned_for(&source.digest).await;
                read = Some((source.digest.clone(), source.bytes.clone()));
                (stamp, Some(source.digest.clone()), self.load(path, source, start).await)
            }
            Err(AdmissionError::Read(error))
                if error.kind() == std::io::ErrorKind::NotFound && Stamp::of(path).is_none() =>
            {
                return self.vanished(path).await;
            }
            Err(error @ AdmissionError::Changing) => {
                self.watch.settling.touch(path.to_owned(), false, Instant::now());
                tracing::debug!(path = %path.display(), "backend file {error}");
                return;
            }
            // It may be repaired without a change of its stamp, for example by permissions of a
            // parent folder.
            Err(error @ AdmissionError::Read(_)) => (None, None, Err(error)),
            Err(error) => (Stamp::of(path), None, Err(error)),
        };
        let unreadable_before =
            self.files.get(path).is_some_and(|seen| seen.stamp.is_none() && seen.digest.is_none());
        let name = outcome.as_ref().ok().map(|report| report.name().to_owned());
        let wanting = match &outcome {
            Err(AdmissionError::Untrusted(_)) => Some(PendingDecision::Trust(pinned_for)),
            Err(AdmissionError::Unaccepted(wants)) => {
                Some(PendingDecision::Acceptance(wants.clone()))
            }
            _ => None,
        };
        self.files.insert(
            path.to_owned(),
            KnownFile { stamp, signature, digest, name, pending_decision: wanting },
        );
        self.note_waiting();
        match outcome {
            Ok(report) => {
                let loaded =
                    matches!(report, LoadReport::Loaded { .. }).then(|| report.name().to_owned());
                self.report(report);
                if let Some(name) = loaded {
                    self.keeper.keep(&name, self.candidates.serving(&name), read).await;
                }
            }
            Err(AdmissionError::Read(_)) if unreadable_before && cause == LookReason::Rescan => {}
            Err(reason) => {
                let serving = self
                    .candidates
                    .serving_from(path)
                    .map(|(_, serving)| format!("{:?}", serving.backend));
                tracing::warn!(path = %path.display(), serving, "backend file {}; hint: {}", with_causes(&reason), reason.hint());
                self.report(LoadReport::Refused {
                    path: path.to_owned(),
                    reason: Arc::new(reason),
                });
            }
        }
    }

    /// Publishes the files whose capabilities wait for approval.
    pub(super) fn note_waiting(&self) {
        let wanting = self.files.iter().filter_map(|(path, seen)| match &seen.pending_decision {
            Some(PendingDecision::Acceptance(wants)) => Some((path.clone(), wants.clone())),
            _ => None,
        });
        *self.waiting.lock() = wanting.collect();
    }

    /// Makes the best candidate serve. If that is another one than before, reports it and returns
    /// true.
    pub(super) async fn serve_best(&mut self, name: &str) -> bool {
        let start = Instant::now();
        let Some(generation) = self.candidates.serve_best(name) else { return false };
        let Some(path) = self.candidates.serving(name).map(|serving| serving.info.path.clone())
        else {
            return false;
        };
        tracing::info!(backend = name, %generation, path = %path.display(), "backend serves from another file");
        self.report(LoadReport::loaded(name, generation, path, start));
        self.keeper.keep(name, self.candidates.serving(name), None).await;
        true
    }

    pub(super) fn report(&self, report: LoadReport) {
        figures::reloaded(report.metric_label());
        if let LoadReport::Loaded { name, generation, .. } = &report {
            figures::set_generation(name, generation.number);
            AuditEntry::new(AuditKind::ComponentLoaded)
                .with("backend", name)
                .with("digest", &generation.digest)
                .with("generation", generation.number)
                .note();
        }
        let _ = self.reports.send(report); // fails if there is no receiver
    }
}
