//! Opens known components on trial. Each is checked and admitted like any other, and its failures
//! do not count for the component that serves.

use std::sync::Arc;

use super::component::ComponentBackend;
use super::loader::Loader;
use super::source;
use super::trust::{read_signature, signature_of};
use super::version_error::ComponentVersionError;
use aetheel_store::workspace::ServedComponent;
use aetheel_turn::{Backend as _, ComponentStatus, KnownComponent};

impl Loader {
    /// Returns the known components of a backend, the one that serves first. Loads none of them.
    pub(super) async fn known(&self, name: &str) -> Vec<KnownComponent> {
        let serving = self.candidates.serving(name);
        let mut known: Vec<KnownComponent> = Vec::new();
        let mut add = |digest: &str, version: Option<&str>, shelf| {
            if !known.iter().any(|known| known.digest == digest) {
                let (digest, version) = (digest.to_owned(), version.map(str::to_owned));
                known.push(KnownComponent { digest, version, status: shelf });
            }
        };
        if let Some(serving) = serving {
            let version = serving.backend.descriptor().version.as_str();
            add(&serving.backend.generation().digest, Some(version), ComponentStatus::Serving);
        }
        if let Some(successor) = self.candidates.successor(name) {
            let version = successor.descriptor.version.as_str();
            add(&successor.digest, Some(version), ComponentStatus::OnRollout);
        }
        for candidate in self.candidates.of(name) {
            add(&candidate.digest, Some(&candidate.descriptor.version), ComponentStatus::Standby);
        }
        if let Some(store) = self.components.clone() {
            let backend = name.to_owned();
            let kept = tokio::task::spawn_blocking(move || {
                (store.kept(&backend), store.kept_partial(&backend))
            });
            let (kept, partial) = kept.await.unwrap_or_default();
            kept.iter().for_each(|digest| add(digest, None, ComponentStatus::Previous));
            partial.iter().for_each(|digest| add(digest, None, ComponentStatus::Partial));
        }
        if let Some(shipped) = self.shipped(name).await {
            add(&shipped.digest, None, ComponentStatus::Shipped);
        }
        known
    }

    /// Opens a known component on trial.
    ///
    /// # Errors
    /// [`ComponentVersionError`] if it does not exist or may not be used.
    pub(super) async fn on_trial(
        &self,
        name: &str,
        digest: &str,
    ) -> Result<ComponentBackend, ComponentVersionError> {
        let serving = self.candidates.serving(name).map(|serving| serving.backend);
        if let Some(backend) = serving.filter(|backend| backend.generation().digest == digest) {
            return Ok(backend.for_trial());
        }
        let successor = self.candidates.successor(name);
        let mut admitted = self.candidates.of(name).chain(&successor);
        if let Some(candidate) = admitted.find(|known| known.digest == digest) {
            let (descriptor, blueprint) =
                (candidate.descriptor.clone(), Arc::clone(&candidate.blueprint));
            return Ok(ComponentBackend::on_trial(descriptor, digest.to_owned(), blueprint));
        }
        let kept = match self.components.clone() {
            Some(store) => {
                let backend = name.to_owned();
                let kept = tokio::task::spawn_blocking(move || store.all(&backend)).await;
                kept.unwrap_or_default().into_iter().find(|served| served.digest == digest)
            }
            None => None,
        };
        let found = match kept {
            Some(kept) => Some(kept),
            None => self.shipped(name).await.filter(|shipped| shipped.digest == digest),
        };
        let found = found.ok_or_else(|| ComponentVersionError::Deleted(name.to_owned()))?;
        let target = self.directory.join(format!("{name}.wasm"));
        let candidate = self
            .readmit(&target, name, &found)
            .await
            .map_err(ComponentVersionError::NotAdmittedForTrial)?;
        Ok(ComponentBackend::on_trial(candidate.descriptor, candidate.digest, candidate.blueprint))
    }

    /// Returns the component of a backend that was shipped with the program.
    async fn shipped(&self, name: &str) -> Option<ServedComponent> {
        let path = self.shipped.as_ref()?.join(format!("{name}.wasm"));
        let source = source::read(path.clone(), self.engine.limits().component).await.ok()?;
        let signature = read_signature(&signature_of(&path));
        Some(ServedComponent { digest: source.digest, bytes: source.bytes, signature })
    }
}
