//! The result of checking a component against the operator's trust settings.

use std::path::PathBuf;

/// The reason why a component was admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustState {
    /// All components are admitted.
    Unchecked,
    /// Its SHA-256 is pinned in `backends.md`.
    Pinned,
    /// It is signed with a key that the operator trusts.
    Signed {
        /// The number of the key in `BACKEND_SIGNERS`, from 1.
        key: usize,
        /// The trusted comment of the minisign signature, at most 200 characters.
        comment: String,
    },
}

/// The reason why a component was not admitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// Its SHA-256 is not pinned in `backends.md`.
    #[error("its SHA-256 is not pinned in backends.md: {0}")]
    NotPinned(String),
    /// It is pinned for other backends than the one that it declares.
    #[error("its SHA-256 is pinned in backends.md for `{pinned}`, but it is `{name}`")]
    PinnedAs {
        /// The backends that it is pinned for.
        pinned: String,
        /// The name in its descriptor.
        name: String,
    },
    /// It has no signature file.
    #[error("it is not signed: there is no {}", .0.display())]
    NotSigned(PathBuf),
    /// Its signature file is not a minisign signature.
    #[error("{} is not a minisign signature", .0.display())]
    NoSignature(PathBuf),
    /// It is signed with another key, or the signature is for other bytes.
    #[error("its signature is not by a key of BACKEND_SIGNERS, or not for these bytes")]
    NotOurs,
}

impl Distrust {
    /// Returns the operator's next step.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotPinned(_) => {
                "trust it with `aetheel backend install FILE --pin`, or add `- sha256: …` to its section of backends.md; it is then loaded"
            }
            Self::PinnedAs { .. } => {
                "add its SHA-256 to the section of that name in backends.md, if it is the one you mean"
            }
            Self::NotSigned(_) | Self::NoSignature(_) => {
                "put the signature beside it; it is then loaded"
            }
            Self::NotOurs => "get the file and its signature again, or add the signer's public key",
        }
    }
}

impl TrustState {
    /// Returns a description for lists, for example `pinned` or `signed by key 1: comment`, or
    /// `None` if trust is not checked.
    #[must_use]
    pub fn label(&self) -> Option<String> {
        match self {
            Self::Unchecked => None,
            Self::Pinned => Some("pinned".to_owned()),
            Self::Signed { key, comment } => Some(format!("signed by key {key}: {comment}")),
        }
    }
}
