//! The operator's files whose content is used while the gateway runs.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::FileError;
use super::blocking::blocking;
use super::followed::FollowedFile;

/// A file of the operator, which is read again when it changes. Cheap to clone; clones share the
/// content that was read.
#[derive(Debug)]
pub struct OperatorFile<T>(Arc<Mutex<FollowedFile<T>>>);

impl<T> Clone for OperatorFile<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> From<FollowedFile<T>> for OperatorFile<T> {
    fn from(file: FollowedFile<T>) -> Self {
        Self(Arc::new(Mutex::new(file)))
    }
}

impl<T: Send + Sync + 'static> OperatorFile<T> {
    /// Names the file without reading it.
    pub(super) fn at(path: PathBuf, parse: fn(&str) -> T) -> Self {
        FollowedFile::new(path, parse).into()
    }

    /// Reads the file again if it changed. Returns its content, and whether that changed.
    pub async fn refresh(&self) -> (Arc<T>, bool) {
        let file = self.clone();
        blocking(move || file.read()).await
    }

    /// Does the same as [`OperatorFile::refresh`], for callers without a runtime. Blocks.
    #[must_use]
    pub fn read(&self) -> (Arc<T>, bool) {
        let mut file = self.0.lock();
        let changed = file.refresh();
        (file.value(), changed)
    }

    /// Makes sure that the file was read completely or does not exist. Must be called before the
    /// content is used.
    ///
    /// # Errors
    /// [`FileError`] if the file exists but cannot be read.
    pub async fn require(&self) -> Result<(), FileError> {
        let file = self.clone();
        blocking(move || file.require_now()).await
    }

    /// Does the same as [`OperatorFile::require`], for callers without a runtime. Blocks.
    ///
    /// # Errors
    /// [`FileError`] if the file exists but cannot be read.
    pub fn require_now(&self) -> Result<(), FileError> {
        self.0.lock().require()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, FollowedFile<T>> {
        self.0.lock()
    }
}
