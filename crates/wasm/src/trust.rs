//! Decides whether a component may serve: its SHA-256 must be pinned or signed by a trusted key,
//! and the operator must have accepted its capabilities.
//!
//! The bytes that are checked are the ones that are compiled afterwards, never a file that could
//! have changed. `tests/backend/trust.rs` tests this module.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minisign_verify::{PublicKey, Signature};

use super::error::AdmissionError;
use super::requested::RequestedCapabilities;
use super::source::ComponentSource;
use super::trust_state::{Distrust, TrustState};
use aetheel_model::agent::Descriptor;
use aetheel_model::choice::Trust;
use aetheel_model::plain::clean_text;
use aetheel_store::disk::Stamp;
use aetheel_store::workspace::{BackendFile, BackendNotes, FileError};

/// Maximum size of a signature file in bytes. Real ones have about 300 bytes.
const SIGNATURE_LIMIT: u64 = 16 << 10;

/// The operator's trust settings, which decide about the admission of components. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TrustGate {
    level: Trust,
    /// The operator's decisions, or `None` to admit all components.
    notes: Option<BackendFile>,
    signers: Vec<PublicKey>,
}

impl TrustGate {
    /// Returns settings that admit all components, whatever their capabilities.
    #[must_use]
    pub fn open() -> Self {
        Self { level: Trust::Any, notes: None, signers: Vec::new() }
    }

    /// Returns the settings of an operator whose decisions are in `backends.md` in `config_dir`.
    #[must_use]
    pub fn new(config_dir: &Path, level: Trust, signers: Vec<PublicKey>) -> Self {
        Self { level, notes: Some(BackendFile::new(config_dir)), signers }
    }

    /// Checks that the operator's decisions can be read.
    ///
    /// # Errors
    /// [`FileError`] if `backends.md` exists but cannot be read.
    pub async fn require(&self) -> Result<(), FileError> {
        match &self.notes {
            Some(notes) => notes.require().await,
            None => Ok(()),
        }
    }

    /// Returns the required level of trust.
    #[must_use]
    pub fn level(&self) -> Trust {
        self.level
    }

    /// Checks the content of a file, with the signature beside it.
    pub(super) async fn judge(
        &self,
        path: &Path,
        source: &ComponentSource,
    ) -> Result<TrustState, AdmissionError> {
        let (gate, beside) = (self.clone(), signature_of(path));
        let signature = match self.level {
            Trust::Signed => tokio::task::spawn_blocking(move || read_signature(&beside))
                .await
                .unwrap_or_default(),
            Trust::Any | Trust::Pinned => None,
        };
        gate.judge_bytes(path, &source.digest, &source.bytes, signature.as_deref()).await
    }

    /// Checks bytes with this digest. `path` is used only in messages.
    pub(super) async fn judge_bytes(
        &self,
        path: &Path,
        digest: &str,
        bytes: &[u8],
        signature: Option<&[u8]>,
    ) -> Result<TrustState, AdmissionError> {
        let distrust = |reason| Err(AdmissionError::Untrusted(reason));
        match self.level {
            Trust::Any => Ok(TrustState::Unchecked),
            Trust::Pinned if !self.pinned_for(digest).await.is_empty() => Ok(TrustState::Pinned),
            Trust::Pinned => distrust(Distrust::NotPinned(digest.to_owned())),
            Trust::Signed => {
                let beside = signature_of(path);
                let Some(signature) = signature else {
                    return distrust(Distrust::NotSigned(beside));
                };
                let text = std::str::from_utf8(signature).unwrap_or_default();
                let Ok(signature) = Signature::decode(text) else {
                    return distrust(Distrust::NoSignature(beside));
                };
                // Minisign can sign a file or its hash. Both are accepted.
                match self
                    .signers
                    .iter()
                    .position(|key| key.verify(bytes, &signature, true).is_ok())
                {
                    Some(at) => {
                        Ok(TrustState::Signed { key: at + 1, comment: comment_of(&signature) })
                    }
                    None => distrust(Distrust::NotOurs),
                }
            }
        }
    }

    /// Checks the descriptor of a component: it must be pinned under its name, if pins are
    /// required, and its capabilities must be accepted.
    pub(super) async fn judge_descriptor(
        &self,
        digest: &str,
        descriptor: &Descriptor,
    ) -> Result<(), AdmissionError> {
        self.judge_name(digest, &descriptor.name).await?;
        match self.wants(descriptor).await {
            Some(wants) => Err(AdmissionError::Unaccepted(Arc::new(wants))),
            None => Ok(()),
        }
    }

    /// Checks that a pinned component is pinned under the name in its descriptor.
    pub(super) async fn judge_name(&self, digest: &str, name: &str) -> Result<(), AdmissionError> {
        let backends = self.pinned_for(digest).await;
        if self.level != Trust::Pinned || backends.contains(name) {
            return Ok(());
        }
        let pinned = Vec::from_iter(backends).join("`, `");
        Err(AdmissionError::Untrusted(Distrust::PinnedAs { pinned, name: name.to_owned() }))
    }

    pub(super) async fn pinned_for(&self, digest: &str) -> BTreeSet<String> {
        self.notes().await.and_then(|notes| notes.of(digest).cloned()).unwrap_or_default()
    }

    /// Returns the capabilities in a descriptor that are not accepted yet.
    pub async fn wants(&self, descriptor: &Descriptor) -> Option<RequestedCapabilities> {
        let notes = self.notes().await?;
        RequestedCapabilities::of(descriptor, notes.accepted(&descriptor.name))
    }

    /// Returns warnings about entries of `backends.md` that are ignored.
    pub async fn warnings(&self) -> Vec<String> {
        self.notes().await.map(|notes| notes.warnings.clone()).unwrap_or_default()
    }

    /// Returns the operator's decisions. Logs warnings about ignored entries whenever the file
    /// changed.
    async fn notes(&self) -> Option<Arc<BackendNotes>> {
        let (notes, changed) = self.notes.as_ref()?.refresh().await;
        for warning in notes.warnings.iter().filter(|_| changed) {
            tracing::warn!("{warning}");
        }
        Some(notes)
    }

    /// Returns the stamp of a file's signature, if signatures are required.
    pub(super) fn stamp(&self, path: &Path) -> Option<Stamp> {
        if self.level == Trust::Signed { Stamp::of(&signature_of(path)) } else { None }
    }
}

pub(super) fn signature_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".minisig");
    PathBuf::from(name)
}

/// Reads a signature file. Returns `None` if it does not exist or cannot be read.
pub(super) fn read_signature(path: &Path) -> Option<Vec<u8>> {
    // Opening a named pipe would wait for a writer.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    fs::File::open(path).ok()?.take(SIGNATURE_LIMIT).read_to_end(&mut text).ok()?;
    Some(text)
}

fn comment_of(signature: &Signature) -> String {
    clean_text(signature.trusted_comment()).chars().take(200).collect()
}
