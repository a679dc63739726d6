//! Holds a new version back while the operator wants it to be observed first (`BACKEND_ROLLOUT`).
//!
//! The store of components that served decides which version serves: the one that served last, also
//! after a restart. A file with another version is a *successor*. It is admitted like any other,
//! and serves once it is promoted. Promoting it adds it to the store. So another process can
//! promote it, and the loader notices that within [`OPERATOR_INTERVAL`](super::follow).

use std::path::{Path, PathBuf};

use tokio::time::Instant;

use super::candidates::{Candidate, Candidates};
use super::install;
use super::loader::{KnownFile, Loader};
use super::report::LoadReport;
use super::rollback::aside;
use super::trust::{read_signature, signature_of};
use super::version_error::{ComponentVersionError, short};
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::plain::with_causes;
use aetheel_model::rollout::Rollout;
use aetheel_recording::{Backend as _, Generation};
use aetheel_store::workspace::ServedComponent;
use aetheel_turn::VersionError;

impl Loader {
    /// Returns whether an admitted component must be promoted before it serves, because another
    /// version of its backend serves, or served before the start.
    pub(super) async fn is_held_back(&mut self, candidate: &Candidate) -> bool {
        if self.rollout == Rollout::Now {
            return false;
        }
        self.serve_last(candidate).await;
        self.candidates.must_wait(candidate)
    }

    /// Makes the component serve that served last, if nothing serves the backend of this candidate.
    async fn serve_last(&mut self, candidate: &Candidate) {
        let (name, path) = (&candidate.descriptor.name, &candidate.path);
        if self.keeper.store.is_none() || self.candidates.serving(name).is_some() {
            return;
        }
        let start = Instant::now();
        for served in self.keeper.before(name, None).await {
            if served.digest == candidate.digest {
                return;
            }
            match self.admitter.readmit(path, name, &served).await {
                Ok(last) => {
                    self.candidates.insert(last);
                    break;
                }
                Err(error) => {
                    tracing::warn!(backend = %name, digest = short(&served.digest), "a version that served before may not serve any more: {}", with_causes(&error));
                }
            }
        }
        if let Some(generation) = self.candidates.serve_best(name) {
            tracing::info!(backend = %name, %generation, path = %path.display(), "the version that served before the start serves; the file contains a new one");
            self.report(LoadReport::loaded(name, generation, path.clone(), start));
        }
    }

    /// Promotes the successors that another process added to the store.
    pub(super) async fn follow_promotions(&mut self) {
        for (name, digest) in self.candidates.successors() {
            let backend = name.clone();
            let kept_digests = self.keeper.read(move |store| store.kept_digests(&backend)).await;
            if kept_digests.first() == Some(&digest)
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
        let start = Instant::now();
        let successor = self.candidates.known_successor(name, digest)?;
        let path = successor.path.clone();
        let source = self.admitter.read_successor(&successor).await?;
        if let Some(components) = self.keeper.store.clone() {
            let (backend, beside) = (name.to_owned(), signature_of(&path));
            let saved = tokio::task::spawn_blocking(move || {
                let signature = read_signature(&beside);
                let served =
                    ServedComponent { digest: source.digest, bytes: source.bytes, signature };
                components.keep(&backend, &served)
            });
            let saved = saved.await.map_err(|_| VersionError::ShuttingDown)?;
            saved.map_err(|error| VersionError::Component(Box::new(error)))?;
        }
        self.candidates.drop_successor(name);
        self.candidates.insert(successor);
        let Some(generation) = self.candidates.serve_best(name) else {
            return Err(ComponentVersionError::AlreadyServes(name.to_owned()).into());
        };
        tracing::info!(backend = name, %generation, path = %path.display(), "the new version was promoted and serves");
        self.report(LoadReport::loaded(name, generation.clone(), path, start));
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
        let successor = self.candidates.known_successor(name, digest)?;
        self.admitter.read_successor(&successor).await?;
        let target = successor.path;
        let serving = self.candidates.serving(name).filter(|serving| serving.info.path == target);
        let back = match serving {
            Some(serving) => {
                let digest = &serving.backend.generation().digest;
                let mut earlier = self.keeper.before(name, None).await.into_iter();
                let served = earlier.find(|served| served.digest == *digest);
                Some(served.ok_or_else(|| ComponentVersionError::NothingKept(name.to_owned()))?)
            }
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
        let placed = placed.await.map_err(|_| VersionError::ShuttingDown)?;
        placed.map_err(|error| ComponentVersionError::Write { path: target.clone(), error })?;
        self.candidates.drop_successor(name);
        match digest_back {
            Some(digest) => {
                let signature = self.admitter.gate.stamp(&target);
                self.files.insert(target, KnownFile::placed(signature, digest, name));
            }
            None => drop(self.files.remove(&target)),
        }
        AuditEntry::new(AuditKind::ComponentWithdrawn).with("backend", name).note();
        tracing::info!(backend = name, kept = %moved.display(), "the new version was withdrawn");
        Ok(moved)
    }
}

impl Candidates {
    /// Makes a component the one on rollout.
    pub(super) fn hold_back(&mut self, candidate: Candidate) -> LoadReport {
        let (name, version) =
            (candidate.descriptor.name.clone(), candidate.descriptor.version.clone());
        let (path, digest) = (candidate.path.clone(), candidate.digest.clone());
        let serving = self.serving(&name).map(|serving| format!("{:?}", serving.backend));
        self.set_successor(candidate);
        tracing::info!(backend = %name, version, digest = short(&digest), serving, path = %path.display(), "a new version is on rollout and does not serve yet; hint: `aetheel backend rollout {name}` shows its state");
        LoadReport::OnRollout { name, path }
    }

    /// Returns whether a component must be promoted before it serves. It need not if another file
    /// would serve anyway, or if it is made for the installed agent and the serving one is not.
    fn must_wait(&self, candidate: &Candidate) -> bool {
        let name = &candidate.descriptor.name;
        let Some(serving) = self.serving(name).map(|serving| serving.backend) else {
            return false;
        };
        if serving.generation().digest == candidate.digest
            || self.would_serve(candidate).0.digest != candidate.digest
        {
            return false;
        }
        let agent = self.agent_version(name);
        let fits = |descriptor: &aetheel_model::agent::Descriptor| {
            agent.as_deref().and_then(|agent| descriptor.fits(agent))
        };
        !(fits(&candidate.descriptor) == Some(true) && fits(serving.descriptor()) == Some(false))
    }

    /// Adds the successor of a backend to its candidates if it need not wait any more, because the
    /// version of the agent changed.
    pub(super) fn reconsider_successor(&mut self, name: &str) {
        if let Some(successor) = self.successor(name)
            && !self.must_wait(&successor)
        {
            self.drop_successor(name);
            self.insert(successor);
        }
    }

    fn known_successor(&self, name: &str, digest: &str) -> Result<Candidate, VersionError> {
        let successor = self.successor(name);
        successor
            .filter(|successor| successor.digest == digest)
            .ok_or_else(|| ComponentVersionError::NotOnRollout(name.to_owned()).into())
    }

    /// Drops the successor whose file is at this path, unless the file still contains it.
    pub(super) fn drop_changed_successor(&mut self, path: &Path, digest: Option<&str>) {
        let changed = self.successor_of_file(path);
        if let Some(successor) = changed.filter(|it| Some(it.digest.as_str()) != digest) {
            let name = &successor.descriptor.name;
            self.drop_successor(name);
            tracing::info!(backend = %name, path = %path.display(), "the file of a new version changed, which ends its rollout");
        }
    }
}
