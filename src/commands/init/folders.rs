//! Chooses the settings of folders that must not depend on the working directory.

use std::path::{Path, PathBuf};

use super::existing::ExistingSetup;
use crate::startup::shipped::{self, has_components};

/// The reason why there is no folder with backends.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoBackends {
    /// The folder that the flag names contains none.
    #[error("--backends: there are no backends in {}", .0.display())]
    Given(PathBuf),
    /// The configured folder contains none, and no other was found.
    #[error(
        "there are no backends in {}; in a clone, run `make guests` and then this again, or give `--backends FOLDER`",
        .0.display()
    )]
    Nowhere(PathBuf),
}

/// Returns the settings for folders. Folders that are already set keep their value, and so do those
/// that an existing settings file gets by default. `backends` is the value of the flag.
///
/// # Errors
/// There are no backends, or none in the given folder.
pub(super) fn find(
    existing: &ExistingSetup,
    backends: Option<&Path>,
) -> Result<Vec<(&'static str, String)>, NoBackends> {
    let is_set = |name: &str| {
        existing.file_value(name).or_else(|| existing.environment_value(name)).is_some()
    };
    let mut places = Vec::new();
    if !existing.is_default_location && existing.file_value("CONFIG_DIR").is_none() {
        places.push(("CONFIG_DIR", existing.folder.display().to_string()));
    }
    if let Some(folder) = backends_folder(existing, backends)? {
        places.push(("BACKENDS_DIR", folder.display().to_string()));
    }
    if !is_set("RECORDINGS_DIR") && existing.text.is_none() {
        let own = existing.user_folder("XDG_STATE_HOME", ".local/state", "recordings");
        places.push(("RECORDINGS_DIR", own.display().to_string()));
    }
    Ok(places)
}

/// Returns the folder of the backends, or `None` if the configured one contains some.
fn backends_folder(
    existing: &ExistingSetup,
    given: Option<&Path>,
) -> Result<Option<PathBuf>, NoBackends> {
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if let Some(given) = given.map(whole) {
        return match has_components(&given) {
            true => Ok(Some(given)),
            false => Err(NoBackends::Given(given)),
        };
    }
    let set =
        existing.file_value("BACKENDS_DIR").or_else(|| existing.environment_value("BACKENDS_DIR"));
    let here = whole(Path::new("backends"));
    let today = set.map_or_else(|| here.clone(), |set| whole(Path::new(set)));
    let is_today = set.is_some() || existing.text.is_some();
    if has_components(&today) {
        return Ok(Some(today).filter(|_| !is_today));
    }
    if shipped::folder().is_some() {
        // The first start copies the backends that were delivered with the program into it.
        let own = existing.user_folder("XDG_DATA_HOME", ".local/share", "backends");
        return Ok(Some(own).filter(|_| set.is_none()));
    }
    let mut others = [Some(here), shipped::in_clone()].into_iter().flatten();
    match others.find(|folder| has_components(folder)) {
        Some(found) => Ok(Some(found)),
        None => Err(NoBackends::Nowhere(today)),
    }
}
