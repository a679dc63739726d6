//! Folders with the OCI image layout: artifacts for machines without a network.
//!
//! A folder has `oci-layout`, `index.json` with an entry for each artifact, and `blobs/sha256/` with
//! everything else. Each entry has the reference of its artifact as an annotation.

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::Deserialize;

use aetheel_runtime::ordinary::read_ordinary;

use crate::digest::BlobDigest;
use crate::manifest::{BlobDescriptor, MAX_MANIFEST_BYTES};
use crate::reference::ArtifactReference;

const LAYOUT_FILE: &str = "oci-layout";
const INDEX_FILE: &str = "index.json";
/// The annotation with the reference of an artifact.
const REF_NAME: &str = "org.opencontainers.image.ref.name";
const MAX_INDEX_BYTES: u64 = 4 << 20;

/// The reason why a folder with artifacts cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// A file has another format.
    #[error("{} is invalid: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The folder does not have the artifact.
    #[error("{} does not contain {reference}", folder.display())]
    Missing {
        /// The folder.
        folder: PathBuf,
        /// The reference of the artifact.
        reference: String,
    },
}

impl LayoutError {
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Read { .. } | Self::Invalid { .. } => {
                "name a folder with the OCI image layout, which `oras copy --to-oci-layout` writes"
            }
            Self::Missing { .. } => {
                "copy it into the folder with `oras copy --to-oci-layout`, and name it by its digest"
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LayoutMarker {
    image_layout_version: String,
}

#[derive(Deserialize)]
struct LayoutIndex {
    manifests: Vec<BlobDescriptor>,
}

/// A folder with the OCI image layout.
pub struct LayoutFolder {
    path: PathBuf,
    index: LayoutIndex,
}

impl LayoutFolder {
    /// Opens a folder. Blocks.
    ///
    /// # Errors
    /// [`LayoutError`] if it is not a folder with the OCI image layout.
    pub fn open(path: &Path) -> Result<Self, LayoutError> {
        let marker: LayoutMarker = parse(&path.join(LAYOUT_FILE))?;
        if !marker.image_layout_version.starts_with("1.") {
            let reason = format!("version {:?} is unknown", marker.image_layout_version);
            return Err(LayoutError::Invalid { path: path.join(LAYOUT_FILE), reason });
        }
        Ok(Self { path: path.to_owned(), index: parse(&path.join(INDEX_FILE))? })
    }

    /// Reads the manifest of an artifact. Its digest is not checked.
    pub(crate) fn manifest(&self, reference: &ArtifactReference) -> Result<Bytes, LayoutError> {
        let named = || {
            let name = reference.bare();
            let entries = &self.index.manifests;
            let found = entries.iter().find(|it| it.annotations.get(REF_NAME) == Some(&name));
            found.map(|entry| entry.digest.clone())
        };
        let missing =
            || LayoutError::Missing { folder: self.path.clone(), reference: reference.to_string() };
        let digest = reference.digest().cloned().or_else(named).ok_or_else(missing)?;
        if !self.blob_path(&digest).exists() {
            return Err(missing());
        }
        self.blob(&digest, MAX_MANIFEST_BYTES)
    }

    /// Reads a blob of at most `limit` bytes. Its digest is not checked.
    pub(crate) fn blob(&self, digest: &BlobDigest, limit: u64) -> Result<Bytes, LayoutError> {
        let path = self.blob_path(digest);
        match read_ordinary(&path, limit) {
            Ok(bytes) => Ok(bytes.into()),
            Err(error) => Err(LayoutError::Read { path, error }),
        }
    }

    fn blob_path(&self, digest: &BlobDigest) -> PathBuf {
        self.path.join("blobs/sha256").join(digest.hex())
    }
}

fn parse<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, LayoutError> {
    let text = read_ordinary(path, MAX_INDEX_BYTES)
        .map_err(|error| LayoutError::Read { path: path.to_owned(), error })?;
    serde_json::from_slice(&text)
        .map_err(|error| LayoutError::Invalid { path: path.to_owned(), reason: error.to_string() })
}
