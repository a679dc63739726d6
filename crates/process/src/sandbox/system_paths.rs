//! The paths of the system that every agent may use, opened once for all agents.
//!
//! Resolving and opening them took most of the time for the confinement of a process. A path is
//! opened again when it leads to another file than before, for example after a folder was removed
//! and created again: a Landlock rule applies to a file, not to a path. The number of a file that
//! is kept open is not used for another file, so the comparison is reliable.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags, fstat, openat2, stat, statx,
};
use rustix::io::Errno;

use aetheel_turn::WorkingDirectory;

/// Folders of the system that every agent may read. They need not exist.
pub(super) const FOLDERS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/etc",
    "/nix/store",
    "/run/current-system",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
    "/run/nscd",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/var/lib/ca-certificates",
];

/// Devices that agents may use.
pub(super) const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// Programs on Node and Bun read information about themselves, their children, memory and
/// processors here.
pub(super) const PROCESSES: &str = "/proc";

/// File systems that are never unmounted while the system runs.
const PERMANENT: [&str; 3] = ["/dev", "/proc", "/sys"];

#[derive(Debug)]
pub(super) struct OpenedPath {
    pub(super) path: PathBuf,
    pub(super) handle: OwnedFd,
    pub(super) is_folder: bool,
}

impl OpenedPath {
    /// Opens a path without links. A link that was put there meanwhile is not followed.
    ///
    /// # Errors
    /// The path does not exist, this user cannot reach it, or it contains a link.
    pub(super) fn open(path: PathBuf) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let handle = openat2(CWD, &path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        let is_folder =
            fstat(&handle).is_ok_and(|file| FileType::from_raw_mode(file.st_mode).is_dir());
        Ok(Self { path, handle, is_folder })
    }

    /// Uses an opened working directory.
    ///
    /// # Errors
    /// No descriptor is free.
    pub(super) fn of_directory(cwd: &WorkingDirectory) -> io::Result<Self> {
        let handle = cwd.handle().try_clone_to_owned()?;
        Ok(Self { path: cwd.path().to_owned(), handle, is_folder: true })
    }

    /// Returns the numbers of device and inode, as `stat -c %d:%i` prints them. No file has this
    /// identity if the system does not return them.
    pub(super) fn identity(&self) -> String {
        fstat(&self.handle)
            .map(|found| format!("{}:{}", found.st_dev, found.st_ino))
            .unwrap_or_default()
    }

    /// Returns whether a path leads to this file, possibly through another mount.
    pub(super) fn is_same_file(&self, path: &Path) -> bool {
        match (fstat(&self.handle), stat(path)) {
            (Ok(own), Ok(other)) => (own.st_dev, own.st_ino) == (other.st_dev, other.st_ino),
            _ => false,
        }
    }
}

/// Identifies a file on this machine, and the mount on which it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileKey {
    device: (u32, u32),
    inode: u64,
    mount: u64,
}

impl FileKey {
    /// Returns the key of a file. Links are followed.
    ///
    /// # Errors
    /// The path does not exist, or the kernel does not number mounts.
    fn of(path: &Path) -> Result<Self, Errno> {
        Self::examine(CWD, path, AtFlags::empty())
    }

    fn of_handle(handle: &OwnedFd) -> Result<Self, Errno> {
        Self::examine(handle.as_fd(), Path::new(""), AtFlags::EMPTY_PATH)
    }

    fn examine(folder: BorrowedFd<'_>, path: &Path, flags: AtFlags) -> Result<Self, Errno> {
        let found = statx(folder, path, flags, StatxFlags::INO | StatxFlags::MNT_ID)?;
        if found.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
            return Err(Errno::NOSYS);
        }
        Ok(Self {
            device: (found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            mount: found.stx_mnt_id,
        })
    }
}

/// The paths that are open, by the name that was asked for.
#[derive(Default)]
struct OpenedPaths(Mutex<HashMap<&'static str, (FileKey, Arc<OpenedPath>)>>);

impl OpenedPaths {
    fn get(&self, name: &'static str) -> Option<Arc<OpenedPath>> {
        let now = FileKey::of(Path::new(name));
        let mut by_name = self.0.lock();
        if let (Ok(now), Some((file, opened))) = (now, by_name.get(name))
            && *file == now
        {
            return Some(Arc::clone(opened));
        }
        by_name.remove(name);
        if matches!(now, Err(Errno::NOENT | Errno::NOTDIR)) {
            return None;
        }
        let opened = Arc::new(OpenedPath::open(fs::canonicalize(name).ok()?).ok()?);
        if let Ok(file) = FileKey::of_handle(&opened.handle)
            && is_permanent(&opened.path, file)
        {
            by_name.insert(name, (file, Arc::clone(&opened)));
        }
        Some(opened)
    }
}

/// Returns whether a file is in a file system that nobody unmounts. A handle would prevent that.
fn is_permanent(path: &Path, file: FileKey) -> bool {
    PERMANENT.iter().any(|above| path.starts_with(above)) || Some(file.mount) == root_mount()
}

fn root_mount() -> Option<u64> {
    static ROOT: LazyLock<Option<u64>> =
        LazyLock::new(|| FileKey::of(Path::new("/")).ok().map(|root| root.mount));
    *ROOT
}

/// Returns the present file of a path, with links resolved, or `None` if it does not exist.
pub(super) fn get(name: &'static str) -> Option<Arc<OpenedPath>> {
    static OPENED: LazyLock<OpenedPaths> = LazyLock::new(OpenedPaths::default);
    OPENED.get(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_is_opened_once_until_it_leads_to_another_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let link: &'static str = at("link").to_string_lossy().into_owned().leak();
        let paths = OpenedPaths::default();
        assert!(paths.get(link).is_none());
        for name in ["one", "two"] {
            fs::create_dir(at(name)).expect("made");
        }
        symlink(at("one"), link).expect("linked");
        let first = paths.get(link).expect("there");
        assert!(first.is_folder);
        assert_eq!(first.path, at("one").canonicalize().expect("there"));
        // The folder of the test may be on another mount.
        let is_kept = is_permanent(&first.path, FileKey::of(Path::new(link)).expect("there"));
        assert_eq!(Arc::ptr_eq(&first, &paths.get(link).expect("there")), is_kept);

        fs::remove_dir(at("one")).expect("removed");
        assert!(paths.get(link).is_none());
        fs::create_dir(at("one")).expect("made again");
        let again = paths.get(link).expect("there");
        let found = rustix::fs::fstat(&again.handle).expect("examined");
        let now = rustix::fs::stat(at("one")).expect("examined");
        assert_eq!((found.st_dev, found.st_ino), (now.st_dev, now.st_ino));

        fs::remove_file(link).expect("removed");
        symlink(at("two"), link).expect("linked");
        assert_eq!(paths.get(link).expect("there").path, at("two").canonicalize().expect("there"));
    }

    #[test]
    fn equal_grants_share_the_paths_of_the_system() {
        let first = get(PROCESSES).expect("there");
        assert!(Arc::ptr_eq(&first, &get(PROCESSES).expect("there")));
        assert!(get("/nothing/of/that/name").is_none());
    }
}
