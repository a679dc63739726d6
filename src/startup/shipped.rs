//! Finds the components that are installed with the program, and the folder that components are
//! loaded from.

use std::fs;
use std::path::{Path, PathBuf};

use super::trust_gate;
use aetheel_model::finding::Finding;
use aetheel_settings::Config;

/// Folder of the shipped components, relative to the parent of the program's folder (`bin`).
const BESIDE: &str = "lib/aetheel/backends";

/// Returns the folder of the components that are installed with this program, or `None` if there is
/// no such folder, for example beside a program that was just built.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    beside(&program).filter(|folder| folder.is_dir())
}

fn beside(program: &Path) -> Option<PathBuf> {
    Some(program.parent()?.parent()?.join(BESIDE))
}

/// Returns the folder that components are loaded from: `BACKENDS_DIR` if it exists, otherwise the
/// folder of the shipped components.
#[must_use]
pub fn serving_folder(config: &Config) -> PathBuf {
    match folder() {
        Some(shipped) if !config.backends_dir.is_dir() => shipped,
        _ => config.backends_dir.clone(),
    }
}

/// The operator's next step if there are no components.
pub const HOW_TO_GET: &str = "in a clone, run `make guests` and set BACKENDS_DIR to its `backends` folder, or run `aetheel init` there";

/// Returns a problem if the folder that components are loaded from does not exist.
#[must_use]
pub fn missing(config: &Config) -> Option<Finding> {
    if serving_folder(config).is_dir() {
        return None;
    }
    let folder = config.backends_dir.display();
    let hint = match in_clone() {
        Some(built) => format!("set it to {}, which contains some", built.display()),
        None => HOW_TO_GET.to_owned(),
    };
    let message = format!("BACKENDS_DIR: there are no backends in {folder}");
    Some(Finding::invalid("BACKENDS_DIR", message).with_hint(hint))
}

/// Returns the folder of components that were built with this program: `backends` in the clone
/// whose `target/PROFILE` contains the program, or beside the program.
#[must_use]
pub fn in_clone() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let own = program.parent()?;
    let clone = own.parent().filter(|target| target.ends_with("target")).and_then(Path::parent);
    let candidates = clone.into_iter().chain([own]).map(|folder| folder.join("backends"));
    candidates.into_iter().find(|folder| has_components(folder))
}

/// Returns whether a folder has at least one component.
#[must_use]
pub fn has_components(folder: &Path) -> bool {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.map(|file| file.path()).any(|path| path.extension().is_some_and(|end| end == "wasm"))
}

/// Copies the components of `source`, or the shipped ones, to `BACKENDS_DIR`, and creates that
/// folder if it is missing. Returns a warning on failure. The start continues with the components
/// that exist.
pub async fn install_shipped(config: &Config, source: Option<PathBuf>) -> Option<Finding> {
    let shipped = source.or_else(folder)?;
    let folder = &config.backends_dir;
    let brought = match fs::create_dir_all(folder) {
        Ok(()) => {
            aetheel_wasm::install_shipped(
                &shipped,
                folder,
                &trust_gate(config),
                config.limits.component,
            )
            .await
        }
        Err(error) => Err((folder.clone(), error)),
    };
    let (path, error) = brought.err()?;
    let message = format!(
        "BACKENDS_DIR: cannot copy the shipped backends there: {}: {error}; using the backends in {}",
        path.display(),
        serving_folder(config).display()
    );
    Some(Finding::warning("BACKENDS_DIR", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_beside_the_folder_of_an_installed_program() {
        let found = |program: &str| beside(Path::new(program));
        assert_eq!(found("/usr/bin/aetheel"), Some("/usr/lib/aetheel/backends".into()));
        assert_eq!(found("/aetheel"), None);
    }
}
