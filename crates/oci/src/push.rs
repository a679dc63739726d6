//! Stores an artifact in a registry.

use reqwest::header::{CONTENT_TYPE, LOCATION};
use reqwest::{Method, StatusCode, Url};

use crate::artifact::BackendArtifact;
use crate::client::{Access, Call, RegistryClient};
use crate::digest::BlobDigest;
use crate::error::OciError;
use crate::login::RegistryLogin;
use crate::manifest::{BlobDescriptor, MANIFEST_TYPE, MAX_MANIFEST_BYTES};
use crate::reference::ArtifactReference;

impl BackendArtifact {
    /// Stores the artifact in a registry under a tag, and returns the reference with its digest.
    /// Blobs that the registry already has are not sent again. With `replace`, the tag may be that
    /// of another version.
    ///
    /// # Errors
    /// [`OciError`]. The tag is written last, so it names either the old or the whole new version.
    pub async fn push(
        &self,
        reference: &ArtifactReference,
        login: Option<RegistryLogin>,
        replace: bool,
    ) -> Result<ArtifactReference, OciError> {
        let client = RegistryClient::with_access(reference, login, Access::Push)?;
        if !replace && let Some(taken) = client.taken(reference.version(), self.digest()).await? {
            return Err(OciError::TagTaken { reference: reference.to_string(), taken });
        }
        for (blob, bytes) in self.blobs() {
            client.put_blob(blob, bytes.clone()).await?;
        }
        let mut call = Call::new(Method::PUT);
        call.headers.insert(CONTENT_TYPE, MANIFEST_TYPE.parse().expect("media types are ASCII"));
        call.body = self.manifest().clone();
        let address = client.address(&format!("manifests/{}", reference.version()))?;
        let answer = client.send(&call, address).await?;
        client.expect(answer, StatusCode::CREATED).await?;
        Ok(reference.with_digest(self.digest().clone()))
    }
}

impl RegistryClient {
    /// Returns the digest of another version that the registry has under this name.
    async fn taken(&self, name: &str, own: &BlobDigest) -> Result<Option<BlobDigest>, OciError> {
        let part = format!("manifests/{name}");
        match self.get(&part, MANIFEST_TYPE, MAX_MANIFEST_BYTES).await {
            Ok(manifest) => Ok(Some(BlobDigest::of(&manifest)).filter(|other| other != own)),
            Err(OciError::Status { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn put_blob(&self, blob: &BlobDescriptor, bytes: bytes::Bytes) -> Result<(), OciError> {
        let there = self.address(&format!("blobs/{}", blob.digest))?;
        if self.send(&Call::new(Method::HEAD), there).await?.status() == StatusCode::OK {
            return Ok(());
        }
        let begun = self.send(&Call::new(Method::POST), self.address("blobs/uploads/")?).await?;
        let begun = self.expect(begun, StatusCode::ACCEPTED).await?;
        let mut address = self.upload_address(&begun)?;
        address.query_pairs_mut().append_pair("digest", blob.digest.as_str());
        let mut call = Call::new(Method::PUT);
        let octets = "application/octet-stream".parse().expect("media types are ASCII");
        call.headers.insert(CONTENT_TYPE, octets);
        call.body = bytes;
        // Credentials are left out if the address is not that of the registry.
        let answer = self.send(&call, address).await?;
        self.expect(answer, StatusCode::CREATED).await.map(drop)
    }

    fn upload_address(&self, begun: &reqwest::Response) -> Result<Url, OciError> {
        let location = begun.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        location.and_then(|location| begun.url().join(location).ok()).ok_or_else(|| {
            OciError::SignIn {
                registry: self.reference().registry().to_owned(),
                reason: "it names no address for the upload".to_owned(),
            }
        })
    }
}
