//! A component on its way into the backends folder: examined as loading does, then installed at one
//! stroke.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::admission::{Admitted, Inspection};
use super::component::ComponentBackend;
use super::engine::Engine;
use super::error::AdmissionError;
use super::install::{self, Prepared};
use super::source::{self, Source};
use super::standing::Standing;
use super::trust::{Gate, read_signature, signature_of};
use aetheel_kit::selftest;
use aetheel_model::config::Trust;
use aetheel_store::workspace::Served;

/// A component that was admitted, with the very bytes that were.
pub struct StagedComponent {
    /// The facts that admission found about it.
    pub inspection: Inspection,
    /// Why it may serve.
    pub standing: Standing,
    /// Ready to be tried out.
    pub backend: ComponentBackend,
    bytes: Arc<[u8]>,
    signature: Option<Vec<u8>>,
}

impl Engine {
    /// Reads, judges and admits a file. With `pin` the operator vouches for it: it need not be
    /// pinned yet.
    ///
    /// # Errors
    /// [`AdmissionError`], the reason why it could not serve.
    pub async fn stage(
        &self,
        path: &Path,
        gate: &Gate,
        pin: bool,
    ) -> Result<StagedComponent, AdmissionError> {
        let Source { bytes, digest, .. } =
            source::read(path.to_owned(), self.limits().component).await?;
        let beside = signature_of(path);
        let signature =
            tokio::task::spawn_blocking(move || read_signature(&beside)).await.unwrap_or_default();
        self.stage_bytes(path, Served { digest, bytes, signature }, gate, pin).await
    }

    /// Judges and admits what came another way than as a file. `path` is for the words only, and
    /// the digest must be that of the bytes.
    ///
    /// # Errors
    /// [`AdmissionError`], the reason why it could not serve.
    pub async fn stage_bytes(
        &self,
        path: &Path,
        Served { digest, bytes, signature }: Served,
        gate: &Gate,
        pin: bool,
    ) -> Result<StagedComponent, AdmissionError> {
        let (size, limit) = (bytes.len() as u64, self.limits().component);
        if size > limit {
            return Err(AdmissionError::TooLarge { size, limit });
        }
        let vouched = pin && gate.level() == Trust::Pinned;
        let standing = match vouched {
            true => Standing::Pinned,
            false => gate.judge_bytes(path, &digest, &bytes, signature.as_deref()).await?,
        };
        let Admitted { descriptor, blueprint, contract, imports } =
            self.admit(bytes.clone(), path).await?;
        if !vouched {
            gate.judge_name(&digest, &descriptor.name).await?;
        }
        let backend = ComponentBackend::on_trial(descriptor.clone(), digest.clone(), blueprint);
        let inspection = Inspection { descriptor, contract, imports, size, digest };
        Ok(StagedComponent { inspection, standing, backend, bytes, signature })
    }
}

impl StagedComponent {
    /// Its entry in the store of components that served.
    #[must_use]
    pub fn served(&self) -> Served {
        Served {
            digest: self.inspection.digest.clone(),
            bytes: self.bytes.clone(),
            signature: self.signature.clone(),
        }
    }

    /// Tries it with the recordings that lie beside the target, as loading it there will.
    ///
    /// # Errors
    /// [`AdmissionError::Case`].
    pub async fn try_in_place(&self, target: &Path) -> Result<(), AdmissionError> {
        let folder = selftest::folder_of(target);
        let cases = tokio::task::spawn_blocking(move || selftest::read(&folder));
        let cases = cases
            .await
            .map_err(|error| AdmissionError::Read(io::Error::other(error)))?
            .map_err(AdmissionError::Case)?;
        selftest::run(&self.backend, &cases).await.map_err(AdmissionError::Case)
    }

    /// Writes it, hidden, beside the target; [`Installation::finish`] renames it.
    ///
    /// # Errors
    /// The system's error; nothing has changed then.
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

/// A component that lies, hidden, beside its target. Dropping it removes it without a trace.
pub struct Installation(Prepared);

impl Installation {
    /// Renames it to the target. With a name to put it aside under, the file it replaces is kept so.
    ///
    /// # Errors
    /// The system's error; the old component is still there then.
    pub async fn finish(self, aside: Option<PathBuf>) -> io::Result<()> {
        tokio::task::spawn_blocking(move || self.0.install(aside.as_deref()))
            .await
            .map_err(io::Error::other)?
    }
}
