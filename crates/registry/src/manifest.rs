//! The manifest of a backend: which blobs belong to it, and their media types and sizes.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::digest::BlobDigest;

pub(crate) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.wasm.config.v0+json";
const COMPONENT_TYPE: &str = "application/wasm";
const SIGNATURE_TYPE: &str = "application/vnd.aetheel.backend.minisig.v1";
const CASES_TYPE: &str = "application/vnd.aetheel.backend.cases.v1.tar+gzip";
/// The annotation with the file name of a blob.
pub(crate) const TITLE: &str = "org.opencontainers.image.title";

/// Maximum size of a manifest, in bytes. Real ones have about 1 KiB.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 256 << 10;
const MAX_CONFIG_BYTES: u64 = 256 << 10;
/// Maximum size of a signature, in bytes. Real ones have about 300 bytes.
const MAX_SIGNATURE_BYTES: u64 = 16 << 10;
const MAX_CASES_BYTES: u64 = 8 << 20;

/// The reason why a manifest does not describe a backend.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The manifest cannot be parsed.
    #[error("its manifest is invalid: {0}")]
    Invalid(#[from] serde_json::Error),
    /// The manifest has another version or another media type, for example that of an index.
    #[error("its manifest is a {0:?}, not an OCI image manifest")]
    OtherManifest(String),
    /// The configuration has another media type.
    #[error("it is not a WebAssembly component, but a {0:?}")]
    OtherArtifact(String),
    /// A layer has an unknown media type.
    #[error("it contains a {0:?}, which this version of Aetheel does not know")]
    UnknownLayer(String),
    /// A media type must occur once, but occurs this many times.
    #[error("it contains {count} layers of the type {media_type:?}")]
    Number {
        /// The media type.
        media_type: &'static str,
        /// The number of layers with it.
        count: usize,
    },
    /// A blob is larger than allowed, according to the manifest.
    #[error("its {what} has {size} bytes; at most {limit} are allowed")]
    TooLarge {
        /// The kind of blob.
        what: &'static str,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlobDescriptor {
    pub(crate) media_type: String,
    pub(crate) digest: BlobDigest,
    /// In bytes.
    pub(crate) size: u64,
    #[serde(default)]
    pub(crate) annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManifestForm {
    schema_version: u32,
    #[serde(default)]
    media_type: Option<String>,
    config: BlobDescriptor,
    layers: Vec<BlobDescriptor>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackendManifest {
    pub(crate) config: BlobDescriptor,
    pub(crate) component: BlobDescriptor,
    pub(crate) signature: Option<BlobDescriptor>,
    pub(crate) cases: Option<BlobDescriptor>,
}

impl BackendManifest {
    /// Parses a manifest and checks media types and sizes. `limit` is the maximum size of the
    /// component, in bytes.
    pub(crate) fn parse(bytes: &[u8], limit: u64) -> Result<Self, ManifestError> {
        let form: ManifestForm = match serde_json::from_slice(bytes) {
            Ok(form) => form,
            Err(error) => {
                return Err(match media_type_of(bytes) {
                    Some(other) if other != MANIFEST_TYPE => ManifestError::OtherManifest(other),
                    _ => ManifestError::Invalid(error),
                });
            }
        };
        if let Some(other) = form.media_type.filter(|known| known != MANIFEST_TYPE) {
            return Err(ManifestError::OtherManifest(other));
        }
        if form.schema_version != 2 {
            return Err(ManifestError::OtherManifest(format!("version {}", form.schema_version)));
        }
        if form.config.media_type != CONFIG_TYPE {
            return Err(ManifestError::OtherArtifact(form.config.media_type));
        }
        let (mut components, mut signatures, mut cases) = (Vec::new(), Vec::new(), Vec::new());
        for layer in form.layers {
            match layer.media_type.as_str() {
                COMPONENT_TYPE => components.push(layer),
                SIGNATURE_TYPE => signatures.push(layer),
                CASES_TYPE => cases.push(layer),
                _ => return Err(ManifestError::UnknownLayer(layer.media_type)),
            }
        }
        let wrong = |media_type, count| ManifestError::Number { media_type, count };
        let count = components.len();
        let [component] =
            <[_; 1]>::try_from(components).map_err(|_| wrong(COMPONENT_TYPE, count))?;
        let at_most_one = |mut layers: Vec<BlobDescriptor>, media_type| match layers.len() {
            0 | 1 => Ok(layers.pop()),
            count => Err(wrong(media_type, count)),
        };
        let manifest = Self {
            config: form.config,
            component,
            signature: at_most_one(signatures, SIGNATURE_TYPE)?,
            cases: at_most_one(cases, CASES_TYPE)?,
        };
        manifest.check_sizes(limit)?;
        Ok(manifest)
    }

    fn check_sizes(&self, limit: u64) -> Result<(), ManifestError> {
        let limited = [
            ("configuration", Some(&self.config), MAX_CONFIG_BYTES),
            ("component", Some(&self.component), limit),
            ("signature", self.signature.as_ref(), MAX_SIGNATURE_BYTES),
            ("cases", self.cases.as_ref(), MAX_CASES_BYTES),
        ];
        for (what, blob, limit) in limited {
            if let Some(size) = blob.map(|blob| blob.size).filter(|size| *size > limit) {
                return Err(ManifestError::TooLarge { what, size, limit });
            }
        }
        Ok(())
    }

    /// Returns all blobs, the configuration first.
    pub(crate) fn blobs(&self) -> impl Iterator<Item = &BlobDescriptor> {
        let further = self.signature.iter().chain(&self.cases);
        [&self.config, &self.component].into_iter().chain(further)
    }
}

/// Returns the media type that a document of JSON gives itself.
fn media_type_of(bytes: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Typed {
        media_type: String,
    }
    serde_json::from_slice::<Typed>(bytes).ok().map(|typed| typed.media_type)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn blob(media_type: &str, size: u64) -> Value {
        json!({ "mediaType": media_type, "digest": BlobDigest::of(b"x").to_string(), "size": size })
    }

    fn manifest(layers: &[Value]) -> Value {
        json!({ "schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": blob(CONFIG_TYPE, 2), "layers": layers })
    }

    fn parse(form: &Value) -> Result<BackendManifest, ManifestError> {
        BackendManifest::parse(form.to_string().as_bytes(), 1_000)
    }

    #[test]
    fn the_blobs_have_one_order_whatever_the_order_of_the_layers() {
        let layers =
            [blob(CASES_TYPE, 4_000), blob(COMPONENT_TYPE, 900), blob(SIGNATURE_TYPE, 300)];
        let parsed = parse(&manifest(&layers)).unwrap();
        let sizes: Vec<u64> = parsed.blobs().map(|blob| blob.size).collect();
        assert_eq!(sizes, [2, 900, 300, 4_000]);
    }

    #[test]
    fn foreign_artifacts_and_layers_are_refused_with_their_media_type() {
        let component = || blob(COMPONENT_TYPE, 1);
        let mut image = manifest(&[component()]);
        image["config"]["mediaType"] = "application/vnd.oci.image.config.v1+json".into();
        let index = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []
        });
        let mut old = manifest(&[component()]);
        old["schemaVersion"] = 1.into();
        let mut escaping = manifest(&[component()]);
        escaping["layers"][0]["digest"] = "sha256:../../etc/passwd".into();
        for (form, says) in [
            (image, "image.config.v1+json"),
            (index, "image.index.v1+json"),
            (old, "version 1"),
            (escaping, "a digest is `sha256:`"),
            (manifest(&[component(), blob("application/x-tar", 1)]), "application/x-tar"),
            (manifest(&[component(), component()]), "2 layers"),
            (manifest(&[]), "0 layers"),
            (manifest(&[component(), blob(CASES_TYPE, 1), blob(CASES_TYPE, 1)]), "2 layers"),
            (manifest(&[blob(COMPONENT_TYPE, 1_001)]), "component has 1001 bytes"),
            (manifest(&[component(), blob(SIGNATURE_TYPE, 1 << 20)]), "signature has"),
            (manifest(&[component(), blob(CASES_TYPE, 1 << 30)]), "cases has"),
            (json!([]), "is invalid"),
        ] {
            let error = parse(&form).unwrap_err().to_string();
            assert!(error.contains(says), "{says}: {error}");
        }
    }
}
