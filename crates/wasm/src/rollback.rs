//! Restores the component that served before.
//!
//! The loader does it, so that nothing else is loaded at the same time. The restored component is
//! checked and admitted like any other before a file is changed. The replaced component stays in
//! the folder under another name and is removed from the store, so that a second rollback goes back
//! one step further. `tests/backend/rollback.rs` tests this module.

use std::path::{Path, PathBuf};

use super::install;
use super::loader::{KnownFile, Loader};
use super::report::LoadReport;
use super::version_error::{ComponentVersionError, short};
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::plain::with_causes;
use aetheel_recording::{Backend as _, Generation};
use aetheel_store::workspace::ServedComponent;
use aetheel_turn::VersionError;
use tokio::time::Instant;

impl Loader {
    /// Restores the component that served before the generation with the digest `from`. Without a
    /// digest, restores the file of a component that serves in place of a refused one, or the
    /// component that served last if the backend does not serve.
    ///
    /// # Errors
    /// [`VersionError`] if nothing was changed.
    pub(super) async fn roll_back(
        &mut self,
        name: &str,
        from: Option<String>,
    ) -> Result<Generation, VersionError> {
        let start = Instant::now();
        let serving = self.candidates.serving(name);
        let serves = serving.as_ref().map(|serving| serving.backend.generation().clone());
        if from.is_some() && serves.as_ref().map(|serves| &serves.digest) != from.as_ref() {
            return Err(VersionError::Superseded { name: name.to_owned(), serves });
        }
        let stands_in = serving.as_ref().is_some_and(|serving| serving.info.is_fallback);
        let restored = serves.clone().filter(|_| stands_in && from.is_none());
        let from = match &restored {
            Some(_) => None,
            None => serves.map(|serves| serves.digest),
        };
        let target = serving.map_or_else(
            || self.watch.directory.join(format!("{name}.wasm")),
            |serving| serving.info.path.clone(),
        );
        if self.candidates.successor_of_file(&target).is_some() {
            let name = name.to_owned();
            return Err(ComponentVersionError::OnRollout { name, path: target }.into());
        }
        let in_file = from.as_deref().filter(|_| !stands_in);
        let replaced = self.admitter.replaced(&target, in_file).await?;
        let Some(components) = self.keeper.store.clone() else {
            return Err(ComponentVersionError::NothingKept(name.to_owned()).into());
        };
        let exactly = restored.as_ref().map(|restored| restored.digest.as_str());
        let earlier = self.find_previous(name, from.clone(), exactly, &target).await?;
        let digest = earlier.digest.clone();
        let candidate = self.admitter.readmit(&target, name, &earlier).await.map_err(|error| {
            ComponentVersionError::NotAdmitted { digest: digest.clone(), error }
        })?;
        let (winner, why) = self.candidates.would_serve(&candidate);
        if winner.digest != candidate.digest {
            return Err(ComponentVersionError::NotPreferred {
                version: candidate.descriptor.version.clone(),
                path: winner.path.clone(),
                reason: why.unwrap_or_default(),
            }
            .into());
        }
        let aside = replaced.as_ref().map(|digest| aside(&target, digest));
        let (to, kept_as) = (target.clone(), aside.clone());
        let placed = tokio::task::spawn_blocking(move || {
            install::prepare(&to, &earlier.bytes, earlier.signature.as_deref())?
                .install(kept_as.as_deref())
        });
        let placed = placed.await.map_err(|_| VersionError::ShuttingDown)?;
        placed.map_err(|error| ComponentVersionError::Write { path: target.clone(), error })?;
        self.candidates.insert(candidate);
        let signature = self.admitter.gate.stamp(&target);
        self.files.insert(target.clone(), KnownFile::placed(signature, digest, name));
        let Some(generation) = self.candidates.serve_best(name).or(restored) else {
            return Err(ComponentVersionError::AlreadyServes(name.to_owned()).into());
        };
        let moved = aside.as_deref().map(Path::display).map(tracing::field::display);
        tracing::info!(backend = name, %generation, path = %target.display(), kept = moved, "backend rolled back to the previous version");
        AuditEntry::new(AuditKind::ComponentRolledBack)
            .with("backend", name)
            .with("digest", &generation.digest)
            .note();
        self.report(LoadReport::loaded(name, generation.clone(), target, start));
        let (backend, gone) = (name.to_owned(), from);
        let forgotten = tokio::task::spawn_blocking(move || {
            gone.map_or(Ok(()), |gone| components.forget(&backend, &gone))
        });
        if let Ok(Err(error)) = forgotten.await {
            tracing::warn!(
                backend = name,
                "{}; the next rollback may restore it again",
                with_causes(&error)
            );
        }
        Ok(generation)
    }

    /// Returns the kept component with the digest `exactly` or, without it, the latest component
    /// that served before `from` and that no other file of the folder contains.
    async fn find_previous(
        &self,
        name: &str,
        from: Option<String>,
        exactly: Option<&str>,
        target: &Path,
    ) -> Result<ServedComponent, ComponentVersionError> {
        let earlier = self.keeper.before(name, from).await;
        let others = self.candidates.of(name).filter(|candidate| candidate.path != target);
        let beside: Vec<&str> = others.map(|candidate| candidate.digest.as_str()).collect();
        let wanted = |served: &ServedComponent| match exactly {
            Some(digest) => served.digest == digest,
            None => !beside.contains(&served.digest.as_str()),
        };
        let found = earlier.into_iter().find(wanted);
        found.ok_or_else(|| ComponentVersionError::NoneBefore(name.to_owned()))
    }
}

/// Returns the name under which a replaced file is kept.
pub(super) fn aside(target: &Path, digest: &str) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(format!(".rolled-back-{}", short(digest)));
    PathBuf::from(name)
}
