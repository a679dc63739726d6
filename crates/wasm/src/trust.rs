//! Whether a component may serve here: its SHA-256 is pinned, or somebody the operator named signed
//! it; and what it may do was accepted.
//!
//! Judged are the bytes that are compiled afterwards, never a file that could be another one by
//! then. Pinned by `tests/backend/trust.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minisign_verify::{PublicKey, Signature};

use super::error::AdmissionError;
use super::source::Source;
use super::standing::{Distrust, Standing};
use super::wants::Wants;
use aetheel_model::agent::Descriptor;
use aetheel_model::config::{Config, Trust};
use aetheel_model::plain::clean_text;
use aetheel_store::disk::Stamp;
use aetheel_store::workspace::{BackendFile, BackendNotes, FileError};

/// Largest signature file read, bytes; real ones have about 300.
const SIGNATURE_LIMIT: u64 = 16 << 10;

/// The trust settings of the operator, by which components are let in. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gate {
    level: Trust,
    /// The operator's decisions; none: everything is let in.
    notes: Option<BackendFile>,
    signers: Vec<PublicKey>,
}

impl Gate {
    /// Lets everything in, whatever it may do.
    #[must_use]
    pub fn open() -> Self {
        Self { level: Trust::Any, notes: None, signers: Vec::new() }
    }

    /// As the operator wants it.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let notes = Some(BackendFile::new(&config.config_dir));
        Self { level: config.backend_trust, notes, signers: config.backend_signers.clone() }
    }

    /// Makes sure that the operator's decisions can be read.
    ///
    /// # Errors
    /// [`FileError`] if `backends.md` exists but cannot be read.
    pub async fn require(&self) -> Result<(), FileError> {
        match &self.notes {
            Some(notes) => notes.require().await,
            None => Ok(()),
        }
    }

    /// The level of trust it asks for.
    #[must_use]
    pub fn level(&self) -> Trust {
        self.level
    }

    /// Judges what was read from a file, with the signature beside it.
    pub(super) async fn judge(
        &self,
        path: &Path,
        source: &Source,
    ) -> Result<Standing, AdmissionError> {
        let (gate, beside) = (self.clone(), signature_of(path));
        let signature = match self.level {
            Trust::Signed => tokio::task::spawn_blocking(move || read_signature(&beside))
                .await
                .unwrap_or_default(),
            Trust::Any | Trust::Pinned => None,
        };
        gate.judge_bytes(path, &source.digest, &source.bytes, signature.as_deref()).await
    }

    /// Judges bytes with this digest. `path` is for the words only.
    pub(super) async fn judge_bytes(
        &self,
        path: &Path,
        digest: &str,
        bytes: &[u8],
        signature: Option<&[u8]>,
    ) -> Result<Standing, AdmissionError> {
        let distrust = |reason| Err(AdmissionError::Untrusted(reason));
        match self.level {
            Trust::Any => Ok(Standing::Unchecked),
            Trust::Pinned if !self.pinned_for(digest).await.is_empty() => Ok(Standing::Pinned),
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
                // Both ways of minisign to sign: of the file, and of its hash.
                match self
                    .signers
                    .iter()
                    .position(|key| key.verify(bytes, &signature, true).is_ok())
                {
                    Some(at) => {
                        Ok(Standing::Signed { key: at + 1, comment: comment_of(&signature) })
                    }
                    None => distrust(Distrust::NotOurs),
                }
            }
        }
    }

    /// Whether a component may be what it says of itself: pinned under this name, where pins count,
    /// and within what is accepted.
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

    /// Whether a pinned component is pinned under the name it gives itself.
    pub(super) async fn judge_name(&self, digest: &str, name: &str) -> Result<(), AdmissionError> {
        let backends = self.pinned_for(digest).await;
        if self.level != Trust::Pinned || backends.contains(name) {
            return Ok(());
        }
        let pinned = Vec::from_iter(backends).join("`, `");
        Err(AdmissionError::Untrusted(Distrust::PinnedAs { pinned, name: name.to_owned() }))
    }

    /// The backends that a digest is pinned for now.
    pub(super) async fn pinned_for(&self, digest: &str) -> BTreeSet<String> {
        self.notes().await.and_then(|notes| notes.of(digest).cloned()).unwrap_or_default()
    }

    /// The wishes of a component with this descriptor beyond what is accepted now.
    pub async fn wants(&self, descriptor: &Descriptor) -> Option<Wants> {
        let notes = self.notes().await?;
        Wants::of(descriptor, notes.accepted(&descriptor.name))
    }

    /// Warnings about entries of `backends.md` that are left out.
    pub async fn warnings(&self) -> Vec<String> {
        self.notes().await.map(|notes| notes.warnings.clone()).unwrap_or_default()
    }

    /// The operator's decisions; entries that are left out are logged whenever the file changed.
    async fn notes(&self) -> Option<Arc<BackendNotes>> {
        let (notes, changed) = self.notes.as_ref()?.refresh().await;
        for warning in notes.warnings.iter().filter(|_| changed) {
            tracing::warn!("{warning}");
        }
        Some(notes)
    }

    /// The stamp of a file's signature, where one counts.
    pub(super) fn stamp(&self, path: &Path) -> Option<Stamp> {
        if self.level == Trust::Signed { Stamp::of(&signature_of(path)) } else { None }
    }
}

/// Where the signature of a file is looked for.
pub(super) fn signature_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".minisig");
    PathBuf::from(name)
}

/// Reads a signature; none: there is nothing that could be one.
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
