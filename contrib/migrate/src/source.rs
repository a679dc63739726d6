//! Reads the folder of `OpenClaw`, with size limits, and never through a symbolic link.
//!
//! Its agents can write to the folder. A link in it may lead to any file that this user can
//! read, so no link is followed, even one that is created during the import.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;

use crate::error::SourceError;

/// Largest size of a file of settings or schedules, in bytes.
pub(crate) const MAX_SETTINGS_BYTES: u64 = 8 << 20;
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 256 << 10;
const MAX_NAMES: usize = 10_000;

pub(crate) struct SourceFolder {
    /// The path as the operator wrote it, for messages.
    pub path: PathBuf,
    root: OwnedFd,
}

impl SourceFolder {
    /// Opens a folder. Its own path may contain links, because the operator chose it.
    ///
    /// # Errors
    /// Returns the reason if the folder cannot be opened.
    pub(crate) fn open(path: &Path) -> Result<Self, SourceError> {
        let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(path, folder, Mode::empty())
            .map_err(|error| SourceError::Folder { path: path.to_owned(), error: error.into() })?;
        Ok(Self { path: path.to_owned(), root })
    }

    /// Returns whether a file or folder with this name exists.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.reach(Path::new(name), OFlags::PATH).is_ok()
    }

    /// Reads a text file. Returns `None` if it does not exist or contains only whitespace.
    ///
    /// # Errors
    /// The file is a link or not a regular file, has more than `max_bytes` bytes, or is not UTF-8.
    pub(crate) fn text(&self, name: &str, max_bytes: u64) -> Result<Option<String>, SourceError> {
        match self.read(name, max_bytes) {
            Ok(text) => Ok(Some(text).filter(|text| !text.trim().is_empty())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(SourceError::Read { name: name.to_owned(), error }),
        }
    }

    fn read(&self, name: &str, max_bytes: u64) -> io::Result<String> {
        let file = self.reach(Path::new(name), OFlags::RDONLY | OFlags::NONBLOCK)?;
        let file = File::from(file);
        let (about, mut bytes) = (file.metadata()?, Vec::new());
        if !about.is_file() {
            return Err(io::Error::other("it is not an ordinary file"));
        }
        if about.len() > max_bytes {
            let size = about.len();
            return Err(io::Error::other(format!("it has {size} bytes; the limit is {max_bytes}")));
        }
        // The file may grow while it is read.
        file.take(max_bytes).read_to_end(&mut bytes)?;
        let text = String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))?;
        Ok(text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned))
    }

    /// Returns the names in a folder with the given ending, sorted, or no names if there is no such
    /// folder.
    ///
    /// # Errors
    /// Returns the reason if the folder cannot be read.
    pub(crate) fn names(&self, folder: &str, end: &str) -> Result<Vec<String>, SourceError> {
        let folder = match self.reach(Path::new(folder), OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(SourceError::Read { name: folder.to_owned(), error }),
        };
        let entries = rustix::fs::Dir::read_from(&folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .take(MAX_NAMES)
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| name.ends_with(end))
            .collect();
        names.sort();
        Ok(names)
    }

    /// Opens a file or folder below the root. No part of its path may be a link.
    fn reach(&self, name: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let parts: Vec<&OsStr> = name
            .components()
            .filter_map(|part| match part {
                Component::CurDir => None,
                Component::Normal(part) => Some(Ok(part)),
                _ => Some(Err(io::Error::other("it is outside of the folder"))),
            })
            .collect::<io::Result<_>>()?;
        let (last, folders) = parts.split_last().ok_or(io::ErrorKind::NotFound)?;
        let never = OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = None;
        let step = |at: &Option<OwnedFd>, name: &OsStr, flags: OFlags| {
            let from = at.as_ref().unwrap_or(&self.root);
            openat(from, name, flags | never, Mode::empty()).map_err(|error| match error {
                // The system call reports a link to a folder as "not a directory".
                Errno::LOOP | Errno::MLINK | Errno::NOTDIR => {
                    io::Error::other("it is a link, which is not followed, or not a folder")
                }
                other => other.into(),
            })
        };
        for folder in folders {
            at = Some(step(&at, folder, OFlags::RDONLY | OFlags::DIRECTORY)?);
        }
        step(&at, last, flags)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_are_read_within_bounds_and_links_never() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| folder.path().join(name);
        fs::write(outside.path().join("secret"), "outside").unwrap();
        fs::create_dir(at("in")).unwrap();
        fs::write(at("in/a.md"), "\u{feff}inside").unwrap();
        fs::write(at("in/b.md"), [0xff, 0xfe]).unwrap();
        fs::write(at("blank"), " \n").unwrap();
        symlink(outside.path().join("secret"), at("link")).unwrap();
        symlink(outside.path(), at("out")).unwrap();
        symlink("in/a.md", at("inner")).unwrap();
        let pipe = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, pipe, 0)
            .unwrap();
        let source = SourceFolder::open(folder.path()).unwrap();
        assert_eq!(source.text("in/a.md", 100).unwrap().as_deref(), Some("inside"));
        assert_eq!(source.text("none", 9).unwrap(), None);
        assert_eq!(source.text("blank", 9).unwrap(), None);
        for (name, why) in [
            ("link", "a link"),
            ("inner", "a link"),
            ("out/secret", "a link"),
            ("../secret", "outside"),
            ("/etc/passwd", "outside"),
            ("pipe", "not an ordinary file"),
            ("in", "not an ordinary file"),
            ("in/b.md", "not UTF-8"),
        ] {
            let told = source.text(name, 100).unwrap_err().to_string();
            assert!(told.contains(why) && told.starts_with(name), "{name}: {told}");
        }
        let told = source.text("in/a.md", 5).unwrap_err().to_string();
        assert!(told.contains("9 bytes; the limit is 5"), "{told}");
        assert_eq!(source.names("in", ".md").unwrap(), ["a.md", "b.md"]);
        assert!(source.names("none", "").unwrap().is_empty());
        assert!(source.names("out", "").unwrap_err().to_string().contains("a link"));
        assert!(source.has("in/a.md") && !source.has("none"));
        assert!(SourceFolder::open(&at("none")).is_err());
    }
}
