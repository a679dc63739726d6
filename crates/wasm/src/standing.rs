//! The verdict of the operator's trust settings on a component: why it was let in, or why not.

use std::path::PathBuf;

/// Why a component was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Everything is let in.
    Unchecked,
    /// Its SHA-256 stands in `backends.md`.
    Pinned,
    /// A key of the operator's signed it.
    Signed {
        /// Which key of `BACKEND_SIGNERS`, from 1.
        key: usize,
        /// The trusted comment of the minisign signature; at most 200 characters.
        comment: String,
    },
}

/// Why a component was not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// Its SHA-256 does not stand in `backends.md`.
    #[error("its SHA-256 is not pinned in backends.md: {0}")]
    NotPinned(String),
    /// It is pinned for other backends than the one it is.
    #[error("its SHA-256 is pinned in backends.md for `{pinned}`, but it is `{name}`")]
    PinnedAs {
        /// The backends it is pinned for.
        pinned: String,
        /// The name it gives itself.
        name: String,
    },
    /// There is no signature.
    #[error("it is not signed: there is no {}", .0.display())]
    NotSigned(PathBuf),
    /// There is something that is none.
    #[error("{} is no signature of minisign", .0.display())]
    NoSignature(PathBuf),
    /// Signed by somebody else, or for something else.
    #[error("its signature is by none of BACKEND_SIGNERS, or not for these bytes")]
    NotOurs,
}

impl Distrust {
    /// The next step for the operator.
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
            Self::NotOurs => {
                "get the component and its signature again, or add the signer's public key"
            }
        }
    }
}

impl Standing {
    /// For lists: `pinned`, `signed by key 1: comment`; none: nobody asked.
    #[must_use]
    pub fn says(&self) -> Option<String> {
        match self {
            Self::Unchecked => None,
            Self::Pinned => Some("pinned".to_owned()),
            Self::Signed { key, comment } => Some(format!("signed by key {key}: {comment}")),
        }
    }
}
