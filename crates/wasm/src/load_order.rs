//! Orders files for loading: components that served last come first. If two files cannot serve side
//! by side, the same one then serves after a restart.

use std::path::{Path, PathBuf};

use super::source;
use aetheel_store::disk::Stamp;
use aetheel_store::workspace::{Components, LastServed};

/// Sorts the files of the folder: those that served last first, then by name. Blocks.
pub(super) fn sort_files(
    mut found: Vec<(PathBuf, Stamp)>,
    components: Option<&Components>,
    limit: u64,
) -> Vec<(PathBuf, Stamp)> {
    let last = components.map(Components::last).unwrap_or_default();
    let named = |path: &Path, last: &LastServed| {
        path.file_name().is_some_and(|name| name == last.file.as_str())
    };
    // A component whose file was renamed is recognised by its content.
    let moved: Vec<&LastServed> =
        last.iter().filter(|last| !found.iter().any(|(path, _)| named(path, last))).collect();
    let served = |path: &Path| {
        last.iter().any(|last| named(path, last))
            || !moved.is_empty()
                && source::read_now(path, limit)
                    .is_ok_and(|source| moved.iter().any(|last| last.digest == source.digest))
    };
    found.sort_by_cached_key(|(path, _)| (!served(path), path.clone()));
    found
}
