//! Prepares a component for the backends folder: examines it like loading does, then installs it
//! atomically.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::admission::{Admitted, Inspection};
use super::component::ComponentBackend;
use super::engine::Engine;
use super::error::AdmissionError;
use super::install::{self, PreparedFile};
use super::source::{self, ComponentSource};
use super::trust::{TrustGate, read_signature, signature_of};
use super::trust_state::TrustState;
use aetheel_model::choice::Trust;
use aetheel_recording::selftest;
use aetheel_store::workspace::ServedComponent;

/// An admitted component, with exactly the bytes that were admitted.
pub struct StagedComponent {
    /// The facts from its admission.
    pub inspection: Inspection,
    /// The reason why it may serve.
    pub trust: TrustState,
    /// The component on trial.
    pub backend: ComponentBackend,
    bytes: Arc<[u8]>,
    signature: Option<Vec<u8>>,
}

impl Engine {
    /// Reads, checks and admits a file. With `pin`, the operator vouches for it, so it need not be
    /// pinned yet.
    ///
    /// # Errors
    /// [`AdmissionError`], the reason why it could not serve.
    pub async fn stage(
        &self,
        path: &Path,
        gate: &TrustGate,
        pin: bool,
    ) -> Result<StagedComponent, AdmissionError> {
        let ComponentSource { bytes, digest, .. } =
            source::read(path.to_owned(), self.limits().component).await?;
        let beside = signature_of(path);
        let signature =
            tokio::task::spawn_blocking(move || read_signature(&beside)).await.unwrap_or_default();
        self.stage_bytes(path, ServedComponent { digest, bytes, signature }, gate, pin).await
    }

    /// Checks and admits bytes that did not come from a file. `path` is used only in messages, and
    /// the digest must be that of the bytes.
    ///
    /// # Errors
    /// [`AdmissionError`], the reason why it could not serve.
    pub async fn stage_bytes(
        &self,
        path: &Path,
        ServedComponent { digest, bytes, signature }: ServedComponent,
        gate: &TrustGate,
        pin: bool,
    ) -> Result<StagedComponent, AdmissionError> {
        let (size, limit) = (bytes.len() as u64, self.limits().component);
        if size > limit {
            return Err(AdmissionError::TooLarge { size, limit });
        }
        let vouched = pin && gate.level() == Trust::Pinned;
        let trust = match vouched {
            true => TrustState::Pinned,
            false => gate.judge_bytes(path, &digest, &bytes, signature.as_deref()).await?,
        };
        let Admitted { descriptor, blueprint, contract, imports } =
            self.admit(bytes.clone(), path).await?;
        if !vouched {
            gate.judge_name(&digest, &descriptor.name).await?;
        }
        let backend = ComponentBackend::on_trial(descriptor.clone(), digest.clone(), blueprint);
        let inspection = Inspection { descriptor, contract, imports, size, digest };
        Ok(StagedComponent { inspection, trust, backend, bytes, signature })
    }
}

impl StagedComponent {
    /// Returns its entry for the store of components that served.
    #[must_use]
    pub fn served(&self) -> ServedComponent {
        ServedComponent {
            digest: self.inspection.digest.clone(),
            bytes: self.bytes.clone(),
            signature: self.signature.clone(),
        }
    }

    /// Tests it with the recordings beside the target, as loading it there will.
    ///
    /// # Errors
    /// [`AdmissionError::Case`] if it fails one of them.
    pub async fn try_in_place(&self, target: &Path) -> Result<(), AdmissionError> {
        let folder = selftest::folder_of(target);
        let cases = tokio::task::spawn_blocking(move || selftest::read(&folder));
        let cases = cases
            .await
            .map_err(|error| AdmissionError::Read(io::Error::other(error)))?
            .map_err(AdmissionError::Case)?;
        selftest::run(&self.backend, &cases).await.map_err(AdmissionError::Case)
    }

    /// Writes it under a hidden name beside the target. [`Installation::finish`] renames it.
    ///
    /// # Errors
    /// The system's error. Nothing has changed then.
    pub async fn prepare(&self, target: &Path) -> io::Result<Installation> {
        if target.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let (target, bytes, signature): (PathBuf, _, _) =
            (target.to_owned(), self.bytes.clone(), self.signature.clone());
        let ready = tokio::task::spawn_blocking(move || {
            install::prepare(&target, &bytes, signature.as_deref())
        });
        Ok(Installation(ready.await.map_err(io::Error::other)??))
    }
}

/// A component under a hidden name beside its target. Dropping it removes it.
pub struct Installation(PreparedFile);

impl Installation {
    /// Renames it to the target. If `aside` is given, the file that it replaces is kept under that
    /// name.
    ///
    /// # Errors
    /// The system's error. The old component is then still in its place.
    pub async fn finish(self, aside: Option<PathBuf>) -> io::Result<()> {
        tokio::task::spawn_blocking(move || self.0.install(aside.as_deref()))
            .await
            .map_err(io::Error::other)?
    }
}
