//! Resolves the name of a backend or the id of a recording to a file of the gateway.

use std::fs;
use std::path::{Path, PathBuf};

use crate::open;
use aetheel::commands::kit::KitError;
use aetheel::startup::shipped;
use aetheel_model::event::Lane;
use aetheel_recording::case::Case;
use aetheel_settings::Config;
use aetheel_store::workspace::{Components, FinishedTurns, TurnSearch, component_digest};

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

/// Reads the recording with this path or id, of the turn with this id, or of the last turn of this
/// lane.
///
/// # Errors
/// There is no such recording, or it cannot be read.
pub(super) async fn turn_case(wanted: &Path, config: &Config) -> Result<Case, KitError> {
    let found = recording_path(wanted, config);
    let path = match (found, wanted.to_str()) {
        (Ok(path), _) if path.exists() => path,
        (found, Some(text)) => match turn_recording(config, text).await {
            Some(path) => path,
            None => found?,
        },
        (found, None) => found?,
    };
    open::case(path).await
}

/// Returns the recording of a finished turn, or of the last one of a lane.
async fn turn_recording(config: &Config, wanted: &str) -> Option<PathBuf> {
    let turns = FinishedTurns::of_folder(&config.config_dir);
    let line = match wanted.parse::<Lane>() {
        Ok(lane) => {
            let search = TurnSearch { lane: Some(lane), most: 20, ..TurnSearch::default() };
            turns.search(search).await.into_iter().find(|line| line.recording.is_some())
        }
        Err(_) => turns.find(wanted).await,
    };
    Some(config.recordings_dir.join(line?.recording?))
}

/// Returns the file of the component with this digest: in the folder of backends, or among those
/// that served all or some channels before. Otherwise returns the one that serves as the backend now.
///
/// # Errors
/// There is no such backend.
pub(super) fn component_by_digest(
    backend: &str,
    wanted: &str,
    config: &Config,
) -> Result<PathBuf, KitError> {
    // A file may come from anybody: its backend must not be a path.
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if backend.is_empty() || !backend.chars().all(is_name) {
        let name = aetheel_model::plain::shortened(backend, 60);
        return Err(KitError::usage(format!("`{name}` is not the name of a backend")));
    }
    let files = fs::read_dir(shipped::serving_folder(config)).into_iter().flatten().flatten();
    let named = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        path.is_file() && name.contains(".wasm") && !name.ends_with(".minisig")
    };
    let mut files: Vec<PathBuf> = files.map(|file| file.path()).filter(named).collect();
    files.sort();
    let same =
        |path: &PathBuf| fs::read(path).is_ok_and(|bytes| component_digest(&bytes) == wanted);
    if let Some(path) = files.into_iter().find(same) {
        return Ok(path);
    }
    if let Some(path) = Components::new(&config.config_dir).file(backend, wanted) {
        return Ok(path);
    }
    component_path(Path::new(backend), config)
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
