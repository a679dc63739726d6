//! The error of a file or folder in the configuration folder.

use std::path::{Path, PathBuf};

/// A file or folder that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} `{}`", path.display())]
pub struct FileError {
    doing: &'static str,
    path: PathBuf,
    #[source]
    pub(super) source: std::io::Error,
}

impl FileError {
    pub(super) fn new(doing: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self { doing, path: path.to_owned(), source }
    }

    /// Returns the error of the file system.
    #[must_use]
    pub fn cause(&self) -> &std::io::Error {
        &self.source
    }
}
