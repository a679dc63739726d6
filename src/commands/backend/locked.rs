//! Which versions of backends came from which registry: `backends.lock.md`.

use std::path::Path;

use super::fetched::FetchedBackend;
use crate::commands::kit::KitError;
use aetheel_model::plain::with_causes;
use aetheel_settings::Config;
use aetheel_store::workspace::{BackendLock, LockedBackend};

pub(super) fn read(config: &Config) -> Result<BackendLock, KitError> {
    BackendLock::read(&config.config_dir).map_err(|error| KitError::failed(with_causes(&error)))
}

/// Notes that a file now has another component: a fetched one, or one that came as a file. Returns a
/// line for the operator.
pub(super) fn note(
    config: &Config,
    target: &Path,
    component: &str,
    fetched: Option<&FetchedBackend>,
    proven: Option<String>,
) -> Result<&'static str, KitError> {
    let mut lock = read(config)?;
    let file = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let said = match fetched {
        Some(fetched) => {
            lock.insert(LockedBackend {
                file,
                reference: fetched.reference.clone(),
                component: component.to_owned(),
                cases: fetched.cases.clone(),
                proven,
            });
            "noted in backends.lock.md\n"
        }
        None if lock.find(&file, component).is_none() && lock.remove(&file) => {
            "removed from backends.lock.md, because it is no longer the version that is noted there\n"
        }
        None => return Ok(""),
    };
    lock.save().map_err(|error| {
        KitError::failed(format!(
            "it is installed, but backends.lock.md was not updated: {}",
            with_causes(&error)
        ))
    })?;
    Ok(said)
}
