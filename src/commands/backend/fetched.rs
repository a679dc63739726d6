//! A backend from a registry, as files.

use std::path::PathBuf;

use tempfile::TempDir;

/// The beginning of references to artifacts in registries.
const SCHEME: &str = "oci://";

/// Returns whether an argument is meant as a reference to an artifact, and not as a path.
pub(super) fn is_reference(text: &str) -> bool {
    text.starts_with(SCHEME)
}

/// A backend in a folder of its own, which is removed when this is dropped.
pub(super) struct FetchedBackend {
    pub(super) folder: TempDir,
    /// The component, with its signature and cases beside it.
    pub(super) file: PathBuf,
    /// Its reference, with the digest of its manifest.
    pub(super) reference: String,
    /// The digest of its cases.
    pub(super) cases: Option<String>,
    pub(super) is_signed: bool,
}

impl FetchedBackend {
    /// Removes the name of the temporary folder from a message.
    pub(super) fn plain(&self, message: &str) -> String {
        message.replace(&format!("{}/", self.folder.path().display()), "")
    }
}
