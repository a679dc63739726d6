//! The reason why a component that is kept or shipped cannot be restored or tried.

use std::io;
use std::path::PathBuf;

use super::error::AdmissionError;
use aetheel_model::plain::with_causes;
use aetheel_turn::VersionError;

/// The reason why a component that is kept or shipped cannot be restored or tried. The texts are
/// for owners and contain the causes and, where there is one, a next step.
#[derive(Debug, thiserror::Error)]
pub enum ComponentVersionError {
    /// This gateway keeps no components.
    #[error("no earlier version of `{0}` is kept")]
    NothingKept(String),
    /// No component is kept that served before.
    #[error("no earlier version of `{0}` is kept; put another file in its place")]
    NoneBefore(String),
    /// The component is not the one on rollout.
    #[error("no new version of `{0}` is on rollout, or it was replaced by another one")]
    NotOnRollout(String),
    /// The file to replace contains a new version on rollout.
    #[error(
        "{} contains a new version of `{name}`, which is on rollout; hint: `aetheel backend withdraw {name}` drops it first",
        path.display()
    )]
    OnRollout {
        /// The name of the backend.
        name: String,
        /// The path of the file.
        path: PathBuf,
    },
    /// The restored component already serves.
    #[error("that version of `{0}` already serves")]
    AlreadyServes(String),
    /// The file to replace cannot be read.
    #[error("{} {}; {}", path.display(), with_causes(error), error.hint())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        error: AdmissionError,
    },
    /// The file to replace contains another component than the one that serves.
    #[error(
        "{} contains another version by now, which does not serve; move it away, or replace it with a valid one",
        .0.display()
    )]
    FileChanged(PathBuf),
    /// The component to restore is not admitted.
    #[error(
        "the previous version ({}) may not serve: it {}; hint: {}",
        short(digest),
        with_causes(error),
        error.hint()
    )]
    NotAdmitted {
        /// The digest of the component.
        digest: String,
        /// The reason.
        error: AdmissionError,
    },
    /// Another file would serve instead of the restored one.
    #[error(
        "the previous version ({version}) would not serve, but {} would: {reason}; move that file away first",
        path.display()
    )]
    NotPreferred {
        /// The version of the component.
        version: String,
        /// The path of the other file.
        path: PathBuf,
        /// The reason why the other file is preferred.
        reason: String,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {error}; check the permissions of BACKENDS_DIR", path.display())]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

impl From<ComponentVersionError> for VersionError {
    fn from(error: ComponentVersionError) -> Self {
        Self::Component(Box::new(error))
    }
}

/// Returns the beginning of a digest, for people.
pub(super) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
