//! Removing recordings: those too old, then the oldest above the size there is for them. Pinned by the tests of `recording` and
//! `lost`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::lost;

/// Removes recordings older than `max_age`, then the oldest ones until the rest is within `max_bytes`. Returns how many went.
///
/// # Errors
/// When the folder cannot be listed. A single file that cannot be removed is skipped.
pub fn prune(folder: &Path, max_age: Duration, max_bytes: u64, now: SystemTime) -> std::io::Result<usize> {
    let mut files = Vec::new();
    let days = match fs::read_dir(folder) {
        Ok(days) => days,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    // What was lost has limits of its own.
    for day in days.flatten().filter(|day| day.path().is_dir() && day.file_name() != lost::FOLDER) {
        recordings_in(&day.path(), now, &mut files)?;
    }
    Ok(prune_files(files, max_age, max_bytes, now))
}

/// A recording, its size in bytes, and when it was last written.
type Found = (SystemTime, u64, PathBuf);

/// Adds the recordings right in a folder.
pub(super) fn recordings_in(folder: &Path, now: SystemTime, files: &mut Vec<Found>) -> std::io::Result<()> {
    for file in fs::read_dir(folder)?.flatten() {
        if let Ok(meta) = file.metadata()
            && meta.is_file()
            && file.path().extension().is_some_and(|extension| extension == "jsonl")
        {
            files.push((meta.modified().unwrap_or(now), meta.len(), file.path()));
        }
    }
    Ok(())
}

/// Removes what is too old, then the oldest until the rest is within the limit; returns how many.
pub(super) fn prune_files(mut files: Vec<Found>, max_age: Duration, max_bytes: u64, now: SystemTime) -> usize {
    files.sort();
    let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
    let mut removed = 0;
    for (modified, size, path) in files {
        let old = now.duration_since(modified).is_ok_and(|age| age > max_age);
        if !old && total <= max_bytes {
            break;
        }
        if fs::remove_file(&path).is_ok() {
            removed += 1;
            total -= size;
            if let Some(day) = path.parent() {
                // Fails while other recordings of the day remain, as it should.
                let _ = fs::remove_dir(day);
            }
        }
    }
    removed
}
