//! Unpacks the cases of a component.
//!
//! They are one blob: a gzip-compressed tar archive. Its publisher may be hostile: only regular
//! `*.jsonl` files with plain relative names are written, into an empty folder, and their number
//! and total size are limited.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;
use tar::{Archive, EntryType};

use aetheel_model::plain::one_line;

const MAX_FILES: usize = 256;
/// Maximum total size of the files, in bytes.
const MAX_UNPACKED_BYTES: u64 = 32 << 20;
/// Maximum depth of a file, counted in names.
const MAX_DEPTH: usize = 4;
/// Maximum length of one name, in bytes. Longer ones would need extended headers.
const MAX_NAME_BYTES: usize = 100;
/// The end of the names of recordings and expected actions.
const EXTENSION: &str = "jsonl";
/// Bytes of an archive that are not content of files: at most two blocks for each file, and the end.
const MAX_OVERHEAD_BYTES: u64 = (2 * MAX_FILES as u64 + 32) * 512;

/// The reason why cases cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum CasesError {
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The archive is damaged.
    #[error("the archive of the cases is damaged")]
    Damaged(#[source] io::Error),
    /// The archive contains something other than a file.
    #[error("{0:?} in the archive of the cases is not a regular file")]
    NotAFile(String),
    /// A name would leave the folder, or is not that of a recording.
    #[error("{0:?} in the archive of the cases is not the name of a recording (`*.jsonl`)")]
    Name(String),
    /// There are too many files.
    #[error("there are more than {MAX_FILES} files")]
    TooMany,
    /// The files are too large.
    #[error("the cases have more than {} MiB", MAX_UNPACKED_BYTES >> 20)]
    TooLarge,
}

/// Unpacks cases into an empty folder and returns the number of files. Blocks.
///
/// # Errors
/// [`CasesError`]. The folder then has some of the files, and nothing outside of it was changed.
pub fn unpack(packed: &[u8], into: &Path) -> Result<usize, CasesError> {
    // The decoder never gives more bytes, whatever the archive claims.
    let limited = GzDecoder::new(packed).take(MAX_UNPACKED_BYTES + MAX_OVERHEAD_BYTES);
    let (mut archive, mut count, mut left) = (Archive::new(limited), 0, MAX_UNPACKED_BYTES);
    for entry in archive.entries().map_err(CasesError::Damaged)?.raw(true) {
        let mut entry = entry.map_err(CasesError::Damaged)?;
        let shown = one_line(&String::from_utf8_lossy(&entry.path_bytes()));
        // Not links, devices, sparse files and extended headers.
        if entry.header().entry_type() != EntryType::Regular {
            return Err(CasesError::NotAFile(shown));
        }
        let name = entry.path().map_err(CasesError::Damaged)?.into_owned();
        let Some(name) = checked_name(&name) else { return Err(CasesError::Name(shown)) };
        if count == MAX_FILES {
            return Err(CasesError::TooMany);
        }
        let size = entry.header().entry_size().map_err(CasesError::Damaged)?;
        left = left.checked_sub(size).ok_or(CasesError::TooLarge)?;
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(CasesError::Damaged)?;
        if content.len() as u64 != size {
            return Err(CasesError::Damaged(io::ErrorKind::UnexpectedEof.into()));
        }
        write(&into.join(&name), &content)?;
        count += 1;
    }
    Ok(count)
}

fn write(path: &Path, content: &[u8]) -> Result<(), CasesError> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
        OpenOptions::new().write(true).create_new(true).open(path)?.write_all(content)
    });
    written.map_err(|error| CasesError::Write { path: path.to_owned(), error })
}

