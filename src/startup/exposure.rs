//! Warns about files with secrets that agents can read, because they run as the gateway's user.

use std::path::PathBuf;

use aetheel_model::finding::Finding;

/// The operator's next step.
const HINT: &str = "pass secrets without a file that this user can open: with `--secrets-fd`, or in the environment, which the \
                        gateway erases; docs/operating.md shows how";

/// Returns one warning for each file with secrets. Empty if agents are `confined`, because the
/// sandbox hides those files.
pub fn warnings(files: &[PathBuf], confined: bool) -> Vec<Finding> {
    files
        .iter()
        .filter(|_| !confined)
        .map(|file| {
            let message = format!(
                "agents can read the secrets in {}: they run as the same user",
                file.display()
            );
            Finding::warning("secrets", message).with_hint(HINT)
        })
        .collect()
}
