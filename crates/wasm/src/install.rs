//! Installing a component file into the backends folder, at one stroke.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

use super::trust::signature_of;

/// A component file beside its target: hidden, whole and on the disk.
pub(super) struct Prepared {
    target: PathBuf,
    component: TempPath,
    signature: Option<TempPath>,
}

/// Writes a component beside its target. Nothing that anybody sees has changed yet.
///
/// # Errors
/// The system's error; nothing is left behind.
pub(super) fn prepare(
    target: &Path,
    bytes: &[u8],
    signature: Option<&[u8]>,
) -> io::Result<Prepared> {
    let folder = target.parent().ok_or(io::ErrorKind::InvalidInput)?;
    // As the one before, or readable for everybody: a component holds no secret.
    let permissions = fs::metadata(target)
        .map_or_else(|_| Permissions::from_mode(0o644), |metadata| metadata.permissions());
    let write = |content: &[u8]| -> io::Result<TempPath> {
        let mut file: NamedTempFile =
            tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
        file.write_all(content)?;
        file.as_file().set_permissions(permissions.clone())?;
        file.as_file().sync_all()?;
        Ok(file.into_temp_path())
    };
    Ok(Prepared {
        target: target.to_owned(),
        component: write(bytes)?,
        signature: signature.map(write).transpose()?,
    })
}

impl Prepared {
    /// Renames it to its target, its signature first. With a name to put it aside under, the file it
    /// replaces is kept so.
    ///
    /// # Errors
    /// The system's error; the old component is still in its place.
    pub(super) fn install(self, aside: Option<&Path>) -> io::Result<()> {
        if let Some(aside) = aside.filter(|_| self.target.symlink_metadata().is_ok()) {
            keep(&self.target, aside)?;
        }
        let beside = signature_of(&self.target);
        match self.signature {
            Some(signature) => signature.persist(&beside).map_err(|error| error.error)?,
            // One for other bytes would only mislead.
            None => match fs::remove_file(&beside) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            },
        }
        self.component.persist(&self.target).map_err(|error| error.error)?;
        // The change is done; a file system that cannot promise that it lasts is no reason to say
        // otherwise.
        if let Some(folder) = self.target.parent() {
            let _ = fs::File::open(folder).and_then(|folder| folder.sync_all());
        }
        Ok(())
    }
}

/// Gives a file a second name; a copy where the file system has no links. The first name is never
/// without its file.
fn keep(path: &Path, aside: &Path) -> io::Result<()> {
    match fs::remove_file(aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::hard_link(path, aside).or_else(|_| fs::copy(path, aside).map(drop))
}
