//! Fetches backends from registries and from folders with the OCI image layout, and lays them out
//! as files for `aetheel backend install`.

use std::path::{Path, PathBuf};

use super::fetched::FetchedBackend;
use crate::cli::exit;
use crate::commands::kit::KitError;
use crate::startup::is_component_name;
use crate::startup::settings::OperatorSettings;
use aetheel_model::plain::with_causes;
use aetheel_model::registry_key::RegistryKey;
use aetheel_recording::selftest;
use aetheel_registry::{
    ArtifactReference, ArtifactSource, BackendArtifact, BlobDigest, LayoutFolder, RegistryClient,
    RegistryError, RegistryLogin, unpack_cases,
};
use aetheel_store::workspace::{BackendLock, LockedBackend};

pub(super) struct ArtifactAccess {
    key: Option<RegistryKey>,
    /// Docker's file with credentials, which need not exist.
    docker: Option<PathBuf>,
    /// The folder that is read instead of registries.
    from: Option<PathBuf>,
    /// Maximum size of a component, in bytes.
    limit: u64,
}

impl ArtifactAccess {
    pub(super) fn new(settings: &OperatorSettings, from: Option<PathBuf>) -> Self {
        let folder = |variable: &str, below: &str| {
            let value = settings.variables.get(variable).filter(|value| !value.is_empty())?;
            Some(Path::new(value).join(below))
        };
        Self {
            key: settings.config.registry_key.clone(),
            docker: folder("DOCKER_CONFIG", "config.json")
                .or_else(|| folder("HOME", ".docker/config.json")),
            from,
            limit: settings.config.limits.component,
        }
    }

    fn login(&self, reference: &ArtifactReference) -> Result<Option<RegistryLogin>, KitError> {
        RegistryLogin::find(reference.registry(), self.key.as_ref(), self.docker.as_deref())
            .map_err(|error| KitError::failed(with_causes(&error)))
    }

    async fn fetch(&self, reference: &ArtifactReference) -> Result<BackendArtifact, KitError> {
        let source = match &self.from {
            Some(folder) => LayoutFolder::open(folder).map(ArtifactSource::Folder)?,
            None => {
                let login = self.login(reference)?;
                ArtifactSource::Registry(Box::new(RegistryClient::new(reference, login)?))
            }
        };
        Ok(source.fetch(reference, self.limit).await?)
    }

    /// Fetches the artifact that the operator named. Refuses it if its tag named another version
    /// when it was installed, unless `follow_tag` is set. Also returns a line for the operator.
    pub(super) async fn fetch_named(
        &self,
        reference: &str,
        lock: &BackendLock,
        follow_tag: bool,
    ) -> Result<(FetchedBackend, String), KitError> {
        let named: ArtifactReference =
            reference.parse().map_err(|error| KitError::usage(format!("{error}")))?;
        let (found, now) = self.download(&named).await?;
        let line = check_tag(lock, &named, &now, follow_tag)?;
        Ok((found, line))
    }

    /// Fetches the version of an entry in `backends.lock.md`.
    pub(super) async fn fetch_locked(
        &self,
        entry: &LockedBackend,
    ) -> Result<FetchedBackend, KitError> {
        Ok(self.download(&reference_of(entry)?).await?.0)
    }

    /// Fetches an artifact and writes its files into a temporary folder. Also returns the digest of
    /// its manifest.
    async fn download(
        &self,
        reference: &ArtifactReference,
    ) -> Result<(FetchedBackend, BlobDigest), KitError> {
        let artifact = self.fetch(reference).await?;
        let digest = artifact.digest().clone();
        let reference = reference.clone();
        let written = tokio::task::spawn_blocking(move || write(&artifact, &reference));
        let fetched = written.await.map_err(|error| KitError::failed(error.to_string()))??;
        Ok((fetched, digest))
    }
}

/// Parses the reference of an entry, which must have a digest.
fn reference_of(entry: &LockedBackend) -> Result<ArtifactReference, KitError> {
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
fn check_tag(
    lock: &BackendLock,
    named: &ArtifactReference,
    now: &BlobDigest,
    follow: bool,
) -> Result<String, KitError> {
    if named.digest().is_some() {
        return Ok(String::new());
    }
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

fn write(
    artifact: &BackendArtifact,
    reference: &ArtifactReference,
) -> Result<FetchedBackend, KitError> {
    let unwritable = |error: std::io::Error| {
        KitError::failed(format!("{reference}: cannot save it in the temporary folder: {error}"))
    };
    let folder = tempfile::tempdir().map_err(unwritable)?;
    let last = reference.name().rsplit('/').next().unwrap_or_default();
    let named = artifact.file().filter(|name| is_component_name(name)).map(str::to_owned);
    let file = folder.path().join(named.unwrap_or_else(|| format!("{last}.wasm")));
    std::fs::write(&file, artifact.component()).map_err(unwritable)?;
    if let Some(signature) = artifact.signature() {
        let mut beside = file.clone().into_os_string();
        beside.push(".minisig");
        std::fs::write(beside, signature).map_err(unwritable)?;
    }
    if let Some(cases) = artifact.cases() {
        let into = selftest::folder_of(&file);
        std::fs::create_dir(&into).map_err(unwritable)?;
        unpack_cases(cases, &into)
            .map_err(|error| KitError::failed(format!("{reference}: {}", with_causes(&error))))?;
    }
    Ok(FetchedBackend {
        folder,
        file,
        reference: reference.with_digest(artifact.digest().clone()).to_string(),
        cases: artifact.cases_digest().map(ToString::to_string),
        is_signed: artifact.signature().is_some(),
    })
}

impl From<RegistryError> for KitError {
    fn from(error: RegistryError) -> Self {
        let code = match error {
            RegistryError::Status { status: 404, .. } => exit::USAGE,
            RegistryError::Unreachable { .. } | RegistryError::Status { .. } => exit::UNAVAILABLE,
            RegistryError::Layout(_) => exit::USAGE,
            _ => exit::FAILED,
        };
        Self { code, text: with_causes(&error), hint: Some(error.hint()) }
    }
}

impl From<aetheel_registry::LayoutError> for KitError {
    fn from(error: aetheel_registry::LayoutError) -> Self {
        RegistryError::from(error).into()
    }
}
