//! `aetheel backend install`: checks a component and puts it into the folder of backends. The
//! component is a file, or comes from a registry.
//!
//! All steps that can fail run before anything changes; the last step is a single rename. Tested by
//! `tests/gateway/components.rs` and `tests/artifacts`.

mod component;

use std::path::{Path, PathBuf};

use clap::Args;

use self::component::{Installed, install};
use super::artifacts::ArtifactAccess;
use super::fetched::{FetchedBackend, is_reference};
use super::locked;
use crate::cli::{Common, exit};
use crate::commands::context::{block_on_command, start_log, with_sound_settings};
use crate::commands::kit::KitError;
use crate::startup::settings::OperatorSettings;
use crate::startup::{LoadedBackends, StartRefusal};
use crate::terminal::{self, print_stderr};
use aetheel_model::choice::Trust;
use aetheel_model::redact::Redactor;
use aetheel_settings::Config;
use aetheel_store::workspace::LockedBackend;

/// Arguments of `aetheel backend install`.
#[derive(Args, Debug, Default)]
pub struct InstallArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    common: Common,
    /// File of the backend, or its reference in a registry (`oci://HOST/NAME:TAG`)
    #[arg(value_name = "FILE", required_unless_present = "locked")]
    component: Option<PathBuf>,
    /// Install exactly the versions that backends.lock.md names
    #[arg(long, conflicts_with = "component")]
    locked: bool,
    /// Read from a folder with the OCI image layout instead of a registry
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,
    /// Install what a tag names now, although backends.lock.md has another version of it
    #[arg(long, conflicts_with = "locked")]
    follow_tag: bool,
    /// Trust the file from now on: add its SHA-256 to backends.md
    #[arg(long)]
    pin: bool,
    /// Accept its capabilities without a question
    #[arg(long, short)]
    yes: bool,
}

impl InstallArgs {
    pub(super) fn run(self) -> u8 {
        with_sound_settings(&self.common, |settings| block_on_command(install_all(settings, &self)))
    }
}

/// A backend that the operator wants to install.
enum InstallSource {
    File(PathBuf),
    /// An artifact in a registry, given by its reference.
    Artifact(String),
    /// Exactly the version of an entry in `backends.lock.md`.
    Locked(LockedBackend),
}

/// The parts that all installations of one command share.
struct InstallJob<'a> {
    loaded: &'a LoadedBackends,
    config: &'a Config,
    access: &'a ArtifactAccess,
    args: &'a InstallArgs,
}

async fn install_all(settings: OperatorSettings, args: &InstallArgs) -> Result<u8, u8> {
    let access = ArtifactAccess::new(&settings, args.from.clone());
    let OperatorSettings { config, variables, redactor, .. } = settings;
    start_log(&redactor)?;
    let sources = sources(&config, args).map_err(|error| report_failure(&redactor, &error))?;
    if !config.backends_dir.is_dir() {
        let fault = format!(
            "BACKENDS_DIR: there is no folder {}; create it, or set BACKENDS_DIR",
            config.backends_dir.display()
        );
        return Err(StartRefusal::because(exit::CONFIG, fault).print());
    }
    let loaded = LoadedBackends::load(&config, &variables)
        .await
        .map_err(|faults| StartRefusal::new(exit::CONFIG, faults).print())?;
    let job = InstallJob { loaded: &loaded, config: &config, access: &access, args };
    let mut code = exit::OK;
    for source in sources {
        let Installed { report: said, unnoted, .. } = match job.install(&source).await {
            Ok(installed) => installed,
            Err(error) => {
                code = report_failure(&redactor, &error);
                continue;
            }
        };
        terminal::print(&redactor.redact(said));
        if let Some(error) = unnoted {
            print_stderr(&format!("error: {}", redactor.redact(error.text)));
            code = error.code;
        }
    }
    Ok(code)
}

