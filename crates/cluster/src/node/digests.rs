//! Digests of the operator's files and of the components that serve. They should be the same on all
//! machines of a cluster; `aetheel nodes` compares them.

use std::path::Path;

use sha2::{Digest as _, Sha256};

use aetheel_model::plain::hex;
use aetheel_runtime::ordinary::read_ordinary;
use aetheel_turn::Backends;

/// Largest size of a file that is included, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// The file that is left out because the agents of each machine write to it.
const MEMORY_FILE: &str = "memory.md";

#[derive(Clone, Debug, Default)]
pub(super) struct NodeDigests {
    pub(super) files: String,
    pub(super) components: String,
}

/// Returns a digest of the operator's markdown files. Blocks.
pub(super) fn files(config: &Path) -> String {
    let entries = std::fs::read_dir(config).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| name.ends_with(".md") && name != MEMORY_FILE).collect();
    names.sort();
    let mut digest = Sha256::new();
    for name in names {
        if let Ok(body) = read_ordinary(&config.join(&name), MAX_FILE_BYTES) {
            digest.update(format!("{name} {}\n", body.len()));
            digest.update(body);
        }
    }
    short(digest)
}

pub(super) fn components(backends: &dyn Backends) -> String {
    let mut names = backends.names();
    names.sort();
    let mut digest = Sha256::new();
    for name in names {
        if let Some(backend) = backends.get(&name) {
            digest.update(format!("{name} {}\n", backend.generation().digest));
        }
    }
    short(digest)
}

fn short(digest: Sha256) -> String {
    hex(&digest.finalize()[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_an_operators_file_changes_the_digest_and_memory_does_not() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for folder in [&one, &two] {
            std::fs::write(folder.path().join("soul.md"), "Be kind.").unwrap();
        }
        std::fs::write(one.path().join("memory.md"), "noted").unwrap();
        assert_eq!(files(one.path()), files(two.path()));
        std::fs::write(two.path().join("soul.md"), "Be short.").unwrap();
        assert_ne!(files(one.path()), files(two.path()));
    }
}
