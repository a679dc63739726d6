//! Folders with the OCI image layout: artifacts for machines without a network.
//!
//! A folder has `oci-layout`, `index.json` with an entry for each artifact, and `blobs/sha256/` with
//! everything else. Each entry has the reference of its artifact as an annotation.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use aetheel_store::disk::{WORLD_READABLE_MODE, read_ordinary, replace_for};

use crate::artifact::BackendArtifact;
use crate::digest::BlobDigest;
use crate::manifest::{BlobDescriptor, MANIFEST_TYPE, MAX_MANIFEST_BYTES};
use crate::reference::ArtifactReference;

const LAYOUT_FILE: &str = "oci-layout";
const INDEX_FILE: &str = "index.json";
const LAYOUT_VERSION: &str = "1.0.0";
/// The annotation with the reference of an artifact.
const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// Maximum size of the index, in bytes.
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
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
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
                "name a folder that `aetheel backend mirror` wrote"
            }
            Self::Write { .. } => "check the permissions and the free space of the folder",
            Self::Missing { .. } => {
                "add it with `aetheel backend mirror` on a machine with a network"
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LayoutMarker {
    image_layout_version: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LayoutIndex {
    schema_version: u32,
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

    /// Opens a folder, and creates an empty one if it is missing or has no files. Blocks.
    ///
    /// # Errors
    /// [`LayoutError`] if the folder has other files, or cannot be written.
    pub fn open_or_create(path: &Path) -> Result<Self, LayoutError> {
        let is_empty = match fs::read_dir(path) {
            Ok(mut files) => files.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(LayoutError::Read { path: path.to_owned(), error }),
        };
        if !is_empty {
            return Self::open(path);
        }
        let blobs = path.join("blobs/sha256");
        fs::create_dir_all(&blobs).map_err(|error| LayoutError::Write { path: blobs, error })?;
        let folder = Self {
            path: path.to_owned(),
            index: LayoutIndex { schema_version: 2, manifests: Vec::new() },
        };
        folder.write_index()?;
        let marker = LayoutMarker { image_layout_version: LAYOUT_VERSION.to_owned() };
        write(&path.join(LAYOUT_FILE), &json(&marker))?;
        Ok(folder)
    }

    /// Adds an artifact, in place of another one with the same reference. Blocks.
    ///
    /// # Errors
    /// [`LayoutError`]. The index is written last, so the folder stays usable.
    pub fn add(
        &mut self,
        reference: &ArtifactReference,
        artifact: &BackendArtifact,
    ) -> Result<(), LayoutError> {
        for (blob, bytes) in artifact.blobs() {
            self.write_blob(&blob.digest, bytes)?;
        }
        self.write_blob(artifact.digest(), artifact.manifest())?;
        let mut entry = BlobDescriptor::of(MANIFEST_TYPE, artifact.manifest());
        let name = reference.tag_only().unwrap_or_else(|| reference.clone()).bare();
        self.index.manifests.retain(|known| known.annotations.get(REF_NAME) != Some(&name));
        entry.annotations.insert(REF_NAME.to_owned(), name);
        self.index.manifests.push(entry);
        self.write_index()
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

    fn write_blob(&self, digest: &BlobDigest, bytes: &[u8]) -> Result<(), LayoutError> {
        let path = self.blob_path(digest);
        let is_there = fs::read(&path).is_ok_and(|there| BlobDigest::of(&there) == *digest);
        if is_there { Ok(()) } else { write(&path, bytes) }
    }

    fn write_index(&self) -> Result<(), LayoutError> {
        write(&self.path.join(INDEX_FILE), &json(&self.index))
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec_pretty(value).expect("these types have string keys only")
}

fn write(path: &Path, content: &[u8]) -> Result<(), LayoutError> {
    replace_for(path, content, WORLD_READABLE_MODE)
        .map(drop)
        .map_err(|error| LayoutError::Write { path: path.to_owned(), error })
}

fn parse<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, LayoutError> {
    let text = read_ordinary(path, MAX_INDEX_BYTES)
        .map_err(|error| LayoutError::Read { path: path.to_owned(), error })?;
    serde_json::from_slice(&text)
        .map_err(|error| LayoutError::Invalid { path: path.to_owned(), reason: error.to_string() })
}
