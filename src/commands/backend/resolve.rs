//! Resolves the name of a backend or the id of a recording to a file of the gateway.

use std::fs;
use std::path::{Path, PathBuf};

use super::open::KitError;
use crate::config::Config;
use crate::startup::shipped;
use crate::workspace::Components;

/// Returns the file of a component: the given path, or the file that serves as the backend with the
/// given name.
///
/// # Errors
/// Lists the existing backends if there is no such file and no such backend.
pub(super) fn component_path(given: &Path, config: &Config) -> Result<PathBuf, KitError> {
    let Some(name) = bare_name(given) else { return Ok(given.to_owned()) };
    let folder = shipped::serving_folder(config);
    let last = Components::new(&config.config_dir).last();
    let noted = last.into_iter().find(|last| last.backend == name).map(|last| last.file);
    let files = noted.into_iter().chain([format!("{name}.wasm")]);
    let found = files.map(|file| folder.join(file)).find(|path| path.is_file());
    found.ok_or_else(|| {
        let mut text = format!(
            "there is no file `{name}`, and no backend of that name in {}",
            folder.display()
        );
        let others = backend_names(&folder);
        if !others.is_empty() {
            text.push_str(&format!("; there are: {}", others.join(", ")));
        }
        KitError::usage(text)
    })
}

/// Returns the file of a recording: the given path, or the recording with the given id in
/// `RECORDINGS_DIR`.
///
/// # Errors
/// There is no such file and no such recording.
pub(super) fn recording_path(given: &Path, config: &Config) -> Result<PathBuf, KitError> {
    let Some(id) = bare_name(given) else { return Ok(given.to_owned()) };
    let folder = &config.recordings_dir;
    let days = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = days
        .map(|day| day.path().join(format!("{id}.jsonl")))
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found.pop().ok_or_else(|| {
        KitError::usage(format!(
            "there is no file `{id}`, and no recording `{id}.jsonl` in a folder of {} (RECORDINGS_DIR)",
            folder.display()
        ))
    })
}

/// Returns the argument if it is a bare name, and not the path of a file that exists or could
/// exist.
fn bare_name(given: &Path) -> Option<&str> {
    let name = given.to_str().filter(|name| !name.is_empty() && !name.contains(['/', '.']))?;
    (!given.exists()).then_some(name)
}

fn backend_names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = files
        .filter_map(|file| file.file_name().to_str()?.strip_suffix(".wasm").map(str::to_owned))
        .collect();
    names.sort();
    names
}
