//! Ensures that only one gateway uses a folder: `state/gateway.lock` is locked (flock) while a
//! gateway runs.
//!
//! The lines of the file name the process id, the program's version and the program's file, and the
//! last one is a [`GatewayReport`]; earlier versions wrote fewer lines. A running gateway regularly updates the file's modification
//! time as a sign that it works.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::gateway_report::{GatewayReport, LOCK_FILE};

/// The lock. The system releases it when the program ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// The reason why the lock was not acquired.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another gateway has it.
    #[error("another gateway (process {pid}) serves `{}`; stop it first, or give this one a CONFIG_DIR of its own", folder.display())]
    Other {
        /// The process id that it wrote into the file.
        pid: String,
        /// The folder that contains the state.
        folder: PathBuf,
    },
    /// The file cannot be used.
    #[error("cannot lock `{}`: {source}", path.display())]
    Failed {
        /// The lock file, `state/gateway.lock`.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl Lock {
    pub(super) fn acquire(folder: &Path) -> Result<Self, LockError> {
        let path = &folder.join(LOCK_FILE);
        let failed = |source| LockError::Failed { path: path.to_owned(), source };
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // If it cannot be read, its process is unknown.
                let _ = file.read_to_string(&mut text);
                let pid = LockOwner::parse(&text)
                    .map_or_else(|| "unknown".to_owned(), |serving| serving.pid.to_string());
                return Err(LockError::Other {
                    pid,
                    folder: path.parent().unwrap_or(path).to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let lock = Self { file };
        lock.write(&GatewayReport::of_this_process()).map_err(failed)?;
        Ok(lock)
    }

    /// Writes the lines of this process. A reader can see a part of them.
    fn write(&self, report: &GatewayReport) -> std::io::Result<()> {
        let text = LockOwner::this_process().render() + &report.render();
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.set_len(text.len() as u64)
    }

    /// Replaces the report in the file, and sets the modification time to now. Blocks while the
    /// disk does.
    pub fn report(&self, report: &GatewayReport) {
        // The time is set in any case, because a full disk does not mean that the gateway hangs.
        if let Err(error) = self.write(report) {
            tracing::debug!(%error, "cannot write the report into the lock file");
        }
        self.touch();
    }

    /// Sets the modification time of the file to now. Blocks while the disk does.
    fn touch(&self) {
        // Readers then see an older time.
        if let Err(error) = self.file.set_modified(SystemTime::now()) {
            tracing::debug!(%error, "cannot update the time of the lock file");
        }
    }
}

/// The gateway that serves a folder, according to the lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockOwner {
    /// Its process id.
    pub pid: u32,
    /// Its version, or `None` if it is an earlier version that did not write it.
    pub version: Option<String>,
    /// The file of its program.
    pub program: Option<PathBuf>,
}

impl LockOwner {
    /// Returns the gateway that currently serves a configuration folder. Does not lock the file,
    /// because a gateway that starts at this moment must get its lock.
    #[must_use]
    pub fn current(folder: &Path) -> Option<Self> {
        let pid = locked_by(&folder.join(LOCK_FILE))?;
        let said = Self::last(folder).filter(|last| last.pid == pid);
        Some(said.unwrap_or(Self { pid, version: None, program: None }))
    }

    /// Returns the gateway that served a configuration folder last, whether it still runs or not.
    #[must_use]
    pub fn last(folder: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(folder.join(LOCK_FILE)).ok()?)
    }

    /// Returns how long ago the gateway of a configuration folder last updated the file, or `None`
    /// if that is unknown.
    #[must_use]
    pub fn age_of_last_sign(folder: &Path) -> Option<Duration> {
        let given = fs::metadata(folder.join(LOCK_FILE)).ok()?.modified().ok()?;
        // A time in the future was written before the clock was set back.
        Some(SystemTime::now().duration_since(given).unwrap_or_default())
    }

    fn this_process() -> Self {
        Self {
            pid: std::process::id(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            program: std::env::current_exe().ok(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::trim);
        let pid = lines.next()?.parse().ok()?;
        let mut more = lines.map(|line| Some(line.to_owned()).filter(|line| !line.is_empty()));
        let (version, program) = (more.next().flatten(), more.next().flatten());
        Some(Self { pid, version, program: program.map(PathBuf::from) })
    }

    fn render(&self) -> String {
        let program = self.program.as_deref().and_then(Path::to_str).unwrap_or_default();
        format!("{}\n{}\n{program}\n", self.pid, self.version.as_deref().unwrap_or_default())
    }
}

/// Returns the process that holds a lock (flock) on a file. Does not lock the file.
#[must_use]
pub fn locked_by(path: &Path) -> Option<u32> {
    let inode = fs::metadata(path).ok()?.ino();
    owner(&fs::read_to_string("/proc/locks").unwrap_or_default(), inode)
}

/// Finds the process that holds a lock on a file in the content of `/proc/locks` (proc_locks(5)).
fn owner(locks: &str, inode: u64) -> Option<u32> {
    let of_file = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1) == Some(&"FLOCK")
            && words.get(5).is_some_and(|file| file.rsplit(':').next() == Some(&inode.to_string()))
    };
    locks.lines().find(of_file)?.split_whitespace().nth(4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_serves_the_folder_is_identified() {
        let locks = "1: POSIX  ADVISORY  WRITE 77 08:01:42 0 EOF\n2: FLOCK  ADVISORY  WRITE 1234 08:01:42 0 EOF\n";
        assert_eq!((owner(locks, 42), owner(locks, 2)), (Some(1234), None));
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("state")).unwrap();
        assert_eq!(LockOwner::current(folder.path()), None);
        let lock = Lock::acquire(folder.path()).unwrap();
        assert_eq!(LockOwner::current(folder.path()), Some(LockOwner::this_process()));
        lock.file.set_modified(SystemTime::now() - Duration::from_secs(600)).unwrap();
        assert!(LockOwner::age_of_last_sign(folder.path()).unwrap() >= Duration::from_secs(600));
        lock.touch();
        assert!(LockOwner::age_of_last_sign(folder.path()).unwrap() < Duration::from_secs(600));
        let pid = std::process::id().to_string();
        assert!(
            matches!(Lock::acquire(folder.path()), Err(LockError::Other { pid: named, .. }) if named == pid)
        );
        drop(lock);
        assert_eq!(LockOwner::current(folder.path()), None);
        assert_eq!(LockOwner::last(folder.path()), Some(LockOwner::this_process()));
    }

    #[test]
    fn the_file_of_an_earlier_version_has_only_its_process() {
        let earlier = LockOwner { pid: 7, version: None, program: None };
        assert_eq!(LockOwner::parse("7\n"), Some(earlier.clone()));
        assert_eq!(LockOwner::parse(&earlier.render()), Some(earlier));
        assert_eq!((LockOwner::parse(""), LockOwner::parse("x\n")), (None, None));
    }
}
