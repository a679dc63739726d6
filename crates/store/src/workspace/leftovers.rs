//! Removes temporary files of writes that a killed process did not complete.

use std::path::Path;
use std::time::Duration;

use crate::disk::sweep_temporary;

/// Folders below `CONFIG_DIR` whose files are replaced atomically.
const FOLDERS: [&str; 7] = [
    "",
    "memory",
    "state",
    "state/blobs",
    "state/components",
    "state/partial-components",
    "state/turns",
];
/// Age up to which another program may still be writing the file.
const SETTLED: Duration = Duration::from_secs(60);

/// Removes the unfinished files of earlier gateway processes from a configuration folder. Blocks.
pub fn sweep_leftovers(folder: &Path) {
    let swept = |name: &&str| sweep_temporary(&folder.join(name), SETTLED);
    let files: usize = FOLDERS.iter().map(swept).sum();
    if files > 0 {
        tracing::info!(files, "removed half-written files that an earlier gateway left behind");
    }
}
