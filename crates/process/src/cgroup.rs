//! A cgroup for every run, if the system permits it. One write to `cgroup.kill` then kills all
//! processes of the run, however they were forked.
//!
//! Needs cgroups of version 2 with `cgroup.kill` (Linux 5.14). No controllers are enabled. A run's
//! cgroup is `<our own cgroup>/aetheel-<gateway>/<number>`. The name identifies the gateway, so
//! that the folders of dead gateways can be removed.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use super::gateway_id::GatewayId;

/// Prefix of the names of our folders.
const PREFIX: &str = "aetheel-";

/// The cgroup of holders that have left their gateway's cgroup.
const HOLDERS: &str = "aetheel-hold";

/// The folder with the cgroups of all runs of this gateway. Removed on drop, if it is empty.
#[derive(Debug)]
pub(super) struct RunsFolder {
    folder: PathBuf,
}

impl RunsFolder {
    /// Creates the folder.
    ///
    /// # Errors
    /// This process may not create cgroups below its own, or the kernel has no `cgroup.kill`.
    pub(super) fn new(gateway: &GatewayId) -> io::Result<Self> {
        let folder = own_folder()?.join(format!("{PREFIX}{gateway}"));
        fs::create_dir_all(&folder)?;
        let home = Self { folder };
        // On an error, dropping `home` removes the folder.
        fs::metadata(home.folder.join("cgroup.kill"))?;
        Ok(home)
    }

    /// Creates the cgroup of one run.
    ///
    /// # Errors
    /// The folder cannot be created or opened.
    pub(super) fn create_run(&self, number: u64) -> io::Result<Cgroup> {
        let folder = self.folder.join(number.to_string());
        // Another launcher of this process may have removed the folder in the meantime.
        fs::create_dir(&folder).or_else(|_| fs::create_dir_all(&folder))?;
        match File::open(&folder) {
            Ok(handle) => Ok(Cgroup { folder, handle }),
            Err(error) => {
                let _ = fs::remove_dir(&folder);
                Err(error)
            }
        }
    }

    pub(super) fn contains(&self, pid: i32) -> bool {
        folder_of(&format!("/proc/{pid}/cgroup"))
            .is_ok_and(|folder| folder.starts_with(&self.folder))
    }
}

impl Drop for RunsFolder {
    fn drop(&mut self) {
        // Fails while runs are left. The next start then removes the folder.
        let _ = fs::remove_dir(&self.folder);
    }
}

#[derive(Debug)]
pub(super) struct Cgroup {
    folder: PathBuf,
    handle: File,
}

impl Cgroup {
    pub(super) fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// Kills all processes in the cgroup, including those that are being forked.
    pub(super) fn kill(&self) -> io::Result<()> {
        kill(&self.folder)
    }

    /// Removes the cgroup. Returns `true` if it no longer exists, which means that it contains no
    /// running process.
    pub(super) fn remove(&self) -> bool {
        remove(&self.folder)
    }
}

/// Kills the processes in the cgroups of gateways that no longer exist. Returns the number of
/// processes.
pub(super) fn sweep(own: &GatewayId) -> usize {
    let is_dead = |folder: &Path| {
        let name = folder.file_name().and_then(|name| name.to_str()?.strip_prefix(PREFIX));
        name.and_then(GatewayId::parse).is_some_and(|gateway| own.knows_dead(&gateway))
    };
    let entries = own_folder().and_then(fs::read_dir).into_iter().flatten().flatten();
    let dead: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|folder| is_dead(folder)).collect();
    let mut killed = 0;
    for folder in &dead {
        let inside = count_processes(folder);
        match kill(folder) {
            Ok(()) => {
                killed += inside;
                super::wait_until(super::KILL_LIMIT, || remove(folder));
            }
            // Another gateway that starts at the same time has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // It belongs to another user, whose next gateway removes it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::debug!(folder = %folder.display(), "a cgroup of another user's gateway is left to that user");
            }
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "cannot kill a cgroup that an earlier gateway left behind");
            }
        }
    }
    killed
}

/// Counts the processes in a cgroup and its descendants.
fn count_processes(folder: &Path) -> usize {
    let own = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default().lines().count();
    let below = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir());
    own + below.map(|path| count_processes(&path)).sum::<usize>()
}

fn kill(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("cgroup.kill"), "1")
}

fn remove(folder: &Path) -> bool {
    match fs::remove_dir(folder) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        // It contains processes, or cgroups that the run created.
        Err(_) => {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    remove(&entry.path());
                }
            }
            fs::remove_dir(folder).is_ok()
        }
    }
}

fn own_folder() -> io::Result<PathBuf> {
    folder_of("/proc/self/cgroup")
}

fn folder_of(groups: &str) -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let groups = fs::read_to_string(groups)?;
    parse_own_folder(&mounts, &groups).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, "no cgroup v2 mount contains our cgroup")
    })
}

/// Moves this process into the cgroup [`HOLDERS`] beside its own, so that it is not killed together
/// with its old cgroup.
///
/// # Errors
/// The cgroup cannot be created or entered.
pub(super) fn move_to_holders() -> io::Result<()> {
    let own = own_folder()?;
    let beside = own.parent().filter(|parent| parent.join("cgroup.procs").exists());
    let beside = beside.ok_or_else(|| io::Error::other("our cgroup has no parent"))?;
    let folder = beside.join(HOLDERS);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("cgroup.procs"), "0")
}

/// Finds the folder of the own cgroup in `/proc/self/mountinfo` (proc_pid_mountinfo(5)) and
/// `/proc/self/cgroup` (cgroups(7)).
fn parse_own_folder(mounts: &str, groups: &str) -> Option<PathBuf> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        if right.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = left.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let inside = Path::new(own).strip_prefix(root).ok()?;
        Some(Path::new(point).join(inside))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_folder_is_found_in_hybrid_unified_and_container_mounts() {
        let hybrid = "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:3 - cgroup2 cgroup2 rw\n";
        assert_eq!(
            parse_own_folder(hybrid, "9:name=systemd:/x\n0::/\n"),
            Some("/sys/fs/cgroup/unified/".into())
        );
        let unified = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(
            parse_own_folder(unified, "0::/system.slice/a.service\n"),
            Some("/sys/fs/cgroup/system.slice/a.service".into())
        );
        let bound = "31 23 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(parse_own_folder(bound, "0::/docker/abc/x\n"), Some("/sys/fs/cgroup/x".into()));
        assert_eq!(parse_own_folder(bound, "0::/other\n"), None);
        assert_eq!(parse_own_folder("", "0::/\n"), None);
        assert_eq!(parse_own_folder(hybrid, "9:name=systemd:/\n"), None);
    }
    #[test]
    fn processes_are_counted_in_nested_cgroups() {
        let folder = tempfile::tempdir().unwrap();
        let cgroup = |name: &str, listed: &str| {
            let place = folder.path().join(name);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("cgroup.procs"), listed).unwrap();
            place
        };
        assert_eq!(count_processes(&cgroup("empty", "")), 0);
        let run = cgroup("run", "12\n13\n");
        cgroup("run/inner", "14\n");
        cgroup("run/inner/empty", "");
        assert_eq!(count_processes(&run), 3);
        assert_eq!(count_processes(&folder.path().join("gone")), 0);
    }
}
