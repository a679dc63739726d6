//! Which versions of backends came from which registry: `backends.lock.md`.

use std::path::Path;

use super::artifacts::FetchedBackend;
use super::open::KitError;
use aetheel_model::plain::with_causes;
use aetheel_registry::ArtifactReference;
use aetheel_settings::Config;
use aetheel_store::workspace::{BackendLock, LockedBackend};

/// Reads the file.
pub(super) fn read(config: &Config) -> Result<BackendLock, KitError> {
    BackendLock::read(&config.config_dir).map_err(|error| KitError::failed(with_causes(&error)))
}

/// Parses the reference of an entry, which must have a digest.
pub(super) fn reference_of(entry: &LockedBackend) -> Result<ArtifactReference, KitError> {
    let invalid = |reason: String| {
        KitError::failed(format!("backends.lock.md, section {}: {reason}", entry.file))
    };
    let reference: ArtifactReference =
        entry.reference.parse().map_err(|error| invalid(format!("{error}")))?;
    match reference.digest() {
        Some(_) => Ok(reference),
        None => Err(invalid(format!("{reference} has no digest"))),
    }
}

/// Refuses an artifact whose tag named another version when it was installed, unless the operator
/// follows the tag. Returns a line for the operator.
pub(super) fn check_tag(
    lock: &BackendLock,
    named: &ArtifactReference,
    found: &FetchedBackend,
    follow: bool,
) -> Result<String, KitError> {
    let (None, Some(now)) = (named.digest(), found.reference.digest()) else {
        return Ok(String::new());
    };
    let before = lock.entries().iter().find_map(|entry| {
        let known = reference_of(entry).ok()?;
        (known.tag_only()? == *named).then(|| known.digest().cloned())?
    });
    match before.filter(|before| before != now) {
        None => Ok(format!("{named} is {now}\n")),
        Some(before) if follow => Ok(format!("{named} is {now} now, it was {before}\n")),
        Some(before) => Err(KitError::failed(format!(
            "{named} is {now} now, but backends.lock.md has {before}; hint: `--follow-tag` installs \
             the new version, `{}` the known one",
            named.with_digest(before.clone())
        ))),
    }
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
                reference: fetched.reference.to_string(),
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
