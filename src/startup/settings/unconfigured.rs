//! The settings of a console without a configuration folder. The agent asks before every change and
//! works in the current folder. The console writes only into the user's state folder.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::xdg_folder;
use crate::startup::shipped;
use aetheel_model::permission::RECOMMENDED_PERMISSION;

/// Length of the part of a digest that tells folders with the same name apart, in bytes.
const DIGEST_BYTES: usize = 4;

/// The reason why a console cannot work without settings.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnconfiguredError {
    #[error(
        "there is no folder for the state of the console: neither CONFIG_DIR, XDG_STATE_HOME nor HOME is set; set one of them"
    )]
    NoStateFolder,
    #[error("the current folder cannot be used: {0}; change to another one")]
    NoCurrentFolder(#[source] std::io::Error),
}

/// The folders of a console without settings.
#[derive(Debug)]
pub(super) struct UnconfiguredFolders {
    /// `CONFIG_DIR`, which depends on the current folder: an agent resumes a conversation only in
    /// the folder where it began.
    pub config: PathBuf,
    work: PathBuf,
    recordings: PathBuf,
    /// `BACKENDS_DIR`, or `None` for its default.
    backends: Option<PathBuf>,
    /// The components that must be copied to `backends`.
    pub copied_backends: Option<PathBuf>,
}

impl UnconfiguredFolders {
    /// Chooses the folders. `variable` reads the environment.
    ///
    /// # Errors
    /// There is no current folder, or none for the state.
    pub(super) fn find(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, UnconfiguredError> {
        let work = std::env::current_dir().map_err(UnconfiguredError::NoCurrentFolder)?;
        let state = xdg_folder(variable, "XDG_STATE_HOME", ".local/state")
            .ok_or(UnconfiguredError::NoStateFolder)?
            .join("aetheel");
        let config = state.join("console").join(folder_name(&work));
        let (backends, copied_backends) = match (shipped::folder(), shipped::in_clone()) {
            (Some(shipped), _) => (Some(shipped), None),
            // Agents may write into their working directory, but not into the folder of the
            // backends. People work on a clone with the program that was built in it.
            (None, Some(built)) if built.starts_with(&work) => {
                (Some(state.join("backends")), Some(built))
            }
            (None, built) => (built, None),
        };
        let recordings = state.join("recordings");
        Ok(Self { config, work, recordings, backends, copied_backends })
    }

    /// Sets the variables that the environment does not set.
    pub(super) fn apply(&self, variables: &mut HashMap<String, String>) {
        let text = |path: &Path| path.display().to_string();
        let settings = [
            ("PERMISSION_MODE", Some(RECOMMENDED_PERMISSION.mode.to_owned())),
            ("ALLOWED_TOOLS", Some(RECOMMENDED_PERMISSION.tools.to_owned())),
            ("WORKSPACE_DIR", Some(text(&self.work))),
            ("RECORDINGS_DIR", Some(text(&self.recordings))),
            ("BACKENDS_DIR", self.backends.as_deref().map(text)),
        ];
        for (name, value) in settings {
            let is_set = variables.get(name).is_some_and(|value| !value.trim().is_empty());
            if let Some(value) = value.filter(|_| !is_set) {
                variables.insert(name.to_owned(), value);
            }
        }
    }
}

/// Returns the name of the state of a working directory.
fn folder_name(work: &Path) -> String {
    let name = work.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let digest = Sha256::digest(work.as_os_str().as_encoded_bytes());
    let digest: String =
        digest.iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("{name}-{digest}")
}
