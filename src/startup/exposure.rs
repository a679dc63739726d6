//! Files with secrets that agents could read: they run as the gateway's own user.

use std::path::PathBuf;

/// What to do about it.
pub const HINT: &str = "hand secrets over where no file of them can be opened by this user: `--secrets-fd`, or the environment, which \
                        is erased; docs/operating.md shows how";

/// One warning for every file with secrets; none where agents are `confined`, because the sandbox
/// leaves those files out.
pub fn warnings(files: &[PathBuf], confined: bool) -> Vec<String> {
    files
        .iter()
        .filter(|_| !confined)
        .map(|file| {
            format!("agents can read the secrets in {}: they run as the same user", file.display())
        })
        .collect()
}
