//! Reads, checks and admits single components.

use std::path::Path;

use super::candidates::Candidate;
use super::engine::Engine;
use super::error::AdmissionError;
use super::source::{self, ComponentSource};
use super::trust::TrustGate;
use super::version_error::ComponentVersionError;
use aetheel_store::disk::Stamp;
use aetheel_store::workspace::ServedComponent;
use aetheel_turn::VersionError;

/// Decides whether a component may be used.
pub(super) struct Admitter {
    pub(super) engine: Engine,
    pub(super) gate: TrustGate,
}

impl Admitter {
    /// Returns the largest size of a component, in bytes.
    pub(super) fn limit(&self) -> u64 {
        self.engine.limits().component
    }

    pub(super) async fn read(&self, path: &Path) -> Result<ComponentSource, AdmissionError> {
        source::read(path.to_owned(), self.limit()).await
    }

    /// Checks the trust of a component that was read from a file, and admits it.
    pub(super) async fn admit(
        &self,
        path: &Path,
        source: ComponentSource,
    ) -> Result<Candidate, AdmissionError> {
        let trust = self.gate.judge(path, &source).await?;
        let ComponentSource { bytes, digest, stamp } = source;
        let candidate = self.engine.candidate(path, bytes, digest, stamp.modified(), trust).await?;
        self.gate.judge_descriptor(&candidate.digest, &candidate.descriptor).await?;
        Ok(candidate)
    }

    /// Checks and admits a kept component for the place of a file.
    pub(super) async fn readmit(
        &self,
        target: &Path,
        name: &str,
        served: &ServedComponent,
    ) -> Result<Candidate, AdmissionError> {
        let trust = self
            .gate
            .judge_bytes(target, &served.digest, &served.bytes, served.signature.as_deref())
            .await?;
        let written = Stamp::of(target).map_or((0, 0), |stamp| stamp.modified());
        let candidate = self
            .engine
            .candidate(target, served.bytes.clone(), served.digest.clone(), written, trust)
            .await?;
        self.gate.judge_descriptor(&candidate.digest, &candidate.descriptor).await?;
        if candidate.descriptor.name != name {
            return Err(AdmissionError::SelfTest("it is another backend"));
        }
        Ok(candidate)
    }

    /// Returns the digest of the file that is to be replaced, or `None` if it does not exist. The
    /// file must contain the component that serves, or be refused.
    pub(super) async fn replaced(
        &self,
        target: &Path,
        serves: Option<&str>,
    ) -> Result<Option<String>, ComponentVersionError> {
        let path = target.to_owned();
        match self.read(target).await {
            Ok(source) if serves.is_none_or(|serves| serves == source.digest) => {
                Ok(Some(source.digest))
            }
            Ok(_) => Err(ComponentVersionError::FileChanged(path)),
            Err(AdmissionError::Read(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(ComponentVersionError::Unreadable { path, error }),
        }
    }

    /// Reads the file of a successor, which must still contain it.
    pub(super) async fn read_successor(
        &self,
        successor: &Candidate,
    ) -> Result<ComponentSource, VersionError> {
        let path = successor.path.clone();
        match self.read(&path).await {
            Ok(source) if source.digest == successor.digest => Ok(source),
            Ok(_) => Err(ComponentVersionError::FileChanged(path).into()),
            Err(error) => Err(ComponentVersionError::Unreadable { path, error }.into()),
        }
    }
}
