//! Finds recordings in their folder.

use std::path::{Component, Path, PathBuf};

use super::retention;

/// Returns the recordings of a folder that were written to last, the newest first, without those of
/// lost turns. Blocks.
///
/// # Errors
/// The system's error if the folder cannot be listed.
pub fn newest(folder: &Path, limit: usize) -> std::io::Result<Vec<PathBuf>> {
    let mut found = retention::recordings(folder, std::time::SystemTime::now())?;
    found.sort();
    Ok(found.into_iter().rev().take(limit).map(|file| file.path).collect())
}

/// Returns the name of the kept recording of a lost turn in the folder of recordings.
#[must_use]
pub fn kept_name(turn: &str) -> String {
    format!("{}/{turn}.jsonl", retention::LOST_FOLDER)
}

/// Returns the path of a recording in a folder, or `None` if the name is not valid for a recording
/// or leads out of the folder. The recording may not exist. Blocks briefly.
#[must_use]
pub fn path_in(folder: &Path, name: &str) -> Option<PathBuf> {
    let relative = Path::new(name);
    let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    let is_named = relative.extension().is_some_and(|extension| extension == "jsonl");
    if !plain || !is_named || name.contains('\0') {
        return None;
    }
    let path = folder.join(relative);
    // A symbolic link must not lead out of the folder. A missing file cannot.
    match (path.canonicalize(), folder.canonicalize()) {
        (Ok(real), Ok(folder)) if !real.starts_with(&folder) => None,
        _ => Some(path),
    }
}
