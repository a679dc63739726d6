//! Plans and writes the files of the setup.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::existing::{ExistingSetup, TOKEN};
use crate::startup::settings::env_file;
use crate::startup::survey::make_private;
use aetheel_settings::VARIABLES;
use aetheel_store::disk::{OWNER_ONLY_MODE, replace};

/// Files of a new folder: the examples of the repository.
pub(super) const EXAMPLE_FILES: [(&str, &str); 10] = [
    ("soul.md", include_str!("../../../config/soul.md")),
    ("identity.md", include_str!("../../../config/identity.md")),
    ("agents.md", include_str!("../../../config/agents.md")),
    ("user.md", include_str!("../../../config/user.md")),
    ("tools.md", include_str!("../../../config/tools.md")),
    ("memory.md", include_str!("../../../config/memory.md")),
    ("heartbeat.md", include_str!("../../../config/heartbeat.md")),
    ("boot.md", include_str!("../../../config/boot.md")),
    ("budgets.md", include_str!("../../../config/budgets.md")),
    ("acp.md", include_str!("../../../config/acp.md")),
];

const SETTINGS_HEADER: &str = "# Settings of Aetheel. `aetheel init` wrote this file; it changes only the settings that you answer.
# docs/configuration.md explains all settings. Keep this file private: it contains a token.
";

/// The reason why a file or folder of the setup cannot be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum SetupFileError {
    #[error("cannot create {}: {error}", path.display())]
    CreateFolder {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error("cannot write {}: {error}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// A systemd unit of this name exists, and another program or a person wrote it.
    #[error(
        "{} was not written by this program and is kept; move it away, or copy the output of `--then print-unit`",
        .0.display()
    )]
    ForeignUnit(PathBuf),
}

impl SetupFileError {
    pub(super) fn write(path: &Path, error: io::Error) -> Self {
        Self::Write { path: path.to_owned(), error }
    }
}

pub(super) struct SetupPlan {
    file: PathBuf,
    /// The new contents of the settings file, or `None` if it does not change.
    text: Option<String>,
    /// Example files that do not exist yet.
    examples: Vec<(PathBuf, &'static str)>,
    folders: Vec<PathBuf>,
    /// Descriptions of the changes, one line each, without secrets.
    pub changes: Vec<String>,
}

impl SetupPlan {
    /// Plans the changes for the given settings.
    ///
    /// # Errors
    /// The settings file cannot be changed safely.
    pub(super) fn new(
        existing: &ExistingSetup,
        settings: &[(&'static str, String)],
    ) -> Result<Self, Vec<String>> {
        let meaning = |name: &str| {
            let variable = VARIABLES.iter().find(|variable| variable.name == name);
            variable.map_or("", |variable| variable.meaning)
        };
        let wanted: Vec<(&str, &str, String)> = settings
            .iter()
            // A missing list is already empty.
            .filter(|(name, value)| !value.is_empty() || existing.file_value(name).is_some())
            .map(|(name, value)| (*name, meaning(name), value.clone()))
            .collect();
        let before = existing.text.as_deref();
        let after = env_file::set(before.unwrap_or(SETTINGS_HEADER), &wanted)?;
        let mut says: Vec<String> = wanted
            .iter()
            .filter(|(name, _, value)| existing.file_value(name).unwrap_or_default() != value)
            .map(|(name, _, value)| {
                let shown = if *name == TOKEN { "(not shown)" } else { value.as_str() };
                format!("  {name}={shown}")
            })
            .collect();
        if !says.is_empty() {
            says.insert(0, format!("{}:", existing.file.display()));
        }
        let starters: Vec<_> = EXAMPLE_FILES
            .iter()
            .map(|(name, text)| (existing.folder.join(name), *text))
            .filter(|(path, _)| !path.exists())
            .collect();
        if !starters.is_empty() {
            let names: Vec<_> =
                starters.iter().filter_map(|(path, _)| path.file_name()?.to_str()).collect();
            says.push(format!("{}: {}", existing.folder.display(), names.join(", ")));
        }
        let file = existing.file.clone();
        let mut folders = vec![existing.folder.clone()];
        folders.extend(file.parent().map(Path::to_owned));
        let text = Some(after).filter(|after| Some(after.as_str()) != before);
        Ok(Self { file, text, examples: starters, folders, changes: says })
    }

    /// Writes all files, and the settings last, so that an interrupted setup counts as not done.
    ///
    /// # Errors
    /// Names the file or folder, with the system's error.
    pub(super) fn write(&self) -> Result<(), SetupFileError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| SetupFileError::Write { path, error }
        };
        for folder in &self.folders {
            make_private(folder).map_err(failed(folder))?;
        }
        for (path, text) in &self.examples {
            replace(path, text.as_bytes()).map_err(failed(path))?;
        }
        let Some(text) = &self.text else { return Ok(()) };
        // Restricts the permissions before the file contains a token.
        if self.file.exists() {
            fs::set_permissions(&self.file, Permissions::from_mode(OWNER_ONLY_MODE))
                .map_err(failed(&self.file))?;
        }
        replace(&self.file, text.as_bytes()).map_err(failed(&self.file))?;
        Ok(())
    }
}
