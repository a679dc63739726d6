//! Finds the agents of this machine, and whether they are signed in.

use std::collections::HashMap;
use std::{fs, io};

use tokio::runtime::Runtime;

use super::files::EXAMPLE_FILES;
use crate::commands::listing::{BackendListing, BackendRow};
use crate::progress;
use crate::startup::{LoadedBackends, survey};
use aetheel_model::finding::Finding;
use aetheel_settings::Config;

/// The reason why the agents of this machine cannot be examined.
#[derive(Debug, thiserror::Error)]
pub(super) enum DetectError {
    /// The example files cannot be written to a temporary folder.
    #[error(transparent)]
    Examples(#[from] io::Error),
    /// The components cannot be loaded, for these reasons.
    #[error("{}", .0.iter().map(Finding::to_string).collect::<Vec<_>>().join("; "))]
    Components(Vec<Finding>),
}

/// Loads the components and examines their agents, like `aetheel backend list`.
///
/// # Errors
/// Returns the reasons if the components cannot be loaded.
pub(super) fn detect(
    runtime: &Runtime,
    mut config: Config,
    variables: &HashMap<String, String>,
) -> Result<Vec<BackendRow>, DetectError> {
    // A new folder gets the example files, so their launch profiles are used here.
    let examples = tempfile::tempdir()?;
    if !config.config_dir.join("acp.md").exists() {
        for (name, text) in EXAMPLE_FILES {
            fs::write(examples.path().join(name), text)?;
        }
        examples.path().clone_into(&mut config.config_dir);
    }
    let what = survey::loading_message(&config);
    let looking = async {
        let loaded = LoadedBackends::load(&config, variables).await?;
        Ok::<_, Vec<Finding>>(BackendListing::load(loaded).await.backends)
    };
    runtime.block_on(progress::with_spinner(what, looking)).map_err(DetectError::Components)
}

/// Returns a line for each installed agent, and the number of the others.
pub(super) fn table(rows: &[BackendRow]) -> Vec<String> {
    let shown = |row: &&BackendRow| row.available || row.program_path.is_some();
    let mut lines: Vec<String> = rows
        .iter()
        .filter(shown)
        .map(|row| {
            let version = row.agent_version.as_deref().unwrap_or("-");
            let state = match row.available {
                true if row.is_demo() => "a scripted agent, for trying it out".to_owned(),
                true => "ready".to_owned(),
                false => row.reasons.join("; "),
            };
            format!("  {:<14} {version:<12} {state}", row.name)
        })
        .collect();
    let others = rows.len() - lines.len();
    if others > 0 {
        lines.push(format!("  not installed: {others} more (`aetheel backend list --all`)"));
    }
    lines
}

/// Returns the backend to propose: the one that `auto` selected, otherwise the first that can work.
/// The demo agent is never proposed.
pub(super) fn proposed(rows: &[BackendRow]) -> Option<&str> {
    let mut able = rows.iter().filter(|row| row.available && !row.is_demo());
    let first = able.clone().next();
    able.find(|row| row.default).or(first).map(|row| row.name.as_str())
}
