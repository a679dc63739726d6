//! Replacing a file as a whole.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use super::Stamp;

/// Prefix of the names of files that are still being written.
const TEMPORARY: &str = ".new-";

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

/// Removes temporary files of replacements that were never finished, as a killed program leaves
/// them, from a folder; only those not written for at least `age`. Returns how many. A folder that
/// does not exist has none.
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
