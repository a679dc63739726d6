//! The task that loads the components of a folder, one at a time.
//!
//! A component is in use until its file is removed, or until another version of the file is
//! admitted: a version that is refused changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::loaded::{CurrentExtensions, ExtensionRefusal, LoadedExtension};
use super::options;
use super::world::{self, ExtensionWorld};
use crate::engine::Engine;
use crate::error::AdmissionError;
use crate::source::{self, ComponentSource};
use crate::trust::TrustGate;
use crate::watch::FolderWatch;
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::plain::with_causes;
use aetheel_store::disk::Stamp;

/// How long a file must not change before it is loaded.
const QUIET: Duration = Duration::from_millis(200);
/// Interval at which all files, their options and the operator's decisions are checked.
const RESCAN: Duration = Duration::from_secs(2);

/// Reads and admits the components of a folder.
pub(super) struct ExtensionLoader<E> {
    engine: Engine,
    gate: TrustGate,
    current: Arc<CurrentExtensions<E>>,
    watch: FolderWatch,
    files: BTreeMap<PathBuf, SeenFile>,
}

/// The stamps of a component, of its options and of its signature.
type Stamps = [Option<Stamp>; 3];

struct SeenFile {
    /// The stamps, or `None` if the file must be read again.
    stamps: Option<Stamps>,
    /// The content: the digest of the component and its options. `None` if it was not read.
    content: Option<(String, String)>,
    /// The name of the component, or the reason why the file is refused.
    result: Result<String, Arc<AdmissionError>>,
    /// The names for which the component was pinned when it was refused for a missing pin.
    pinned_for: Option<BTreeSet<String>>,
}

impl<E: ExtensionWorld> ExtensionLoader<E> {
    pub(super) fn new(
        engine: Engine,
        directory: &Path,
        gate: TrustGate,
        current: Arc<CurrentExtensions<E>>,
    ) -> Self {
        // Events contain absolute paths.
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        let watch = FolderWatch::new(directory, QUIET);
        Self { engine, gate, current, watch, files: BTreeMap::new() }
    }

    pub(super) fn refused(&self) -> Vec<ExtensionRefusal> {
        let refused = self.files.iter().filter_map(|(path, seen)| {
            let reason = seen.result.as_ref().err()?.clone();
            Some(ExtensionRefusal { path: path.clone(), reason })
        });
        refused.collect()
    }

