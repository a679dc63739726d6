//! A private folder for the files of one turn, in the agent's working directory.
//!
//! Every agent may read its working directory at every safety level. The agent may also write
//! there, so files get names that the gateway chooses and are opened without following symbolic
//! links, and the working directory is opened once. The folder is removed when the [`TempDir`] is
//! dropped.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aetheel_turn::WorkingDirectory;
use rustix::fs::{Mode, OFlags, mkdirat, openat};

const PREFIX: &str = ".aetheel-files-";
/// The age from which folders of turns that ended in a crash are removed.
const LEFTOVER_AGE_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// A private folder. Its methods block.
pub(crate) struct TempDir {
    directory: WorkingDirectory,
    name: String,
    folder: OwnedFd,
    /// The path for the agent.
    path: PathBuf,
    files: usize,
}

impl TempDir {
    /// Creates a folder below a directory. Only this user can read it, and git ignores it.
    ///
    /// # Errors
    /// The error of the system call, or that the directory was replaced by a link.
    pub(crate) fn make(directory: &Path) -> std::io::Result<Self> {
        let path = directory;
        let directory = WorkingDirectory::open(path).map_err(std::io::Error::other)?;
        remove_leftovers(&directory);
        let name = format!("{PREFIX}{}", uuid::Uuid::new_v4().simple());
        mkdirat(directory.handle(), &name, Mode::RWXU)?;
        let folder = open_folder(&directory, &name)?;
        let temp_dir = Self { path: path.join(&name), directory, name, folder, files: 0 };
        temp_dir.write(".gitignore", b"*\n")?;
        Ok(temp_dir)
    }

    /// Takes over the folder that a previous process created for this file. Returns `None` if it no
    /// longer exists.
    pub(crate) fn of_file(file: &Path) -> Option<Self> {
        let path = file.parent()?;
        let name = path.file_name()?.to_str().filter(|name| name.starts_with(PREFIX))?.to_owned();
        let directory = WorkingDirectory::open(path.parent()?).ok()?;
        let folder = open_folder(&directory, &name).ok()?;
        // The count does not matter, because no more files are added to this folder.
        Some(Self { path: path.to_owned(), directory, name, folder, files: 0 })
    }

    /// Writes a file and returns its path. `extension` must be plain.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn put(&mut self, extension: &str, bytes: &[u8]) -> std::io::Result<PathBuf> {
        self.files += 1;
        let name = format!("att-{}.{extension}", self.files);
        self.write(&name, bytes)?;
        Ok(self.path.join(name))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        File::from(openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR)?).write_all(bytes)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        remove(&self.directory, &self.name);
    }
}

/// Opens a folder below a directory, but no symbolic link to one.
fn open_folder(directory: &WorkingDirectory, name: &str) -> std::io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(directory.handle(), name, flags, Mode::empty())?)
}

fn remove_leftovers(directory: &WorkingDirectory) {
    let entries = std::fs::read_dir(directory.descriptor_path()).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let age = entry
            .metadata()
            .and_then(|data| data.modified())
            .ok()
            .and_then(|modified| modified.elapsed().ok());
        if age.is_some_and(|age| age > LEFTOVER_AGE_LIMIT) {
            remove(directory, entry.file_name());
        }
    }
}

fn remove(directory: &WorkingDirectory, name: impl AsRef<Path>) {
    match std::fs::remove_dir_all(directory.descriptor_path().join(&name)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let path = directory.path().join(name);
            tracing::warn!(path = %path.display(), %error, "cannot remove the files of a turn; remove them by hand");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_temp_dir_is_private_and_removed_when_dropped() {
        let directory = tempfile::tempdir().expect("a folder");
        let mut temp_dir = TempDir::make(directory.path()).expect("made");
        let file = temp_dir.put("png", b"bytes").expect("put");
        let mode =
            |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().expect("a folder"))), (0o600, 0o700));
        assert!(
            file.ends_with("att-1.png")
                && temp_dir.put("txt", b"").expect("put").ends_with("att-2.txt")
        );
        assert_eq!(std::fs::read(&file).expect("readable"), b"bytes");
        drop(temp_dir);
        assert_eq!(std::fs::read_dir(directory.path()).expect("readable").count(), 0);
    }

    #[test]
    fn folders_left_by_a_crash_are_removed_after_a_day() {
        let directory = tempfile::tempdir().expect("a folder");
        let (old, young) = (
            directory.path().join(".aetheel-files-old"),
            directory.path().join(".aetheel-files-young"),
        );
        for folder in [&old, &young] {
            std::fs::create_dir(folder).expect("made");
            std::fs::write(folder.join("att-1.txt"), "x").expect("written");
        }
        let before = std::time::SystemTime::now() - LEFTOVER_AGE_LIMIT * 2;
        File::open(&old).and_then(|folder| folder.set_modified(before)).expect("dated back");
        drop(TempDir::make(directory.path()).expect("made"));
        assert_eq!((old.exists(), young.exists()), (false, true));
    }

    #[test]
    fn nothing_is_written_or_removed_through_a_directory_that_was_replaced_by_a_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["work", "home", "home/.aetheel-files-old"] {
            std::fs::create_dir(at(name)).expect("made");
        }
        let before = std::time::SystemTime::now() - LEFTOVER_AGE_LIMIT * 2;
        File::open(at("home/.aetheel-files-old"))
            .and_then(|folder| folder.set_modified(before))
            .expect("dated back");
        let mut temp_dir = TempDir::make(&at("work")).expect("made");
        let file = temp_dir.put("txt", b"text").expect("put");
        std::fs::rename(at("work"), at("moved")).expect("moved");
        symlink("home", at("work")).expect("linked");
        TempDir::make(&at("work")).err().expect("a link is refused");
        assert!(TempDir::of_file(&file).is_none());
        temp_dir.put("txt", b"more").expect("put into the directory that was opened");
        drop(temp_dir);
        let names = |name: &str| std::fs::read_dir(at(name)).expect("readable").count();
        assert_eq!((names("home"), names("moved")), (1, 0));
    }
}
