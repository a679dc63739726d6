//! `state/blobs/`: files that agents produced for people, until they are delivered. The name of a
//! file is the hash of its content, so that each content is stored once. The newest [`MAX_BLOBS`]
//! files are kept.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};

use super::FileError;
use super::blocking::blocking;
use crate::disk::replace;
use aetheel_model::plain::hex;

const MAX_BLOBS: usize = 200;

/// Saves bytes in a configuration folder and returns the path of their file.
///
/// # Errors
/// [`FileError`] if the file cannot be written.
pub async fn save_blob(folder: &Path, bytes: Vec<u8>) -> Result<PathBuf, FileError> {
    let folder = folder.join("state/blobs");
    blocking(move || {
        keep(&folder, &bytes).map_err(|error| FileError::new("save a file in", &folder, error))
    })
    .await
}

fn keep(folder: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let name = hex(&Sha256::digest(bytes));
    let path = folder.join(name);
    replace(&path, bytes)?;
    let mut all: Vec<(SystemTime, PathBuf)> = fs::read_dir(folder)?
        .filter_map(|entry| {
            entry.and_then(|entry| Ok((entry.metadata()?.modified()?, entry.path()))).ok()
        })
        .filter(|(_, other)| *other != path)
        .collect();
    all.sort();
    for (_, old) in &all[..(all.len() + 1).saturating_sub(MAX_BLOBS)] {
        fs::remove_file(old)?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_content_is_stored_once_and_the_oldest_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("blobs");
        let first = keep(&folder, b"a").unwrap();
        assert_eq!(
            (keep(&folder, b"a").unwrap(), fs::read(&first).unwrap()),
            (first.clone(), b"a".to_vec())
        );
        let long_ago = SystemTime::now() - std::time::Duration::from_secs(3600);
        fs::File::options().write(true).open(&first).unwrap().set_modified(long_ago).unwrap();
        for number in 0..MAX_BLOBS {
            keep(&folder, number.to_string().as_bytes()).unwrap();
        }
        assert!(!first.exists());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), MAX_BLOBS);
    }
}
