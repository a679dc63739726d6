//! Holds a new version back while the operator wants it to be observed first (`BACKEND_ROLLOUT`).
//!
//! The store of components that served decides which version serves: the one that served last, also
//! after a restart. A file with another version is a *successor*. It is admitted like any other,
//! and serves once it is promoted. Promoting it adds it to the store. So another process can
//! promote it, and the loader notices that within [`OPERATOR_INTERVAL`](super::follow).

use std::path::{Path, PathBuf};

use tokio::time::Instant;

use super::candidates::Candidate;
use super::install;
use super::loader::{KnownFile, Loader};
use super::report::LoadReport;
use super::rollback::aside;
use super::source;
use super::trust::{read_signature, signature_of};
use super::version_error::{ComponentVersionError, short};
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::plain::with_causes;
use aetheel_model::rollout::Rollout;
use aetheel_recording::{Backend as _, Generation};
use aetheel_store::workspace::ServedComponent;
use aetheel_turn::VersionError;

/// The part of the loader that holds new versions back.
pub(super) struct RolloutControl<'a>(pub(super) &'a mut Loader);

impl RolloutControl<'_> {
    /// Returns whether an admitted component must be promoted before it serves, because another
    /// version of its backend serves, or served before the start.
    pub(super) async fn is_held_back(&mut self, candidate: &Candidate) -> bool {
        if self.0.rollout == Rollout::Now {
            return false;
        }
        self.serve_last(candidate).await;
        self.must_wait(candidate)
    }

    /// Makes a component the one on rollout.
    pub(super) fn hold_back(&mut self, candidate: Candidate) -> LoadReport {
        let (name, version) =
            (candidate.descriptor.name.clone(), candidate.descriptor.version.clone());
        let (path, digest) = (candidate.path.clone(), candidate.digest.clone());
        let serving =
            self.0.candidates.serving(&name).map(|serving| format!("{:?}", serving.backend));
        self.0.candidates.set_successor(candidate);
        tracing::info!(backend = %name, version, digest = short(&digest), serving, path = %path.display(), "a new version is on rollout and does not serve yet; hint: `aetheel backend rollout {name}` shows its state");
        LoadReport::OnRollout { name, path }
    }

    /// Returns whether a component must be promoted before it serves. It need not if another file
    /// would serve anyway, or if it is made for the installed agent and the serving one is not.
    fn must_wait(&self, candidate: &Candidate) -> bool {
        let name = &candidate.descriptor.name;
        let Some(serving) = self.0.candidates.serving(name).map(|serving| serving.backend) else {
            return false;
        };
        if serving.generation().digest == candidate.digest
            || self.0.candidates.would_serve(candidate).0.digest != candidate.digest
        {
            return false;
        }
        let agent = self.0.candidates.agent_version(name);
        let fits = |descriptor: &aetheel_model::agent::Descriptor| {
            agent.as_deref().and_then(|agent| descriptor.fits(agent))
        };
        !(fits(&candidate.descriptor) == Some(true) && fits(serving.descriptor()) == Some(false))
    }

    /// Makes the component serve that served last, if nothing serves the backend of this candidate.
    async fn serve_last(&mut self, candidate: &Candidate) {
        let (name, path) = (&candidate.descriptor.name, &candidate.path);
        let (Some(components), None) = (self.0.components.clone(), self.0.candidates.serving(name))
        else {
            return;
        };
        let begun = Instant::now();
        let backend = name.clone();
        let kept = tokio::task::spawn_blocking(move || components.before(&backend, None)).await;
        for served in kept.unwrap_or_default() {
            if served.digest == candidate.digest {
                return;
            }
            match self.0.readmit(path, name, &served).await {
                Ok(last) => {
                    self.0.candidates.insert(last);
                    break;
                }
                Err(error) => {
                    tracing::warn!(backend = %name, digest = short(&served.digest), "a version that served before may not serve any more: {}", with_causes(&error));
                }
            }
        }
        if let Some(generation) = self.0.candidates.serve_best(name) {
            let (name, path) = (name.clone(), path.clone());
            tracing::info!(backend = %name, %generation, path = %path.display(), "the version that served before the start serves; the file contains a new one");
            self.0.report(LoadReport::Loaded { name, generation, path, took: begun.elapsed() });
        }
    }

    /// Adds the successor of a backend to its candidates if it need not wait any more, because the
    /// version of the agent changed.
    pub(super) fn reconsider_successor(&mut self, name: &str) {
        if let Some(successor) = self.0.candidates.successor(name)
            && !self.must_wait(&successor)
        {
            self.0.candidates.drop_successor(name);
            self.0.candidates.insert(successor);
        }
    }

    /// Promotes the successors that another process added to the store.
    pub(super) async fn follow_promotions(&mut self) {
        let Some(components) = self.0.components.clone() else { return };
        for (name, digest) in self.0.candidates.successors() {
            let (store, backend) = (components.clone(), name.clone());
            let kept = tokio::task::spawn_blocking(move || store.kept(&backend)).await;
            if kept.is_ok_and(|kept| kept.first() == Some(&digest))
                && let Err(error) = self.promote(&name, &digest).await
            {
                tracing::warn!(backend = name, %error, "cannot promote the new version");
            }
        }
    }

    /// Makes the successor of a backend serve.
    ///
    /// # Errors
    /// [`VersionError`] if nothing was changed.
    pub(super) async fn promote(
        &mut self,
        name: &str,
        digest: &str,
    ) -> Result<Generation, VersionError> {
        let begun = Instant::now();
        let successor = self.known_successor(name, digest)?;
        let path = successor.path.clone();
        let source = self.read_successor(&successor).await?;
        if let Some(components) = self.0.components.clone() {
            let (backend, beside) = (name.to_owned(), signature_of(&path));
            let kept = tokio::task::spawn_blocking(move || {
                let signature = read_signature(&beside);
                let served =
                    ServedComponent { digest: source.digest, bytes: source.bytes, signature };
                components.keep(&backend, &served)
            });
            let kept = kept.await.map_err(|_| VersionError::ShuttingDown)?;
            kept.map_err(|error| VersionError::Component(Box::new(error)))?;
        }
        self.0.candidates.drop_successor(name);
        self.0.candidates.insert(successor);
        let Some(generation) = self.0.candidates.serve_best(name) else {
            return Err(ComponentVersionError::AlreadyServes(name.to_owned()).into());
        };
        tracing::info!(backend = name, %generation, path = %path.display(), "the new version was promoted and serves");
        self.0.report(LoadReport::Loaded {
            name: name.to_owned(),
            generation: generation.clone(),
            path,
            took: begun.elapsed(),
        });
        Ok(generation)
    }

    /// Drops the successor of a backend: moves its file aside, and puts the serving version into
    /// its place if it was there. Returns the path of the moved file.
    ///
    /// # Errors
    /// [`VersionError`] if nothing was changed.
    pub(super) async fn withdraw(
        &mut self,
        name: &str,
        digest: &str,
    ) -> Result<PathBuf, VersionError> {
        let successor = self.known_successor(name, digest)?;
        self.read_successor(&successor).await?;
        let target = successor.path;
        let serving = self.0.candidates.serving(name).filter(|serving| serving.info.path == target);
        let back = match serving {
            Some(serving) => Some(self.served(name, &serving.backend.generation().digest).await?),
            None => None,
        };
        let digest_back = back.as_ref().map(|served| served.digest.clone());
        let moved = aside(&target, digest);
        let (to, kept_as) = (target.clone(), moved.clone());
        let placed = tokio::task::spawn_blocking(move || match back {
            Some(served) => install::prepare(&to, &served.bytes, served.signature.as_deref())?
                .install(Some(&kept_as)),
            None => std::fs::rename(&to, &kept_as),
        });
        match placed.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                return Err(ComponentVersionError::Write { path: target, error }.into());
            }
            Err(_) => return Err(VersionError::ShuttingDown),
        }
        self.0.candidates.drop_successor(name);
        match digest_back {
            Some(digest) => {
                // The next rescan sets the stamp.
                let seen = KnownFile {
                    stamp: None,
                    signature: self.0.gate.stamp(&target),
                    digest: Some(digest),
                    name: Some(name.to_owned()),
                    pending_decision: None,
                };
                self.0.files.insert(target, seen);
            }
            None => drop(self.0.files.remove(&target)),
        }
        AuditEntry::new(AuditKind::ComponentWithdrawn).with("backend", name).note();
        tracing::info!(backend = name, kept = %moved.display(), "the new version was withdrawn");
        Ok(moved)
    }

    fn known_successor(&self, name: &str, digest: &str) -> Result<Candidate, VersionError> {
        let successor = self.0.candidates.successor(name);
        successor
            .filter(|successor| successor.digest == digest)
            .ok_or_else(|| ComponentVersionError::NotOnRollout(name.to_owned()).into())
    }

    /// Reads the file of a successor, which must still contain it.
    async fn read_successor(
        &self,
        successor: &Candidate,
    ) -> Result<source::ComponentSource, VersionError> {
        let path = successor.path.clone();
        match source::read(path.clone(), self.0.engine.limits().component).await {
            Ok(source) if source.digest == successor.digest => Ok(source),
            Ok(_) => Err(ComponentVersionError::FileChanged(path).into()),
            Err(error) => Err(ComponentVersionError::Unreadable { path, error }.into()),
        }
    }

    async fn served(&self, name: &str, digest: &str) -> Result<ServedComponent, VersionError> {
        let nothing = || ComponentVersionError::NothingKept(name.to_owned());
        let components = self.0.components.clone().ok_or_else(nothing)?;
        let backend = name.to_owned();
        let kept = tokio::task::spawn_blocking(move || components.before(&backend, None)).await;
        let mut kept = kept.unwrap_or_default().into_iter();
        Ok(kept.find(|served| served.digest == digest).ok_or_else(nothing)?)
    }

    /// Drops the successor whose file is at this path, unless the file still contains it.
    pub(super) fn drop_changed_successor(&mut self, path: &Path, digest: Option<&str>) {
        let changed = self.0.candidates.successor_of_file(path);
        if let Some(successor) = changed.filter(|it| Some(it.digest.as_str()) != digest) {
            let name = &successor.descriptor.name;
            self.0.candidates.drop_successor(name);
            tracing::info!(backend = %name, path = %path.display(), "the file of a new version changed, which ends its rollout");
        }
    }
}
