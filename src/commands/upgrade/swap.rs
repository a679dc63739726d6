//! Replaces the file of a program atomically, so that a start at any time gets either the old or
//! the new program.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use aetheel_store::disk::sync_folder;

#[derive(Debug)]
pub(super) struct Swapped {
    pub(super) installed: PathBuf,
    /// Path of the copy of the old program, or `None` if there was no old program.
    pub(super) before: Option<PathBuf>,
}

/// Replaces the installed program by a new one with the same permissions, and keeps the old one
/// beside it. Returns `None` if both are the same file. Blocks while the program is copied.
///
/// # Errors
/// Returns the system's error. The installed program is unchanged.
pub(super) fn swap(new: &Path, installed: &Path) -> io::Result<Option<Swapped>> {
    let installed = fs::canonicalize(installed)?;
    let (from, to) = (fs::metadata(new)?, fs::metadata(&installed)?);
    if (from.dev(), from.ino()) == (to.dev(), to.ino()) {
        return Ok(None);
    }
    let before = put(new, &installed, &to)?;
    Ok(Some(Swapped { installed, before }))
}

/// Puts the file `name` from the folder of the new program into the folder of the installed one, with
/// that program's permissions. Returns `None` if the new program's folder has no such file, or if both
/// folders have the same one. Blocks for as long as copying the file takes.
///
/// # Errors
/// The system's error. The installed folder is unchanged.
pub(super) fn swap_beside(new: &Path, installed: &Path, name: &str) -> io::Result<Option<Swapped>> {
    let like = fs::metadata(installed)?;
    let new = new.with_file_name(name);
    let installed = fs::canonicalize(installed)?.with_file_name(name);
    if !new.is_file() {
        return Ok(None);
    }
    if installed.is_file() {
        return swap(&new, &installed);
    }
    let before = put(&new, &installed, &like)?;
    Ok(Some(Swapped { installed, before }))
}

/// Copies a file to `installed` with the owner and permissions of `like`. Returns where the file is
/// kept that was there before.
fn put(new: &Path, installed: &Path, like: &Metadata) -> io::Result<Option<PathBuf>> {
    let folder = installed.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut copy = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    io::copy(&mut File::open(new)?, &mut copy)?;
    // Only root can change the owner; other users keep the file.
    let _ = chown(copy.path(), Some(like.uid()), Some(like.gid()));
    copy.as_file().set_permissions(like.permissions())?;
    copy.as_file().sync_all()?;
    let before = installed.exists().then(|| beside(installed));
    if let Some(before) = &before {
        keep(installed, before)?;
    }
    copy.into_temp_path().persist(installed).map_err(|error| error.error)?;
    sync_folder(folder);
    Ok(before)
}

/// Returns the path `NAME.before`.
fn beside(installed: &Path) -> PathBuf {
    let mut name: OsString = installed.as_os_str().to_owned();
    name.push(".before");
    name.into()
}

/// Links the installed program to a second path, replacing any file there.
fn keep(installed: &Path, before: &Path) -> io::Result<()> {
    match fs::remove_file(before) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Some file systems do not support hard links.
    fs::hard_link(installed, before).or_else(|_| fs::copy(installed, before).map(drop))
}

impl Swapped {
    /// Restores the old program, or removes the new one if there was no old one.
    ///
    /// # Errors
    /// Returns the system's error. The new program stays installed.
    pub(super) fn undo(&self) -> io::Result<()> {
        match &self.before {
            Some(before) => fs::rename(before, &self.installed),
            None => fs::remove_file(&self.installed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_new_program_gets_the_permissions_of_the_old_one_which_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old, link) =
            (folder.path().join("new"), folder.path().join("old"), folder.path().join("link"));
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        fs::write(&new, "new").unwrap();
        fs::write(&old, "old").unwrap();
        fs::write(folder.path().join("old.before"), "older").unwrap();
        fs::set_permissions(&old, fs::Permissions::from_mode(0o751)).unwrap();
        std::os::unix::fs::symlink(&old, &link).unwrap();
        assert!(swap(&old, &link).unwrap().is_none(), "both are the same file");
        let swapped = swap(&new, &link).unwrap().unwrap();
        let before = swapped.before.clone().unwrap();
        assert_eq!((read(&old), read(&before)), ("new".to_owned(), "old".to_owned()));
        assert!(link.is_symlink(), "the link is kept");
        assert_eq!(fs::metadata(&old).unwrap().permissions().mode() & 0o777, 0o751);
        swapped.undo().unwrap();
        assert_eq!((read(&old), read(&new)), ("old".to_owned(), "new".to_owned()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "no temporary file remains");
    }

    #[test]
    fn a_file_beside_the_program_is_replaced_or_added_and_can_be_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let (new, installed) = (folder.path().join("new"), folder.path().join("installed"));
        for (bin, text) in [(&new, "new"), (&installed, "old")] {
            fs::create_dir(bin).unwrap();
            fs::write(bin.join("program"), text).unwrap();
        }
        let swap = || swap_beside(&new.join("program"), &installed.join("program"), "holder");
        let holder = installed.join("holder");
        assert!(swap().unwrap().is_none(), "nothing can be installed");
        fs::set_permissions(installed.join("program"), fs::Permissions::from_mode(0o751)).unwrap();
        fs::write(new.join("holder"), "new").unwrap();
        let added = swap().unwrap().unwrap();
        assert_eq!((fs::read_to_string(&holder).unwrap(), &added.before), ("new".into(), &None));
        assert_eq!(fs::metadata(&holder).unwrap().permissions().mode() & 0o777, 0o751);
        added.undo().unwrap();
        assert!(!holder.exists());
        fs::write(&holder, "old").unwrap();
        let replaced = swap().unwrap().unwrap();
        assert_eq!(fs::read_to_string(&holder).unwrap(), "new");
        replaced.undo().unwrap();
        assert_eq!(fs::read_to_string(&holder).unwrap(), "old");
    }

    #[test]
    fn the_old_program_is_kept_if_the_folder_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs::write(&new, "new").unwrap();
        fs::write(&old, "old").unwrap();
        fs::create_dir_all(folder.path().join("old.before/full")).unwrap();
        assert!(swap(&new, &old).is_err());
        assert_eq!(fs::read_to_string(&old).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "no temporary file remains");
    }
}
