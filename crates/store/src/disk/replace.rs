//! Replaces whole files atomically.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use super::Stamp;

/// Prefix of the names of files that are still being written.
const TEMPORARY: &str = ".new-";

/// Permissions of a new file that only its owner may read.
pub const OWNER_ONLY_MODE: u32 = 0o600;
/// Permissions of a new file that everybody may read, for content without secrets that is shared or
/// committed.
pub const WORLD_READABLE_MODE: u32 = 0o644;

/// Replaces the content of a file as [`replace_for`] does. Only the owner may read a new file.
///
/// # Errors
/// See [`replace_for`].
pub fn replace(path: &Path, content: &[u8]) -> io::Result<Stamp> {
    replace_for(path, content, OWNER_ONLY_MODE)
}

/// Replaces the content of a file. Readers see either the old or the new content, also after a
/// power failure.
///
/// The content is written to a temporary file in the same folder, synced and renamed; then the
/// folder is synced. Links are followed and permissions are kept. A new file gets the permissions
/// `mode`.
///
/// # Errors
/// Returns the error of the system; the old content is unchanged.
pub fn replace_for(path: &Path, content: &[u8], mode: u32) -> io::Result<Stamp> {
    put(path, mode, |file| file.write_all(content))
}

/// Replaces the content of a file as [`replace`] does, with the bytes that `write` produces. This
/// is for content that is too large for memory. The old file can be read while `write` runs.
///
/// # Errors
/// See [`replace_for`]. Errors of `write` are returned unchanged.
pub fn replace_with(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<Stamp> {
    put(path, OWNER_ONLY_MODE, write)
}

fn put(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<Stamp> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut temporary = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(folder)?;
    let permissions = fs::metadata(&path)
        .map_or_else(|_| Permissions::from_mode(mode), |before| before.permissions());
    temporary.as_file().set_permissions(permissions)?;
    write(temporary.as_file_mut())?;
    temporary.as_file().sync_all()?;
    let file = temporary.persist(&path).map_err(|error| error.error)?;
    sync_folder(folder);
    Ok(Stamp::from(&file.metadata()?))
}

/// Removes the temporary files that killed programs left in a folder, if they were last written at
/// least `age` ago. Returns how many were removed: none if the folder does not exist.
pub fn sweep_temporary(folder: &Path, age: Duration) -> usize {
    let abandoned = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let random = name.to_str().and_then(|name| name.strip_prefix(TEMPORARY));
        random.is_some_and(|random| {
            random.len() == 6 && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
        }) && entry.metadata().is_ok_and(|meta| {
            let idle = meta.modified().ok().and_then(|time| time.elapsed().ok());
            meta.is_file() && idle.is_some_and(|idle| idle >= age)
        })
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let removed = entries.filter(abandoned).filter(|entry| fs::remove_file(entry.path()).is_ok());
    removed.count()
}

/// Syncs a folder, so that a rename in it survives a power failure. The rename itself is done, so
/// an error is only logged.
pub fn sync_folder(folder: &Path) {
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::debug!(folder = %folder.display(), %error, "cannot sync the folder");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_abandoned_temporary_files_are_swept() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str| {
            let path = folder.path().join(name);
            fs::write(&path, b"half").expect("written");
            path
        };
        let (left, young) = (write(".new-a1B2c3"), write(".new-d4E5f6"));
        let others = [write(".new-wishes"), write("queue.md"), write(".new-a1B2c3d")];
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        for path in [&left, &others[1], &others[2]] {
            let file = File::options().write(true).open(path).expect("opened");
            file.set_modified(long_ago).expect("set");
        }
        assert_eq!(sweep_temporary(folder.path(), Duration::from_secs(60)), 1);
        assert!(!left.exists() && young.exists() && others.iter().all(|path| path.exists()));
        assert_eq!(sweep_temporary(&folder.path().join("none"), Duration::ZERO), 0);
    }

    #[test]
    fn new_files_have_the_wanted_permissions_and_old_ones_keep_theirs() {
        let folder = tempfile::tempdir().expect("a folder");
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        let (own, shared, link) =
            (folder.path().join("own"), folder.path().join("shared"), folder.path().join("link"));
        replace(&own, b"1").expect("written");
        replace_for(&shared, b"1", WORLD_READABLE_MODE).expect("written");
        assert_eq!((mode(&own), mode(&shared)), (OWNER_ONLY_MODE, WORLD_READABLE_MODE));
        std::os::unix::fs::symlink(&shared, &link).expect("linked");
        let stamp = replace(&link, b"22").expect("written");
        assert_eq!((Some(stamp), mode(&shared)), (Stamp::of(&shared), WORLD_READABLE_MODE));
        assert!(link.symlink_metadata().expect("a link").is_symlink());
        assert_eq!(
            fs::read_dir(folder.path()).expect("a folder").count(),
            3,
            "nothing is left behind"
        );
    }
}