    /// Follows changes until it is aborted.
    pub(super) async fn follow(mut self) {
        let mut rescan = interval(RESCAN);
        rescan.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                changed = self.watch.changed() => match changed {
                    Some(files) => {
                        for path in files {
                            self.look_at(&path).await;
                        }
                    }
                    None => self.look_at_everything().await,
                },
                _ = rescan.tick() => self.look_at_everything().await,
            }
        }
    }

    /// Checks every file that exists or existed, unless it is known and has not changed.
    pub(super) async fn look_at_everything(&mut self) {
        // Start watching first, so that later changes are reported.
        self.watch.renew();
        let found = self.watch.list().await;
        let known: Vec<PathBuf> = self.files.keys().cloned().collect();
        for path in known.into_iter().filter(|path| !found.contains_key(path)) {
            self.look_at(&path).await;
        }
        for path in found.into_keys() {
            let stamps = self.stamps(&path);
            let is_known = match self.files.get(&path) {
                Some(seen) => seen.stamps == Some(stamps) && !self.is_pinned_since(seen).await,
                None => false,
            };
            if !is_known {
                self.look_at(&path).await;
            }
        }
    }

    fn stamps(&self, path: &Path) -> Stamps {
        [Stamp::of(path), Stamp::of(&options::path_of(path)), self.gate.stamp(path)]
    }

    /// Returns whether the operator has pinned a refused component since it was refused.
    async fn is_pinned_since(&self, seen: &SeenFile) -> bool {
        match (&seen.pinned_for, &seen.content) {
            (Some(before), Some((digest, _))) => self.gate.pinned_for(digest).await != *before,
            _ => false,
        }
    }

    /// Checks one file and updates the components in use.
    async fn look_at(&mut self, path: &Path) {
        // Take the stamps before the files are read, so that later changes lead to another check.
        let stamps = self.stamps(path);
        let is_settled = stamps.iter().flatten().all(source::is_settled);
        let of_options = path.to_owned();
        let options = tokio::task::spawn_blocking(move || options::read(&of_options)).await;
        let source = match source::read(path.to_owned(), self.engine.limits().component).await {
            Ok(source) => source,
            Err(AdmissionError::Read(error))
                if error.kind() == std::io::ErrorKind::NotFound && Stamp::of(path).is_none() =>
            {
                return self.vanished(path);
            }
            Err(AdmissionError::Changing) => {
                return self.watch.settling.touch(path.to_owned(), false, Instant::now());
            }
            Err(error) => return self.refuse(path, stamps, None, error).await,
        };
        let options = match options {
            Ok(Ok(options)) => options,
            Ok(Err(error)) => return self.refuse(path, stamps, None, error).await,
            Err(_) => return, // the runtime shuts down
        };
        let content = (source.digest.clone(), options.clone());
        let retried = match self.files.get(path) {
            Some(seen) => self.is_pinned_since(seen).await,
            None => false,
        };
        if let Some(seen) = self.files.get_mut(path)
            && seen.content.as_ref() == Some(&content)
            && !retried
        {
            seen.stamps = Some(stamps).filter(|_| is_settled);
            return;
        }
        match self.admit(path, source, options).await {
            Ok(loaded) => {
                self.serve(path, loaded);
                let result = Ok(self.name_at(path).unwrap_or_default());
                let stamps = Some(stamps).filter(|_| is_settled);
                let content = Some(content);
                self.files.insert(
                    path.to_owned(),
                    SeenFile { stamps, content, result, pinned_for: None },
                );
            }
            Err(error) => self.refuse(path, stamps, Some(content), error).await,
        }
    }

    async fn admit(
        &self,
        path: &Path,
        source: ComponentSource,
        options: String,
    ) -> Result<LoadedExtension<E>, AdmissionError> {
        let trust = self.gate.judge(path, &source).await?;
        let options_path = options::path_of(path);
        let ComponentSource { bytes, digest, .. } = source;
        let (descriptor, extension) =
            world::admit::<E>(&self.engine, bytes, options, options_path).await?;
        self.gate.judge_name(&digest, &descriptor.name).await?;
        let current = self.current.load();
        if let Some(other) = current.get(&descriptor.name).filter(|other| other.path != path) {
            let (name, owner) = (descriptor.name, other.path.clone());
            return Err(AdmissionError::NameTaken { name, owner });
        }
        let (path, trust) = (path.to_owned(), trust.label());
        Ok(LoadedExtension { descriptor, digest, path, trust, extension })
    }

    /// Returns the name of the component in use that was loaded from a file.
    fn name_at(&self, path: &Path) -> Option<String> {
        let current = self.current.load();
        current.iter().find(|(_, loaded)| loaded.path == path).map(|(name, _)| name.clone())
    }

    /// Uses a component from now on, instead of the previous one of its file.
    fn serve(&self, path: &Path, loaded: LoadedExtension<E>) {
        let (kind, name) = (E::KIND.word(), loaded.descriptor.name.clone());
        let (version, digest) = (loaded.descriptor.version.clone(), loaded.digest.clone());
        let trust = loaded.trust.clone();
        AuditEntry::new(AuditKind::ComponentLoaded)
            .with(kind, &name)
            .with("version", &version)
            .with("digest", &digest)
            .note();
        let mut next = BTreeMap::clone(&self.current.load());
        next.retain(|_, other| other.path != path);
        next.insert(name.clone(), Arc::new(loaded));
        self.current.store(Arc::new(next));
        let path = path.display();
        tracing::info!(kind, name, version, digest, %path, trust, "component loaded");
    }

    fn vanished(&mut self, path: &Path) {
        if self.files.remove(path).is_none() {
            return;
        }
        let Some(name) = self.name_at(path) else { return };
        let mut next = BTreeMap::clone(&self.current.load());
        next.remove(&name);
        self.current.store(Arc::new(next));
        tracing::warn!(kind = E::KIND.word(), name, path = %path.display(), "component file is gone, so the component is no longer used");
        // A file that was refused because of this one may take its name.
        for seen in self.files.values_mut().filter(|seen| seen.result.is_err()) {
            (seen.stamps, seen.content) = (None, None);
        }
    }

    async fn refuse(
        &mut self,
        path: &Path,
        stamps: Stamps,
        content: Option<(String, String)>,
        error: AdmissionError,
    ) {
        let is_untrusted = matches!(error, AdmissionError::Untrusted(_));
        let pinned_for = match &content {
            Some((digest, _)) if is_untrusted => Some(self.gate.pinned_for(digest).await),
            _ => None,
        };
        // A file that cannot be read may be repaired without a change of its stamp.
        let is_unreadable = matches!(error, AdmissionError::Read(_));
        let before = self.files.get(path).and_then(|seen| seen.result.as_ref().err());
        let is_known = before.is_some_and(|before| before.to_string() == error.to_string());
        if !(is_unreadable && is_known) {
            let meanwhile = self.name_at(path);
            tracing::warn!(path = %path.display(), in_use = meanwhile, "{} file {}; hint: {}", E::KIND.word(), with_causes(&error), error.hint());
        }
        let stamps = Some(stamps).filter(|_| !is_unreadable);
        let result = Err(Arc::new(error));
        self.files.insert(path.to_owned(), SeenFile { stamps, content, result, pinned_for });
    }
}
