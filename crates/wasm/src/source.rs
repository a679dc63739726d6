//! Reads a component file completely and consistently.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::error::AdmissionError;
use aetheel_model::plain::hex;
use aetheel_store::disk::Stamp;

/// Time without changes after which the stamp of a file identifies its content.
const SETTLE_TIME: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct ComponentSource {
    pub(super) bytes: Arc<[u8]>,
    /// The SHA-256 of the bytes, in lower-case hex.
    pub(super) digest: String,
    pub(super) stamp: Stamp,
}

/// Returns whether a file has been unchanged for long enough.
pub(super) fn is_settled(stamp: &Stamp) -> bool {
    stamp.age(SystemTime::now()).is_some_and(|age| age > SETTLE_TIME)
}

/// Reads a file of at most `limit` bytes on the blocking pool.
///
/// # Errors
/// [`AdmissionError`] if it is missing, not a file, too large, or changed while it was read.
pub(super) async fn read(path: PathBuf, limit: u64) -> Result<ComponentSource, AdmissionError> {
    tokio::task::spawn_blocking(move || read_now(&path, limit))
        .await
        .map_err(|error| AdmissionError::Read(io::Error::other(error)))?
}

/// Like [`read`], but blocks the calling thread.
pub(super) fn read_now(path: &Path, limit: u64) -> Result<ComponentSource, AdmissionError> {
    // Opening a named pipe would wait for a writer.
    if !fs::metadata(path).map_err(AdmissionError::Read)?.is_file() {
        return Err(AdmissionError::NotAFile);
    }
    let mut file = File::open(path).map_err(AdmissionError::Read)?;
    let before = file.metadata().map_err(AdmissionError::Read)?;
    if before.len() > limit {
        return Err(AdmissionError::TooLarge { size: before.len(), limit });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(before.len()).unwrap_or_default());
    file.by_ref().take(limit + 1).read_to_end(&mut bytes).map_err(AdmissionError::Read)?;
    let after = Stamp::from(&file.metadata().map_err(AdmissionError::Read)?);
    // The change time also changes with the number of links, so a rename over this file counts as a
    // change, which is right.
    if after != Stamp::from(&before) || bytes.len() as u64 != after.size() {
        return Err(AdmissionError::Changing);
    }
    let digest = hex(&Sha256::digest(&bytes));
    Ok(ComponentSource { bytes: bytes.into(), digest, stamp: after })
}
