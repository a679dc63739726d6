//! The reasons why an artifact cannot be fetched.

use crate::digest::BlobDigest;
use crate::layout::LayoutError;
use crate::manifest::ManifestError;

/// The reason why an artifact cannot be fetched. No text contains credentials.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The registry did not answer, or broke off.
    #[error("the registry {registry} cannot be reached")]
    Unreachable {
        /// The registry.
        registry: String,
        /// The error of the connection, without the address, because an address may contain a
        /// signature.
        #[source]
        error: reqwest::Error,
    },
    /// The registry answered with an error.
    #[error("{reference}: the registry {registry} answered with status {status}{detail}")]
    Status {
        /// The registry.
        registry: String,
        /// The artifact or blob.
        reference: String,
        /// The HTTP status.
        status: u16,
        /// The registry's own words after `: `, or nothing.
        detail: String,
        /// Whether a login was sent.
        with_login: bool,
    },
    /// The registry's challenge or token cannot be used.
    #[error("the registry {registry} cannot be signed in to: {reason}")]
    SignIn {
        /// The registry.
        registry: String,
        /// The reason.
        reason: String,
    },
    /// The registry sends to an address that is not used.
    #[error("the registry {registry} refers to {address}, {reason}")]
    Redirect {
        /// The registry.
        registry: String,
        /// The scheme and host of the address.
        address: String,
        /// The reason why it is not used.
        reason: &'static str,
    },
    /// The registry sent more bytes than the manifest or the limit allows.
    #[error("{reference}: the registry sent more than {limit} bytes")]
    TooLarge {
        /// The artifact or blob.
        reference: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The bytes are not those that the digest names.
    #[error("{reference}: the content has the digest {got}, not {expected}")]
    WrongDigest {
        /// The artifact.
        reference: String,
        /// The digest that was asked for.
        expected: BlobDigest,
        /// The digest of the bytes that came.
        got: BlobDigest,
    },
    /// The manifest does not describe a backend.
    #[error("{reference}: {source}")]
    Manifest {
        /// The artifact.
        reference: String,
        /// The reason.
        source: ManifestError,
    },
    /// The folder with artifacts cannot be used.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

impl RegistryError {
    /// Returns the next step for the operator.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => {
                "check host, port and network; plain HTTP is used on this machine only, and a private certificate authority is named in SSL_CERT_FILE"
            }
            Self::Status { status: 401 | 403, with_login: false, .. } => {
                "sign in: set REGISTRY_KEY to USER:PASSWORD@HOST, or run `docker login HOST`"
            }
            Self::Status { status: 401 | 403, with_login: true, .. } => {
                "check the credentials in REGISTRY_KEY or Docker's config.json, and their rights"
            }
            Self::Status { status: 404, .. } => "check name and tag",
            Self::Status { status: 429, .. } => "the registry limits requests; wait, or sign in",
            Self::Status { .. } | Self::SignIn { .. } => {
                "try again later, or ask who runs the registry"
            }
            Self::Redirect { .. } => "ask who runs the registry, or use another one",
            Self::TooLarge { .. } | Self::WrongDigest { .. } => {
                "do not trust this content; ask who runs the registry"
            }
            Self::Manifest { source: ManifestError::TooLarge { .. }, .. } => {
                "do not use it, or raise the limit of the component with COMPONENT_LIMIT_BYTES"
            }
            Self::Manifest { .. } => "push it with the media types that docs/kit.md lists",
            Self::Layout(error) => error.hint(),
        }
    }
}
