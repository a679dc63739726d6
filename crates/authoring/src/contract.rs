//! The contract that this program was built with: as files for a guest's sources, and as parsed
//! types for the generators.

use std::io;
use std::path::{Path, PathBuf};

use wit_parser::{Resolve, SourceMap, WorldId};

/// The files of `wit/`, by name.
pub(super) const FILES: [(&str, &str); 4] = [
    ("README.md", include_str!("../../../wit/README.md")),
    ("backend.wit", include_str!("../../../wit/backend.wit")),
    ("descriptor.schema.json", include_str!("../../../wit/descriptor.schema.json")),
    ("types.wit", include_str!("../../../wit/types.wit")),
];

/// The interface that a component must export.
pub(super) const EXPORT: &str = "aetheel:backend/backend@0.3.0";

const WORLD: &str = "agent-backend";

/// The reason why the contract cannot be parsed or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum ContractError {
    /// The parser's message. The tests of every build rule this out.
    #[error("{0}")]
    Invalid(String),
    #[error("cannot write {}: {error}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
}

/// Parses the contract, and returns it with its world.
///
/// # Errors
/// [`ContractError::Invalid`] if the contract is invalid WIT.
pub(super) fn resolve() -> Result<(Resolve, WorldId), ContractError> {
    let invalid = ContractError::Invalid;
    let mut sources = SourceMap::default();
    for (name, text) in FILES.iter().filter(|(name, _)| name.ends_with(".wit")) {
        sources.push_str(name, *text);
    }
    let group = sources.parse().map_err(|(sources, error)| invalid(error.render(&sources)))?;
    let mut resolve = Resolve::default();
    let package = resolve.push_group(group).map_err(|error| invalid(error.to_string()))?;
    let world = resolve
        .select_world(&[package], Some(WORLD))
        .map_err(|error| invalid(format!("{error:#}")))?;
    Ok((resolve, world))
}

/// Writes `wit/` into a folder and returns the paths of the files.
///
/// # Errors
/// [`ContractError::Write`] names the file that cannot be written.
pub(super) fn write(folder: &Path) -> Result<Vec<PathBuf>, ContractError> {
    let wit = folder.join("wit");
    FILES.iter().map(|(name, text)| write_file(&wit.join(name), text.as_bytes())).collect()
}

/// Writes a file, and creates its folder if it is missing.
///
/// # Errors
/// [`ContractError::Write`] names the file.
pub(super) fn write_file(path: &Path, content: &[u8]) -> Result<PathBuf, ContractError> {
    let written = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(path, content));
    written
        .map(|()| path.to_owned())
        .map_err(|error| ContractError::Write { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_world_exports_the_interface_that_the_host_requires() {
        let (resolve, world) = resolve().unwrap();
        let exports: Vec<String> =
            resolve.worlds[world].exports.keys().map(|key| resolve.name_world_key(key)).collect();
        assert_eq!(exports, [EXPORT]);
    }
}
