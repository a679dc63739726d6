//! Opens the working directory of an agent in a way that no agent can redirect.
//!
//! The operator's settings name a directory, and its links are resolved once, when the name is
//! read. An agent that may write to a folder above can put a link in its place afterwards. So the
//! resolved path is never followed through a link again: the directory is always opened here, and
//! its descriptor is used for checks, rules and files.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// The reason why a working directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkingDirectoryError {
    /// A part of the path is a symbolic link, which the path did not contain when it was resolved.
    #[error(
        "the working directory {} is or lies below a symbolic link now; an agent may have put it there: remove the link, or name another directory", .0.display()
    )]
    Link(PathBuf),
    /// There is no such directory.
    #[error("the working directory {} does not exist", .0.display())]
    Missing(PathBuf),
    /// The system refuses to open it.
    #[error("the working directory {} cannot be opened: {source}", path.display())]
    Unreachable {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// An opened working directory.
#[derive(Debug)]
pub struct WorkingDirectory {
    /// The path as it was asked for.
    named: PathBuf,
    path: PathBuf,
    handle: OwnedFd,
}

impl WorkingDirectory {
    /// Opens a directory. No part of the path may be a symbolic link.
    ///
    /// # Errors
    /// [`WorkingDirectoryError`]
    pub fn open(path: &Path) -> Result<Self, WorkingDirectoryError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let no_links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let failed = |error: Errno| match error {
            Errno::LOOP => WorkingDirectoryError::Link(path.to_owned()),
            Errno::NOENT | Errno::NOTDIR => WorkingDirectoryError::Missing(path.to_owned()),
            error => {
                WorkingDirectoryError::Unreachable { path: path.to_owned(), source: error.into() }
            }
        };
        let handle = openat2(CWD, path, flags, Mode::empty(), no_links).map_err(failed)?;
        let named = path.to_owned();
        match std::fs::read_link(descriptor_path(&handle)) {
            Ok(path) => Ok(Self { named, path, handle }),
            Err(source) => Err(WorkingDirectoryError::Unreachable { path: named, source }),
        }
    }

    /// Opens a file below the directory for reading, without waiting for a pipe. Symbolic links are
    /// followed as long as they do not lead out of the directory.
    ///
    /// # Errors
    /// The error of the system call: [`Errno::XDEV`] or [`Errno::LOOP`] if the path leads out of
    /// the directory.
    pub fn open_file(&self, below: &Path) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        loop {
            match openat2(&self.handle, below, flags, Mode::empty(), beneath) {
                // Something was renamed while the kernel resolved the path.
                Err(Errno::AGAIN) => {}
                opened => return opened.map(File::from),
            }
        }
    }

    /// Returns the path below the directory to which a path leads, without links. The part that does
    /// not exist is kept.
    ///
    /// # Errors
    /// The error of the system call: [`Errno::XDEV`] if the path leads out of the directory.
    pub fn resolve(&self, below: &Path) -> Result<PathBuf, Errno> {
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let (mut known, mut missing) = (below, Vec::new());
        loop {
            let part = if known.as_os_str().is_empty() { Path::new(".") } else { known };
            match openat2(&self.handle, part, flags, Mode::empty(), beneath) {
                Ok(found) => {
                    let found = std::fs::read_link(descriptor_path(&found));
                    let found =
                        found.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
                    let below = found.strip_prefix(&self.path).map_err(|_| Errno::XDEV)?;
                    return Ok(missing
                        .iter()
                        .rev()
                        .fold(below.to_owned(), |path, name| path.join(name)));
                }
                // Something was renamed while the kernel resolved the path.
                Err(Errno::AGAIN) => {}
                Err(error @ (Errno::NOENT | Errno::NOTDIR)) => {
                    let (Some(parent), Some(name)) = (known.parent(), known.file_name()) else {
                        return Err(error);
                    };
                    missing.push(name.to_owned());
                    known = parent;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns a path that leads to the opened directory while this value exists, wherever an agent
    /// moves the directory.
    #[must_use]
    pub fn descriptor_path(&self) -> PathBuf {
        descriptor_path(&self.handle)
    }

    /// Returns the path as it was asked for.
    #[must_use]
    pub fn named(&self) -> &Path {
        &self.named
    }

    /// Returns the path of the opened directory, for comparisons and messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the descriptor, which cannot be used to read or write directly (`O_PATH`).
    #[must_use]
    pub fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

fn descriptor_path(handle: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_is_opened_only_if_no_part_of_its_path_is_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("real/inner")).unwrap();
        symlink("real", root.join("link")).unwrap();
        symlink("/proc/self", root.join("process")).unwrap();
        let opened = WorkingDirectory::open(&root.join("real/../real/inner")).unwrap();
        assert_eq!(opened.path(), root.join("real/inner"));
        for path in ["link", "link/inner", "process", "process/fd"] {
            let error = WorkingDirectory::open(&root.join(path)).unwrap_err();
            assert!(matches!(error, WorkingDirectoryError::Link(_)), "{path}: {error}");
        }
        let error = WorkingDirectory::open(&root.join("none")).unwrap_err();
        assert!(matches!(error, WorkingDirectoryError::Missing(_)), "{error}");
    }
}