/// Returns the backend that the operator named, otherwise all of `backends.lock.md`.
fn sources(config: &Config, args: &InstallArgs) -> Result<Vec<InstallSource>, KitError> {
    let Some(component) = args.component.as_ref().filter(|_| !args.locked) else {
        let lock = locked::read(config)?;
        if lock.entries().is_empty() {
            let nothing =
                "backends.lock.md names no backend; `aetheel backend install oci://…` adds one";
            return Err(KitError::usage(nothing));
        }
        return Ok(lock.entries().iter().cloned().map(InstallSource::Locked).collect());
    };
    match component.to_str().filter(|text| is_reference(text)) {
        Some(reference) => Ok(vec![InstallSource::Artifact(reference.to_owned())]),
        None if args.from.is_some() => {
            Err(KitError::usage("--from needs a reference (`oci://HOST/NAME:TAG`) or `--locked`"))
        }
        None => Ok(vec![InstallSource::File(component.clone())]),
    }
}

/// Installs a version in development, and returns the report.
///
/// # Errors
/// [`KitError`] if nothing was changed.
pub(super) async fn install_live(
    loaded: &LoadedBackends,
    config: &Config,
    file: &Path,
) -> Result<String, KitError> {
    let Installed { mut report, target, digest, proven, .. } =
        install(loaded, config, file, &InstallArgs::default(), None).await?;
    report.push_str(locked::note(config, &target, &digest, None, proven)?);
    Ok(report)
}

fn report_failure(redactor: &Redactor, error: &KitError) -> u8 {
    let hint = error.hint.map(|hint| format!("; hint: {hint}")).unwrap_or_default();
    print_stderr(&format!("error: {}", redactor.redact(format!("{}{hint}", error.text))));
    print_stderr("nothing was changed");
    error.code
}

impl InstallJob<'_> {
    async fn install(&self, source: &InstallSource) -> Result<Installed, KitError> {
        match source {
            InstallSource::File(file) => {
                let installed = install(self.loaded, self.config, file, self.args, None).await?;
                Ok(self.noted(installed, None))
            }
            InstallSource::Artifact(reference) => {
                let lock = locked::read(self.config)?;
                let follow_tag = self.args.follow_tag;
                let (found, said) = self.access.fetch_named(reference, &lock, follow_tag).await?;
                self.install_fetched(&found, said).await
            }
            InstallSource::Locked(entry) => self.install_locked(entry).await,
        }
    }

    async fn install_locked(&self, entry: &LockedBackend) -> Result<Installed, KitError> {
        let found = self.access.fetch_locked(entry).await?;
        let reference = &entry.reference;
        let component = std::fs::read(&found.file)
            .map(|bytes| aetheel_store::workspace::component_digest(&bytes))
            .unwrap_or_default();
        if component != entry.component || found.cases != entry.cases {
            return Err(KitError::failed(format!(
                "backends.lock.md, section {}: {reference} has another component or other cases \
                 than the section says; hint: remove the section and install the backend again",
                entry.file
            )));
        }
        self.install_fetched(&found, format!("{reference}\n")).await
    }

    async fn install_fetched(
        &self,
        found: &FetchedBackend,
        said: String,
    ) -> Result<Installed, KitError> {
        if self.config.backend_trust == Trust::Signed && !found.is_signed {
            return Err(KitError::failed(format!(
                "{} came without a signature, and BACKEND_TRUST is `signed`; hint: ask its \
                 publisher to sign it, and to push X.wasm.minisig with it",
                found.reference
            )));
        }
        let installed =
            install(self.loaded, self.config, &found.file, self.args, Some(found)).await;
        let mut installed = installed.map_err(|error| KitError {
            text: format!("{}: {}", found.reference, found.plain(&error.text)),
            ..error
        })?;
        installed.report.insert_str(0, &said);
        Ok(self.noted(installed, Some(found)))
    }

    /// Updates `backends.lock.md`.
    fn noted(&self, mut installed: Installed, found: Option<&FetchedBackend>) -> Installed {
        let (target, proven) = (&installed.target, installed.proven.clone());
        match locked::note(self.config, target, &installed.digest, found, proven) {
            Ok(said) => installed.report.push_str(said),
            Err(error) => installed.unnoted = Some(error),
        }
        installed
    }
}
