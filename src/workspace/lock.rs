//! One gateway for one folder: `state/gateway.lock`, locked (flock) as long as a gateway lives,
//! with its process id inside.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The lock; the system lets go of it when the program ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum Held {
    /// Another gateway has it.
    #[error("another gateway (process {pid}) serves `{}`; stop it first, or give this one a CONFIG_DIR of its own", folder.display())]
    Other {
        /// As it wrote into the file.
        pid: String,
        /// The folder with the state.
        folder: PathBuf,
    },
    /// The file cannot be used.
    #[error("cannot lock `{}`: {source}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Lock {
    pub(super) fn take(path: &Path) -> Result<Self, Held> {
        let failed = |source| Held::Failed { path: path.to_owned(), source };
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let read = file.read_to_string(&mut pid);
                let pid = if read.is_ok() && !pid.trim().is_empty() {
                    pid.trim().to_owned()
                } else {
                    "unknown".to_owned()
                };
                return Err(Held::Other { pid, folder: path.parent().unwrap_or(path).to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        file.set_len(0)
            .and_then(|()| file.write_all(format!("{}\n", std::process::id()).as_bytes()))
            .map_err(failed)?;
        Ok(Self { _file: file })
    }
}
