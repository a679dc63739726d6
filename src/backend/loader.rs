//! The one task that loads components, never two at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::admission::AdmissionError;
use super::component::ComponentBackend;
use super::engine::Engine;
use super::registry::{Current, LoadReport, RegistryOptions};
use super::source::{self, Source, Stamp};
use super::watch::{Hint, Settling, Watch, is_component};
use crate::figures;
use crate::plain::with_causes;
use crate::turn::{Backend, Generation};

/// Reads, admits and swaps.
pub(super) struct Loader {
    engine: Engine,
    directory: PathBuf,
    rescan: Duration,
    current: Arc<Current>,
    reports: broadcast::Sender<LoadReport>,
    watch: Watch,
    hints: mpsc::UnboundedReceiver<Hint>,
    settling: Settling,
    files: BTreeMap<PathBuf, Seen>,
    /// The file each backend was last loaded from.
    owners: BTreeMap<String, PathBuf>,
    missing_told: bool,
}

/// Why a file is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Something happened to it: whatever comes of it is told.
    Touched,
    /// It is looked at again to be sure: only news are told.
    Rescan,
}

/// What is known of a file.
#[derive(Debug)]
struct Seen {
    /// None: look again at the next rescan, whatever the stamp says.
    stamp: Option<Stamp>,
    /// What was read; None: nothing.
    digest: Option<String>,
    /// The backend it holds; None: it was refused.
    name: Option<String>,
}

impl Loader {
    pub(super) fn new(engine: Engine, options: RegistryOptions, current: Arc<Current>, reports: broadcast::Sender<LoadReport>) -> Self {
        // Events carry absolute paths.
        let directory = std::path::absolute(&options.directory).unwrap_or(options.directory);
        let (watch, hints) = Watch::new(directory.clone());
        Self {
            engine,
            directory,
            rescan: options.rescan,
            current,
            reports,
            watch,
            hints,
            settling: Settling::new(options.quiet),
            files: BTreeMap::new(),
            owners: BTreeMap::new(),
            missing_told: false,
        }
    }

