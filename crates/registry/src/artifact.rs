//! A backend as an artifact: its manifest with all blobs.

use bytes::Bytes;

use crate::digest::BlobDigest;
use crate::manifest::{BackendManifest, TITLE};

/// A backend with its manifest. The bytes of each blob have the digest that the manifest names.
pub struct BackendArtifact {
    digest: BlobDigest,
    parts: BackendManifest,
    /// The bytes of the blobs, in the order of [`BackendManifest::blobs`].
    blobs: Vec<Bytes>,
}

impl BackendArtifact {
    pub(crate) fn new(digest: BlobDigest, parts: BackendManifest, blobs: Vec<Bytes>) -> Self {
        Self { digest, parts, blobs }
    }

    /// Returns the digest of the manifest.
    #[must_use]
    pub fn digest(&self) -> &BlobDigest {
        &self.digest
    }

    /// Returns the component.
    #[must_use]
    pub fn component(&self) -> &Bytes {
        &self.blobs[1]
    }

    /// Returns the file name of the component, as its publisher chose it. It can be anything.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.parts.component.annotations.get(TITLE).map(String::as_str)
    }

    /// Returns the component's signature.
    #[must_use]
    pub fn signature(&self) -> Option<&Bytes> {
        self.parts.signature.as_ref().map(|_| &self.blobs[2])
    }

    /// Returns the packed cases.
    #[must_use]
    pub fn cases(&self) -> Option<&Bytes> {
        self.parts.cases.as_ref().and_then(|_| self.blobs.last())
    }

    /// Returns the digest of the packed cases.
    #[must_use]
    pub fn cases_digest(&self) -> Option<&BlobDigest> {
        self.parts.cases.as_ref().map(|blob| &blob.digest)
    }
}
