//! A backend as an artifact: its manifest with all blobs.

use bytes::Bytes;
use serde::Serialize;

use crate::digest::BlobDigest;
use crate::manifest::{
    BackendManifest, BlobDescriptor, CASES_TYPE, COMPONENT_TYPE, CONFIG_TYPE, ManifestError,
    SIGNATURE_TYPE, TITLE,
};

/// The parts from which an artifact is made.
pub struct ArtifactInput {
    /// The name of the component's file.
    pub file: String,
    /// The component.
    pub component: Bytes,
    /// Its minisign signature.
    pub signature: Option<Bytes>,
    /// Its packed cases.
    pub cases: Option<Bytes>,
    /// The interfaces that the component exports.
    pub exports: Vec<String>,
    /// The interfaces that the component imports.
    pub imports: Vec<String>,
}

/// The configuration of a Wasm artifact.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WasmConfig<'a> {
    created: &'static str,
    architecture: &'static str,
    os: &'static str,
    layer_digests: [&'a BlobDigest; 1],
    component: WasmInterfaces<'a>,
}

#[derive(Serialize)]
struct WasmInterfaces<'a> {
    exports: &'a [String],
    imports: &'a [String],
}

/// A backend with its manifest. The bytes of each blob have the digest that the manifest names.
pub struct BackendArtifact {
    manifest: Bytes,
    digest: BlobDigest,
    parts: BackendManifest,
    /// The bytes of the blobs, in the order of [`BackendManifest::blobs`].
    blobs: Vec<Bytes>,
}

impl BackendArtifact {
    pub(crate) fn new(manifest: Bytes, parts: BackendManifest, blobs: Vec<Bytes>) -> Self {
        Self { digest: BlobDigest::of(&manifest), manifest, parts, blobs }
    }

    /// Makes an artifact. The same parts always give the same digest. `limit` is the maximum size
    /// of the component, in bytes.
    ///
    /// # Errors
    /// [`ManifestError::TooLarge`] if a part is too large.
    pub fn pack(input: &ArtifactInput, limit: u64) -> Result<Self, ManifestError> {
        let component = BlobDescriptor::of(COMPONENT_TYPE, &input.component).titled(&input.file);
        let config = serde_json::to_vec(&WasmConfig {
            // A time would give the same parts another digest.
            created: "1970-01-01T00:00:00Z",
            architecture: "wasm",
            os: "wasip2",
            layer_digests: [&component.digest],
            component: WasmInterfaces { exports: &input.exports, imports: &input.imports },
        })?;
        let describe = |media_type: &str, part: &Option<Bytes>, end: &str| {
            let title = format!("{}{end}", input.file);
            part.as_ref().map(|bytes| BlobDescriptor::of(media_type, bytes).titled(&title))
        };
        let parts = BackendManifest {
            config: BlobDescriptor::of(CONFIG_TYPE, &config),
            component,
            signature: describe(SIGNATURE_TYPE, &input.signature, ".minisig"),
            cases: describe(CASES_TYPE, &input.cases, ".cases.tar.gz"),
        };
        let manifest = parts.to_bytes()?;
        let parts = BackendManifest::parse(&manifest, limit)?;
        let first = [Bytes::from(config), input.component.clone()];
        let further = input.signature.iter().chain(&input.cases).cloned();
        Ok(Self::new(manifest.into(), parts, first.into_iter().chain(further).collect()))
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

    pub(crate) fn manifest(&self) -> &Bytes {
        &self.manifest
    }

    pub(crate) fn blobs(&self) -> impl Iterator<Item = (&BlobDescriptor, &Bytes)> {
        self.parts.blobs().zip(&self.blobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(signature: Option<&'static str>, cases: Option<&'static str>) -> ArtifactInput {
        ArtifactInput {
            file: "mini.wasm".to_owned(),
            component: Bytes::from_static(b"component"),
            signature: signature.map(Bytes::from),
            cases: cases.map(Bytes::from),
            exports: vec!["a:b/c@1.0.0".to_owned()],
            imports: Vec::new(),
        }
    }

    #[test]
    fn the_same_parts_give_the_same_digest_and_are_found_again() {
        for (signature, cases) in
            [(None, None), (Some("sig"), None), (None, Some("tgz")), (Some("sig"), Some("tgz"))]
        {
            let artifact = BackendArtifact::pack(&input(signature, cases), 100).unwrap();
            let again = BackendArtifact::pack(&input(signature, cases), 100).unwrap();
            assert_eq!(artifact.digest(), again.digest());
            assert_eq!(artifact.file(), Some("mini.wasm"));
            assert_eq!(artifact.component(), &b"component"[..]);
            assert_eq!(artifact.signature(), signature.map(Bytes::from).as_ref());
            assert_eq!(artifact.cases(), cases.map(Bytes::from).as_ref());
            for (blob, bytes) in artifact.blobs() {
                assert_eq!(blob.digest, BlobDigest::of(bytes));
            }
        }
        assert!(matches!(
            BackendArtifact::pack(&input(None, None), 3),
            Err(ManifestError::TooLarge { .. })
        ));
    }
}