    /// Follows changes for ever.
    pub(super) async fn follow(mut self, mut requests: mpsc::Receiver<()>) {
        let mut rescan = interval_at(Instant::now() + self.rescan, self.rescan);
        rescan.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = self.settling.next();
            let quiet = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(hint) = self.hints.recv() => match hint {
                    Hint::File { path, complete } => self.settling.touch(path, complete, Instant::now()),
                    Hint::Everything => self.look_at_everything().await,
                },
                () = quiet => {
                    for path in self.settling.take(Instant::now()) {
                        self.look_at(&path, Cause::Touched).await;
                    }
                }
                _ = rescan.tick() => self.look_at_everything().await,
                Some(()) = requests.recv() => self.look_at_everything().await,
            }
        }
    }

    /// Looks at every file that is there or was, unless it is known and has not changed.
    pub(super) async fn look_at_everything(&mut self) {
        // Watch first: what changes while we look is told.
        self.watch.renew();
        let directory = self.directory.clone();
        let found = tokio::task::spawn_blocking(move || list(&directory)).await.unwrap_or_default();
        if found.is_none() != self.missing_told {
            self.missing_told = found.is_none();
            if self.missing_told {
                tracing::warn!(path = %self.directory.display(), "the backends folder cannot be read; hint: create it (BACKENDS_DIR), it is then picked up");
            }
        }
        let found = found.unwrap_or_default();
        let gone: Vec<_> = self.files.keys().filter(|path| !found.contains_key(*path)).cloned().collect();
        for path in gone {
            self.look_at(&path, Cause::Rescan).await;
        }
        for (path, stamp) in found {
            if self.files.get(&path).is_none_or(|seen| seen.stamp != Some(stamp)) {
                self.look_at(&path, Cause::Rescan).await;
            }
        }
    }

    /// Brings what serves in line with one file.
    async fn look_at(&mut self, path: &Path, cause: Cause) {
        let begun = Instant::now();
        let (stamp, digest, outcome) = match source::read(path.to_owned(), self.engine.limits().component).await {
            Ok(source) => {
                // A file that was still young is read once more later: its stamp alone proves nothing.
                let stamp = Some(source.stamp).filter(Stamp::rested);
                if let Some(seen) = self.files.get_mut(path)
                    && cause == Cause::Rescan
                    && seen.digest.as_ref() == Some(&source.digest)
                {
                    seen.stamp = stamp;
                    return;
                }
                (stamp, Some(source.digest.clone()), self.load(path, source, begun).await)
            }
            Err(AdmissionError::Read(error)) if error.kind() == std::io::ErrorKind::NotFound && Stamp::of(path).is_none() => {
                return self.vanished(path);
            }
            Err(error @ AdmissionError::Changing) => {
                self.settling.touch(path.to_owned(), false, Instant::now());
                tracing::debug!(path = %path.display(), "backend file {error}");
                return;
            }
            // It may be mended without a trace in its stamp (permissions of a folder above it).
            Err(error @ AdmissionError::Read(_)) => (None, None, Err(error)),
            Err(error) => (Stamp::of(path), None, Err(error)),
        };
        let unreadable_before = self.files.get(path).is_some_and(|seen| seen.stamp.is_none() && seen.digest.is_none());
        let name = outcome.as_ref().ok().map(|report| report.name().to_owned());
        self.files.insert(path.to_owned(), Seen { stamp, digest, name });
        match outcome {
            Ok(report) => self.tell(report),
            Err(AdmissionError::Read(_)) if unreadable_before && cause == Cause::Rescan => {}
            Err(reason) => {
                let serving = self.serving_from(path);
                tracing::warn!(path = %path.display(), serving, "backend file {}; hint: {}", with_causes(&reason), reason.hint());
                self.tell(LoadReport::Refused { path: path.to_owned(), reason: Arc::new(reason) });
            }
        }
    }

    async fn load(&mut self, path: &Path, source: Source, begun: Instant) -> Result<LoadReport, AdmissionError> {
        if let Some(name) = self.serves_already(path, &source.digest) {
            return Ok(LoadReport::Unchanged { name, path: path.to_owned() });
        }
        let admitted = self.engine.admit(source.bytes, path).await?;
        let name = admitted.descriptor.name.clone();
        if let Some(owner) = self.owners.get(&name)
            && owner != path
            && self.files.get(owner).is_some_and(|seen| seen.name.as_ref() == Some(&name))
            && Stamp::of(owner).is_some()
        {
            return Err(AdmissionError::NameTaken { name, owner: owner.clone() });
        }
        let before = self.current.load_full();
        let previous = before.get(&name).map(|backend| backend.generation());
        self.owners.insert(name.clone(), path.to_owned());
        if previous.is_some_and(|previous| previous.digest == source.digest) {
            // The file moved, or an old version came and went unseen.
            return Ok(LoadReport::Unchanged { name, path: path.to_owned() });
        }
        let generation = Generation { number: previous.map_or(1, |previous| previous.number + 1), digest: source.digest };
        let backend = Arc::new(ComponentBackend::new(admitted.descriptor, generation.clone(), admitted.blueprint));
        let mut next = BTreeMap::clone(&before);
        next.insert(name.clone(), backend);
        self.current.store(Arc::new(next));
        let took = begun.elapsed();
        tracing::info!(backend = %name, %generation, path = %path.display(), took_ms = took.as_millis() as u64, "backend loaded");
        Ok(LoadReport::Loaded { name, generation, path: path.to_owned(), took })
    }

    /// Returns the backend that this file already serves with this content.
    fn serves_already(&self, path: &Path, digest: &str) -> Option<String> {
        let current = self.current.load();
        let owned = self.owners.iter().filter(|(_, owner)| *owner == path);
        owned.map(|(name, _)| name).find(|name| current.get(*name).is_some_and(|backend| backend.generation().digest == digest)).cloned()
    }

    fn serving_from(&self, path: &Path) -> Option<String> {
        let current = self.current.load();
        let (name, _) = self.owners.iter().find(|(_, owner)| *owner == path)?;
        current.get(name).map(|backend| format!("{backend:?}"))
    }

    fn vanished(&mut self, path: &Path) {
        let Some(seen) = self.files.remove(path) else { return };
        let Some(name) = seen.name.or_else(|| self.owners.iter().find(|(_, owner)| *owner == path).map(|(name, _)| name.clone())) else {
            return;
        };
        let serving = self.serving_from(path);
        tracing::warn!(path = %path.display(), serving, "backend file is gone, its last generation goes on serving; hint: put it back, or restart to be rid of the backend");
        // A file that was refused because of this one may be its successor.
        for (path, _) in self.files.iter().filter(|(_, seen)| seen.name.is_none()) {
            self.settling.touch(path.clone(), true, Instant::now());
        }
        self.tell(LoadReport::Vanished { name, path: path.to_owned() });
    }

    fn tell(&self, report: LoadReport) {
        figures::reloaded(match &report {
            LoadReport::Loaded { .. } => "loaded",
            LoadReport::Refused { .. } => "refused",
            LoadReport::Unchanged { .. } => "unchanged",
            LoadReport::Vanished { .. } => "vanished",
        });
        if let LoadReport::Loaded { name, generation, .. } = &report {
            figures::generation(name, generation.number);
        }
        let _ = self.reports.send(report); // nobody has to listen
    }
}

impl LoadReport {
    fn name(&self) -> &str {
        match self {
            Self::Loaded { name, .. } | Self::Unchanged { name, .. } | Self::Vanished { name, .. } => name,
            Self::Refused { .. } => "",
        }
    }
}

/// Returns the components of a directory; None: it cannot be read.
fn list(directory: &Path) -> Option<BTreeMap<PathBuf, Stamp>> {
    let entries = std::fs::read_dir(directory).ok()?;
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| is_component(path));
    Some(paths.filter_map(|path| Stamp::of(&path).map(|stamp| (path, stamp))).collect())
}
