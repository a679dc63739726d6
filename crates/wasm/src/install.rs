//! Installs a component file into the backends folder atomically.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

use super::trust::signature_of;

/// A complete, synced component file under a hidden name beside its target.
pub(super) struct PreparedFile {
    target: PathBuf,
    component: TempPath,
    signature: Option<TempPath>,
}

/// Writes a component under a hidden name beside its target.
///
/// # Errors
/// The system's error. Nothing is left behind then.
pub(super) fn prepare(
    target: &Path,
    bytes: &[u8],
    signature: Option<&[u8]>,
) -> io::Result<PreparedFile> {
    let folder = target.parent().ok_or(io::ErrorKind::InvalidInput)?;
    // Keep the permissions of the previous file, or make the file readable for everybody: a
    // component contains no secrets.
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
    Ok(PreparedFile {
        target: target.to_owned(),
        component: write(bytes)?,
        signature: signature.map(write).transpose()?,
    })
}

impl PreparedFile {
    /// Renames the file to its target, after its signature. If `aside` is given, the file that it
    /// replaces is kept under that name.
    ///
    /// # Errors
    /// The system's error. The old component is then still in its place.
    pub(super) fn install(self, aside: Option<&Path>) -> io::Result<()> {
        if let Some(aside) = aside.filter(|_| self.target.symlink_metadata().is_ok()) {
            keep(&self.target, aside)?;
        }
        let beside = signature_of(&self.target);
        match self.signature {
            Some(signature) => signature.persist(&beside).map_err(|error| error.error)?,
            // A signature of other bytes would only be misleading.
            None => match fs::remove_file(&beside) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            },
        }
        self.component.persist(&self.target).map_err(|error| error.error)?;
        // The component is installed, so it is not an error if the folder cannot be synced.
        if let Some(folder) = self.target.parent() {
            let _ = fs::File::open(folder).and_then(|folder| folder.sync_all());
        }
        Ok(())
    }
}

/// Gives a file a second name, or copies it if the file system has no hard links. The first name
/// always exists.
fn keep(path: &Path, aside: &Path) -> io::Result<()> {
    match fs::remove_file(aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::hard_link(path, aside).or_else(|_| fs::copy(path, aside).map(drop))
}
