//! Finds the working directory that `channels.md` names, below one of the allowed roots.

use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode as FileMode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;

/// The reason why a directory may not be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The directory does not exist, or its links cannot be resolved.
    #[error("directory {}: {source}", path.display())]
    Unreachable {
        /// The directory that was looked for.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// The path is that of a file.
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// A part of the path below the root is a symbolic link, which an agent could have made.
    #[error("directory {} contains a symbolic link below PROJECT_ROOTS; name the directory that it leads to, or move that directory here", .0.display())]
    Link(PathBuf),
    /// The directory is below none of the allowed ones.
    #[error("directory {} is not below PROJECT_ROOTS ({})", directory.display(), listed(roots))]
    OutsideRoots {
        /// The directory with its links resolved.
        directory: PathBuf,
        /// The allowed directories.
        roots: Vec<PathBuf>,
    },
}

fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

/// Returns the directory that a text names. It must exist below one of the roots. The links of a
/// root are resolved, but below it no link is followed, because agents can make links there. A
/// relative directory starts from the first root. Blocks while it accesses the file system.
///
/// # Errors
/// [`DirectoryError`] if there is no such directory, or it is below none of the roots.
pub fn directory(
    text: &str,
    roots: &[PathBuf],
    home: Option<&str>,
) -> Result<PathBuf, DirectoryError> {
    let path = match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => Path::new(home).join(rest),
        _ => roots.first().map_or_else(|| PathBuf::from(text), |root| root.join(text)),
    };
    let mut refusal = None;
    // The path of a root below another root may contain links of an agent.
    let is_below =
        |root: &&PathBuf| roots.iter().any(|other| root != &other && root.starts_with(other));
    for root in roots.iter().filter(|root| !is_below(root)) {
        let Ok(real) = root.canonicalize() else { continue };
        let below = path.strip_prefix(root).or_else(|_| path.strip_prefix(&real));
        let Ok(below) = below else { continue };
        match open_below(&real, below) {
            Ok(found) => return Ok(found),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    Err(match refusal {
        None | Some(Errno::XDEV) => {
            DirectoryError::OutsideRoots { directory: path, roots: roots.to_vec() }
        }
        Some(Errno::LOOP) => DirectoryError::Link(path),
        Some(Errno::NOTDIR) => DirectoryError::NotADirectory(path),
        Some(error) => DirectoryError::Unreachable { path, source: error.into() },
    })
}

/// Opens a directory below a root, and returns its path without links.
fn open_below(root: &Path, below: &Path) -> Result<PathBuf, Errno> {
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(root, flags, FileMode::empty())?;
    let no_links = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(&root, below, flags, FileMode::empty(), no_links) {
            // Something was renamed while the kernel resolved the path.
            Err(Errno::AGAIN) => {}
            Err(error) => return Err(error),
            Ok(found) => {
                let found = std::fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd()));
                return found.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
            }
        }
    }
}
