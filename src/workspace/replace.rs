//! Replacing a file as a whole.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use super::fresh::Stamp;

/// Puts new content under a name: readers, and a machine that loses power, see the old file or the new one.
///
/// Written beside it, synced, renamed, and the folder synced. A link is followed, permissions are kept; a new file is
/// the owner's only.
///
/// # Errors
/// What the system said; the old content is still there.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<Stamp> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut temporary = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    if let Ok(metadata) = fs::metadata(&path) {
        temporary.as_file().set_permissions(metadata.permissions())?;
    }
    temporary.write_all(content)?;
    temporary.as_file().sync_all()?;
    let file = temporary.persist(&path).map_err(|error| error.error)?;
    sync_folder(folder);
    Ok(Stamp::of(&file.metadata()?))
}

/// Makes a change of names last. The change itself is done: a file system that cannot promise more is only reported.
pub(super) fn sync_folder(folder: &Path) {
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::debug!(folder = %folder.display(), %error, "cannot sync the folder");
    }
}
