//! The agents of this machine: which are installed and signed in.

use std::collections::HashMap;
use std::fs;

use tokio::runtime::Runtime;

use super::files::STARTERS;
use crate::commands::listing::{Listing, Row};
use crate::config::Config;
use crate::progress;
use crate::startup::{LoadedBackends, survey};

/// Loads the components and looks at their agents, as `aetheel backend list` does.
///
/// # Errors
/// Why nobody can look.
pub(super) fn look(
    runtime: &Runtime,
    mut config: Config,
    variables: &HashMap<String, String>,
) -> Result<Vec<Row>, String> {
    // A new folder has its profiles of agents when it is written.
    let examples = tempfile::tempdir().map_err(|error| error.to_string())?;
    if !config.config_dir.join("acp.md").exists() {
        for (name, text) in STARTERS {
            fs::write(examples.path().join(name), text).map_err(|error| error.to_string())?;
        }
        examples.path().clone_into(&mut config.config_dir);
    }
    let what = survey::loading(&config);
    let looking = async {
        let loaded = LoadedBackends::load(&config, variables).await?;
        Ok::<_, Vec<String>>(Listing::of(loaded).await.backends)
    };
    runtime.block_on(progress::shown(what, looking)).map_err(|faults| faults.join("; "))
}

/// The table of those that are installed, and how many are not.
pub(super) fn table(rows: &[Row]) -> Vec<String> {
    let shown = |row: &&Row| row.available || row.program_path.is_some();
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
        lines.push(format!("  {others} more are not installed: `aetheel backend list --all`"));
    }
    lines
}

/// The one to propose: Claude Code, else the first that can work. The demo is nobody's agent.
pub(super) fn proposed(rows: &[Row]) -> Option<&str> {
    let mut able = rows.iter().filter(|row| row.available && !row.is_demo());
    let first = able.clone().next();
    able.find(|row| row.name == "claude").or(first).map(|row| row.name.as_str())
}
