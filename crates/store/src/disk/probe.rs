//! Checks whether a folder is writable.

use std::io::Write as _;
use std::path::Path;

/// Writes a few bytes into a folder and removes them again.
///
/// # Errors
/// The file cannot be created or written.
pub fn write_probe(folder: &Path) -> std::io::Result<()> {
    tempfile::Builder::new().prefix(".probe-").tempfile_in(folder)?.write_all(b"aetheel\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_folder_cannot_be_written_to_and_a_probe_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        write_probe(folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(write_probe(&folder.path().join("gone")).is_err());
    }
}
