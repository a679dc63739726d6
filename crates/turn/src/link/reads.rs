//! Reads the files that agents post, in the background.

use std::future::pending;
use std::path::PathBuf;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::tools::{CallKey, PostFile, PostFileError};
use aetheel_model::agent::Artifact;

/// Maximum time for reading a file.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// The files that are being read.
#[derive(Default)]
pub(super) struct FileReads(JoinSet<FileRead>);

/// A file that was read for a call.
pub(super) struct FileRead {
    pub(super) call: CallKey,
    pub(super) result: Result<Artifact, PostFileError>,
}

impl FileReads {
    /// Begins to read the file of a call.
    pub(super) fn begin(&mut self, call: CallKey, file: PostFile, cwd: PathBuf) {
        let path = file.shown_path();
        self.0.spawn(async move {
            let read = tokio::task::spawn_blocking(move || file.read(&cwd));
            let result = match tokio::time::timeout(READ_TIMEOUT, read).await {
                Ok(Ok(result)) => result,
                Ok(Err(error)) => Err(PostFileError::Unreadable(path, error.into())),
                Err(_) => Err(PostFileError::Timeout(path)),
            };
            FileRead { call, result }
        });
    }

    /// Returns the next file that was read. Never completes if no file is being read.
    pub(super) async fn next(&mut self) -> FileRead {
        loop {
            match self.0.join_next().await {
                Some(Ok(read)) => return read,
                // Only a task that is aborted has no result.
                Some(Err(_)) => {}
                None => pending().await,
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
