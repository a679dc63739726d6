//! A program's file in the place of another, so that whoever starts it meanwhile gets one or the
//! other.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use crate::disk::sync_folder;

/// What was done.
#[derive(Debug)]
pub(super) struct Swapped {
    /// Where the new program is.
    pub(super) installed: PathBuf,
    /// Where the old one is kept.
    pub(super) before: PathBuf,
}

/// Puts a program in the place of the installed one, with that one's permissions, and keeps the
/// installed one beside it. None: they are one file. Blocks for as long as copying a program takes.
///
/// # Errors
/// The system's error; the installed program is in its place.
pub(super) fn swap(new: &Path, installed: &Path) -> io::Result<Option<Swapped>> {
    let installed = fs::canonicalize(installed)?;
    let (from, to) = (fs::metadata(new)?, fs::metadata(&installed)?);
    if (from.dev(), from.ino()) == (to.dev(), to.ino()) {
        return Ok(None);
    }
    let folder = installed.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut copy = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    io::copy(&mut File::open(new)?, &mut copy)?;
    // As another user than root it is ours in any case.
    let _ = chown(copy.path(), Some(to.uid()), Some(to.gid()));
    copy.as_file().set_permissions(to.permissions())?;
    copy.as_file().sync_all()?;
    let before = beside(&installed);
    keep(&installed, &before)?;
    copy.into_temp_path().persist(&installed).map_err(|error| error.error)?;
    sync_folder(folder);
    Ok(Some(Swapped { installed, before }))
}

/// `NAME.before`.
fn beside(installed: &Path) -> PathBuf {
    let mut name: OsString = installed.as_os_str().to_owned();
    name.push(".before");
    name.into()
}

/// Gives the installed program a second name, in place of what has that name.
fn keep(installed: &Path, before: &Path) -> io::Result<()> {
    match fs::remove_file(before) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Not every file system has second names.
    fs::hard_link(installed, before).or_else(|_| fs::copy(installed, before).map(drop))
}

impl Swapped {
    /// Puts the program back that was there before.
    ///
    /// # Errors
    /// The system's error; the new one stays in its place.
    pub(super) fn undo(&self) -> io::Result<()> {
        fs::rename(&self.before, &self.installed)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_new_program_has_the_place_and_permissions_of_the_old_one_which_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old, link) =
            (folder.path().join("new"), folder.path().join("old"), folder.path().join("link"));
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        fs::write(&new, "new").unwrap();
        fs::write(&old, "old").unwrap();
        fs::write(folder.path().join("old.before"), "older").unwrap();
        fs::set_permissions(&old, fs::Permissions::from_mode(0o751)).unwrap();
        std::os::unix::fs::symlink(&old, &link).unwrap();
        assert!(swap(&old, &link).unwrap().is_none(), "they are one file");
        let swapped = swap(&new, &link).unwrap().unwrap();
        assert_eq!((read(&old), read(&swapped.before)), ("new".to_owned(), "old".to_owned()));
        assert!(link.is_symlink(), "a link stays one");
        assert_eq!(fs::metadata(&old).unwrap().permissions().mode() & 0o777, 0o751);
        swapped.undo().unwrap();
        assert_eq!((read(&old), read(&new)), ("old".to_owned(), "new".to_owned()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing is left behind");
    }

    #[test]
    fn where_nothing_can_be_written_the_old_program_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs::write(&new, "new").unwrap();
        fs::write(&old, "old").unwrap();
        fs::create_dir_all(folder.path().join("old.before/full")).unwrap();
        assert!(swap(&new, &old).is_err());
        assert_eq!(fs::read_to_string(&old).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing is left behind");
    }
}
