//! Replacing a file as a whole.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::Stamp;

/// Permissions of a new file that is the owner's only.
pub const OWNER: u32 = 0o600;
/// Permissions of a new file that everybody may read: what is shared or committed, without secrets.
pub const EVERYBODY: u32 = 0o644;

/// Puts new content under a name; a new file is the owner's only. As [`replace_for`].
///
/// # Errors
/// As [`replace_for`].
pub fn replace(path: &Path, content: &[u8]) -> io::Result<Stamp> {
    replace_for(path, content, OWNER)
}

/// Puts new content under a name: readers, and a machine that loses power, see the old file or the
/// new one.
///
/// Written beside it, synced, renamed, and the folder synced. A link is followed and permissions
/// are kept; a new file has those of `mode`.
///
/// # Errors
/// As the system says; the old content is still there.
pub fn replace_for(path: &Path, content: &[u8], mode: u32) -> io::Result<Stamp> {
    put(path, mode, |file| file.write_all(content))
}

/// Puts what is written into a file under its name, as [`replace`] does: for what is too long to be
/// held. The old file can be read meanwhile.
///
/// # Errors
/// As [`replace_for`], and whatever `write` returns.
pub fn replace_with(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<Stamp> {
    put(path, OWNER, write)
}

fn put(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<Stamp> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut temporary = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    let permissions = fs::metadata(&path)
        .map_or_else(|_| Permissions::from_mode(mode), |before| before.permissions());
    temporary.as_file().set_permissions(permissions)?;
    write(temporary.as_file_mut())?;
    temporary.as_file().sync_all()?;
    let file = temporary.persist(&path).map_err(|error| error.error)?;
    sync_folder(folder);
    Ok(Stamp::from(&file.metadata()?))
}

/// Makes a change of names last. The change itself is done: a file system that cannot promise more
/// is only reported.
pub fn sync_folder(folder: &Path) {
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::debug!(folder = %folder.display(), %error, "cannot sync the folder");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_files_have_the_wanted_permissions_and_old_ones_keep_theirs() {
        let folder = tempfile::tempdir().expect("a folder");
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        let (own, shared, link) =
            (folder.path().join("own"), folder.path().join("shared"), folder.path().join("link"));
        replace(&own, b"1").expect("written");
        replace_for(&shared, b"1", EVERYBODY).expect("written");
        assert_eq!((mode(&own), mode(&shared)), (OWNER, EVERYBODY));
        std::os::unix::fs::symlink(&shared, &link).expect("linked");
        let stamp = replace(&link, b"22").expect("written");
        assert_eq!((Some(stamp), mode(&shared)), (Stamp::of(&shared), EVERYBODY));
        assert!(link.symlink_metadata().expect("a link").is_symlink());
        assert_eq!(
            fs::read_dir(folder.path()).expect("a folder").count(),
            3,
            "nothing is left behind"
        );
    }
}
