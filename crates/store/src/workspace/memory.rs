//! Appends the agent's notes to `memory.md`.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::FileError;
use crate::disk::{Stamp, sync_folder};

pub(super) const HEADER: &str = "# Memory\n";

/// How often an append to a file that another program replaces meanwhile is retried.
const TRIES: usize = 5;

pub(super) fn create(path: &Path) -> Result<(), FileError> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => {
            file.write_all(HEADER.as_bytes())
                .map_err(|source| FileError::new("write", path, source))?;
            path.parent().inspect(|folder| sync_folder(folder));
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(FileError::new("create", path, source)),
    }
}

/// Appends text on lines of its own and returns once the file with this name has it on disk.
/// Returns the stamp of the file, unless another program wrote to it meanwhile.
pub(super) fn append(path: &Path, text: &str) -> Result<Option<Stamp>, FileError> {
    let text = text.trim_matches(['\r', '\n']).trim_end();
    if text.is_empty() {
        return Ok(None);
    }
    for _ in 0..TRIES {
        if let Some(stamp) =
            append_once(path, text).map_err(|source| FileError::new("append to", path, source))?
        {
            return Ok(stamp);
        }
    }
    Err(FileError::new(
        "append to",
        path,
        io::Error::other("it keeps being replaced by another program"),
    ))
}

/// Appends once. Returns `None` if the file was replaced meanwhile and the text is not in the new
/// one.
fn append_once(path: &Path, text: &str) -> io::Result<Option<Option<Stamp>>> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let before = file.metadata()?;
    let mut block = Vec::with_capacity(text.len() + 16);
    if before.len() == 0 {
        block.extend_from_slice(HEADER.as_bytes());
        block.push(b'\n');
    } else if before.is_file() && last_byte(&mut file, before.len())? != Some(b'\n') {
        block.push(b'\n');
    }
    block.extend_from_slice(text.as_bytes());
    block.push(b'\n');
    if let Err(error) = file.write_all(&block).and_then(|()| file.sync_data()) {
        // An incomplete note is worse than a missing one, so it is removed. Text that another
        // program appended is never removed.
        let written = before.len()..=before.len() + block.len() as u64;
        if file.metadata().is_ok_and(|now| written.contains(&now.len())) {
            let _ = file.set_len(before.len());
        }
        return Err(error);
    }
    if before.len() == 0 {
        path.parent().inspect(|folder| sync_folder(folder));
    }
    let length = before.len() + block.len() as u64;
    let after = file.metadata()?;
    let stamp = (after.len() == length).then(|| Stamp::from(&after));
    Ok(contains_text(path, &before, length, text)?.then_some(stamp))
}

/// Returns whether `text`, which was appended to the file with metadata `was`, is in the file that
/// is at `path` now.
fn contains_text(path: &Path, was: &Metadata, length: u64, text: &str) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(now) if (now.dev(), now.ino()) == (was.dev(), was.ino()) && now.len() >= length => {
            Ok(true)
        }
        Ok(_) => Ok(String::from_utf8_lossy(&fs::read(path)?).contains(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn last_byte(file: &mut File, length: u64) -> io::Result<Option<u8>> {
    file.seek(SeekFrom::Start(length - 1))?;
    let mut byte = [0];
    Ok((file.read(&mut byte)? == 1).then_some(byte[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_append_to_a_file_that_was_replaced_counts_only_if_the_new_file_has_the_fact() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("memory.md"), folder.path().join("other.md"));
        let replaced_by = |text: &str| {
            fs::write(&other, text).unwrap();
            fs::rename(&other, &path).unwrap();
        };
        fs::write(&path, "- old\n").unwrap();
        let was = fs::metadata(&path).unwrap();
        append(&path, "- new").unwrap();
        assert!(contains_text(&path, &was, 12, "- new").unwrap());
        fs::write(&path, "- cut\n").unwrap();
        assert!(!contains_text(&path, &was, 12, "- new").unwrap(), "overwritten in place");
        replaced_by("- something else, and longer\n");
        assert!(!contains_text(&path, &was, 12, "- new").unwrap());
        replaced_by("- old\n- new\n- more\n");
        assert!(contains_text(&path, &was, 12, "- new").unwrap());
        fs::remove_file(&path).unwrap();
        assert!(!contains_text(&path, &was, 12, "- new").unwrap());
    }

    #[test]
    fn a_fact_reaches_the_named_file_also_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, real) = (folder.path().join("memory.md"), folder.path().join("real.md"));
        std::os::unix::fs::symlink(&real, &path).unwrap();
        append(&path, "- one").unwrap();
        append(&path, "- two").unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "# Memory\n\n- one\n- two\n");
        assert!(append(Path::new("/dev/full"), "- one").is_err(), "a full device");
    }
}
