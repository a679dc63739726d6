//! Reading a component file whole and untorn.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::admission::AdmissionError;

/// A file's content and what it was read from.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) bytes: Vec<u8>,
    /// SHA-256, lower-case hex.
    pub(super) digest: String,
    pub(super) stamp: Stamp,
}

/// What changes when a file changes; symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Stamps a file; None: there is none.
    pub(super) fn of(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::from(&metadata))
    }

    /// When it was last written to: seconds and nanoseconds.
    pub(super) fn written(&self) -> (i64, i64) {
        self.modified
    }

    /// Whether the file had rested when it was stamped. Clocks of file systems tick every few milliseconds: of two
    /// writes within one tick the second leaves no trace.
    pub(super) fn rested(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        self.changed.0.unsigned_abs() + 1 < now
    }
}

impl From<&Metadata> for Stamp {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Reads a file of at most `limit` bytes on a blocking thread.
///
/// # Errors
/// [`AdmissionError`] when it is missing, no file, too large or was written to meanwhile.
pub(super) async fn read(path: PathBuf, limit: u64) -> Result<Source, AdmissionError> {
    tokio::task::spawn_blocking(move || read_now(&path, limit)).await.map_err(|error| AdmissionError::Read(io::Error::other(error)))?
}

/// [`read`], where it is called.
pub(super) fn read_now(path: &Path, limit: u64) -> Result<Source, AdmissionError> {
    // Opening a named pipe would wait for a writer.
    if !fs::metadata(path).map_err(AdmissionError::Read)?.is_file() {
        return Err(AdmissionError::NotAFile);
    }
    let mut file = File::open(path).map_err(AdmissionError::Read)?;
    let before = file.metadata().map_err(AdmissionError::Read)?;
    if before.size() > limit {
        return Err(AdmissionError::TooLarge { size: before.size(), limit });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(before.size()).unwrap_or_default());
    file.by_ref().take(limit + 1).read_to_end(&mut bytes).map_err(AdmissionError::Read)?;
    let after = Stamp::from(&file.metadata().map_err(AdmissionError::Read)?);
    // The number of links is part of `changed`: a rename over this very file counts as a change too, and is one.
    if after != Stamp::from(&before) || bytes.len() as u64 != after.size {
        return Err(AdmissionError::Changing);
    }
    let digest = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Source { bytes, digest, stamp: after })
}
