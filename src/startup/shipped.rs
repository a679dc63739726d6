//! The components beside an installed program, and the folder that serves.

use std::fs;
use std::path::{Path, PathBuf};

use crate::backend::{self, Gate};
use crate::config::Config;

/// Where an installed program has its components, seen from its own folder (`bin`).
const BESIDE: &str = "lib/aetheel/backends";

/// Returns the folder of the components that came with this program; none: it is not installed with
/// any, as one that was just built.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    beside(&program).filter(|folder| folder.is_dir())
}

fn beside(program: &Path) -> Option<PathBuf> {
    Some(program.parent()?.parent()?.join(BESIDE))
}

/// Returns the folder that components are loaded from: the operator's, or, where there is none,
/// that of the shipped ones.
#[must_use]
pub fn serving(config: &Config) -> PathBuf {
    match folder() {
        Some(shipped) if !config.backends_dir.is_dir() => shipped,
        _ => config.backends_dir.clone(),
    }
}

/// Next step where there are no components.
pub const HOW_TO_GET: &str = "in a clone, run `make guests` and set BACKENDS_DIR to its `backends` folder, or run `aetheel init` there";

/// Returns the fault that there is nowhere to load components from.
#[must_use]
pub fn missing(config: &Config) -> Option<String> {
    if serving(config).is_dir() {
        return None;
    }
    let folder = config.backends_dir.display();
    let hint = match in_clone() {
        Some(built) => format!("set it to {}, which has some", built.display()),
        None => HOW_TO_GET.to_owned(),
    };
    Some(format!("BACKENDS_DIR: there are no backends in {folder}; {hint}"))
}

/// Returns the folder of components that was built beside this program: `backends` of the clone
/// whose `target/PROFILE` it was built into, or of its own folder.
#[must_use]
pub fn in_clone() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let own = program.parent()?;
    let clone = own.parent().filter(|target| target.ends_with("target")).and_then(Path::parent);
    let candidates = clone.into_iter().chain([own]).map(|folder| folder.join("backends"));
    candidates.into_iter().find(|folder| has_components(folder))
}

/// Whether a folder has at least one component.
#[must_use]
pub fn has_components(folder: &Path) -> bool {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.map(|file| file.path()).any(|path| path.extension().is_some_and(|end| end == "wasm"))
}

/// Brings the shipped components into the operator's folder, which is made where it is missing.
/// Returns a warning where that cannot be; the start goes on with what is there.
pub async fn bring(config: &Config) -> Option<String> {
    let shipped = folder()?;
    let folder = &config.backends_dir;
    let brought = match fs::create_dir_all(folder) {
        Ok(()) => {
            backend::bring(&shipped, folder, &Gate::new(config), config.limits.component).await
        }
        Err(error) => Err((folder.clone(), error)),
    };
    let (path, error) = brought.err()?;
    Some(format!(
        "BACKENDS_DIR: the shipped components cannot be put there: {}: {error}; what is in {} serves",
        path.display(),
        serving(config).display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_beside_the_folder_of_the_program() {
        let found = |program: &str| beside(Path::new(program));
        assert_eq!(found("/usr/bin/aetheel"), Some("/usr/lib/aetheel/backends".into()));
        assert_eq!(found("/aetheel"), None);
    }
}
