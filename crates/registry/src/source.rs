//! The two places from which artifacts are read.

use bytes::Bytes;

use crate::artifact::BackendArtifact;
use crate::client::RegistryClient;
use crate::digest::BlobDigest;
use crate::error::RegistryError;
use crate::layout::LayoutFolder;
use crate::manifest::{BackendManifest, BlobDescriptor, MANIFEST_TYPE, MAX_MANIFEST_BYTES};
use crate::reference::ArtifactReference;

/// A registry, or a folder with the OCI image layout.
pub enum ArtifactSource {
    /// A registry.
    Registry(Box<RegistryClient>),
    /// A folder.
    Folder(LayoutFolder),
}

impl ArtifactSource {
    /// Reads an artifact. A tag is resolved once: everything else is read by its digest. `limit` is
    /// the maximum size of the component, in bytes.
    ///
    /// # Errors
    /// [`RegistryError`]. Nothing of an artifact with a wrong digest or size is returned.
    pub async fn fetch(
        &self,
        reference: &ArtifactReference,
        limit: u64,
    ) -> Result<BackendArtifact, RegistryError> {
        let manifest = self.manifest(reference).await?;
        let digest = BlobDigest::of(&manifest);
        let wrong = |expected: &BlobDigest, got| RegistryError::WrongDigest {
            reference: reference.to_string(),
            expected: expected.clone(),
            got,
        };
        if let Some(expected) = reference.digest().filter(|expected| **expected != digest) {
            return Err(wrong(expected, digest));
        }
        let parsed = BackendManifest::parse(&manifest, limit).map_err(|source| {
            RegistryError::Manifest { reference: reference.to_string(), source }
        })?;
        let mut blobs = Vec::new();
        for blob in parsed.blobs() {
            let bytes = self.blob(blob).await?;
            let got = BlobDigest::of(&bytes);
            if got != blob.digest {
                return Err(wrong(&blob.digest, got));
            }
            blobs.push(bytes);
        }
        Ok(BackendArtifact::new(digest, parsed, blobs))
    }

    async fn manifest(&self, reference: &ArtifactReference) -> Result<Bytes, RegistryError> {
        match self {
            Self::Registry(client) => {
                let part = format!("manifests/{}", reference.version());
                client.get(&part, MANIFEST_TYPE, MAX_MANIFEST_BYTES).await
            }
            Self::Folder(folder) => Ok(folder.manifest(reference)?),
        }
    }

    /// Reads a blob of at most the size that the manifest names.
    async fn blob(&self, blob: &BlobDescriptor) -> Result<Bytes, RegistryError> {
        match self {
            Self::Registry(client) => {
                client.get(&format!("blobs/{}", blob.digest), "*/*", blob.size).await
            }
            Self::Folder(folder) => Ok(folder.blob(&blob.digest, blob.size)?),
        }
    }
}