/// Returns the name if it is a relative path to a recording below the folder.
fn checked_name(name: &Path) -> Option<PathBuf> {
    let is_plain = |part: Component| match part {
        Component::Normal(part) => part.to_str().is_some_and(|part| {
            part.len() <= MAX_NAME_BYTES
                && !part.starts_with('.')
                && !part.contains(|letter: char| letter.is_control() || letter == '\\')
        }),
        _ => false,
    };
    let is_recording = name.extension().is_some_and(|extension| extension == EXTENSION);
    (is_recording && name.components().count() <= MAX_DEPTH && name.components().all(is_plain))
        .then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, GzBuilder};
    use tar::{Builder, Header};

    use super::*;

    fn packed(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
        let mut archive = Builder::new(GzBuilder::new().write(Vec::new(), Compression::fast()));
        for (name, kind, content) in entries {
            let mut header = Header::new_ustar();
            // `set_path` refuses the names that this test needs.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_mode(0o777);
            if !kind.is_file() {
                header.set_link_name("/etc/passwd").unwrap();
            }
            header.set_cksum();
            archive.append(&header, *content).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn cases_are_unpacked_with_their_folders_and_overwrite_nothing() {
        let to = tempfile::tempdir().unwrap();
        let file = EntryType::Regular;
        let blob = packed(&[
            ("a.jsonl", file, b"1"),
            ("a.actions.jsonl", file, b"2"),
            ("live/b.jsonl", file, b"3"),
        ]);
        assert_eq!(unpack(&blob, to.path()).unwrap(), 3);
        assert_eq!(fs::read_to_string(to.path().join("live/b.jsonl")).unwrap(), "3");
        assert!(matches!(unpack(&blob, to.path()), Err(CasesError::Write { .. })));
    }

    #[test]
    fn an_archive_cannot_leave_its_folder_or_contain_anything_but_files() {
        let file = EntryType::Regular;
        for (name, kind, says) in [
            ("../out.jsonl", file, "is not the name"),
            ("/tmp/out.jsonl", file, "is not the name"),
            ("a/../../out.jsonl", file, "is not the name"),
            ("./out.jsonl", file, "is not the name"),
            (".hidden.jsonl", file, "is not the name"),
            ("a\\b.jsonl", file, "is not the name"),
            ("a/b/c/d/e.jsonl", file, "is not the name"),
            ("program.wasm", file, "is not the name"),
            ("link.jsonl", EntryType::Symlink, "is not a regular file"),
            ("link.jsonl", EntryType::Link, "is not a regular file"),
            ("pipe.jsonl", EntryType::Fifo, "is not a regular file"),
            ("folder.jsonl", EntryType::Directory, "is not a regular file"),
            ("sparse.jsonl", EntryType::GNUSparse, "is not a regular file"),
            ("long.jsonl", EntryType::GNULongName, "is not a regular file"),
            ("pax.jsonl", EntryType::XHeader, "is not a regular file"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let into = folder.path().join("inner");
            fs::create_dir(&into).unwrap();
            let error = unpack(&packed(&[(name, kind, b"")]), &into).unwrap_err();
            assert!(error.to_string().contains(says), "{name}: {error}");
            assert_eq!(fs::read_dir(&into).unwrap().count(), 0, "{name}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{name}");
        }
    }

    #[test]
    fn bombs_and_damaged_archives_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let zeros = vec![0; 12 << 20];
        let file = EntryType::Regular;
        let bomb = packed(&[
            ("a.jsonl", file, &zeros),
            ("b.jsonl", file, &zeros),
            ("c.jsonl", file, &zeros),
        ]);
        assert!(bomb.len() < 1 << 20, "{}", bomb.len());
        assert!(matches!(unpack(&bomb, folder.path()), Err(CasesError::TooLarge)));
        let names: Vec<String> = (0..=MAX_FILES).map(|n| format!("n{n}.jsonl")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), file, &b""[..])).collect();
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(unpack(&packed(&many), folder.path()), Err(CasesError::TooMany)));
        let whole = packed(&[("a.jsonl", file, b"some text that is long enough")]);
        for cut in [0, 1, whole.len() / 2] {
            let folder = tempfile::tempdir().unwrap();
            unpack(&whole[..cut], folder.path()).unwrap_err();
        }
        unpack(b"no archive", folder.path()).unwrap_err();
    }
}
