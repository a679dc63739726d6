//! `aetheel backend install`: checks a component and puts it into the folder of backends. The
//! component is a file, or comes from a registry.
//!
//! All steps that can fail run before anything changes; the last step is a single rename. Tested by
//! `tests/gateway/components.rs` and `tests/artifacts`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::artifacts::ArtifactAccess;
use super::changes::changes;
use super::consent;
use super::fetched::{FetchedBackend, is_reference};
use super::locked;
use crate::cli::{Common, exit};
use crate::commands::context::{block_on, start_log, with_sound_settings};
use crate::commands::kit::{self, KitError};
use crate::startup::running::gateway_of;
use crate::startup::settings::OperatorSettings;
use crate::startup::{InstallPlan, Installer, LoadedBackends, StartRefusal};
use crate::terminal::{self, print_stderr};
use aetheel_kit::{describe_versions, proven_versions};
use aetheel_model::agent::Descriptor;
use aetheel_model::choice::Trust;
use aetheel_model::plain::{counted, with_causes};
use aetheel_model::redact::Redactor;
use aetheel_model::rollout::Rollout;
use aetheel_recording::Backend as _;
use aetheel_recording::case::Case;
use aetheel_settings::Config;
use aetheel_store::workspace::{BackendFile, LockedBackend};
use aetheel_wasm::{AdmissionError, RequestedCapabilities, StagedComponent};

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
    /// Runs the command. Returns the exit code.
    pub(super) fn run(self) -> u8 {
        with_sound_settings(&self.common, |settings| block_on(install_all(settings, &self)))
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

struct Installed {
    report: String,
    /// The installed file, and its digest.
    target: PathBuf,
    digest: String,
    /// The versions of the agent that made the cases beside the component.
    proven: Option<String>,
    /// The reason why `backends.lock.md` was not updated.
    unnoted: Option<KitError>,
}

/// The parts that all installations of one command share.
struct InstallJob<'a> {
    loaded: &'a LoadedBackends,
    config: &'a Config,
    access: &'a ArtifactAccess,
    args: &'a InstallArgs,
}

async fn install_all(settings: OperatorSettings, args: &InstallArgs) -> u8 {
    let access = ArtifactAccess::new(&settings, args.from.clone());
    let OperatorSettings { config, variables, redactor, .. } = settings;
    if let Err(code) = start_log(&redactor) {
        return code;
    }
    let sources = match sources(&config, args) {
        Ok(sources) => sources,
        Err(error) => return report_failure(&redactor, &error),
    };
    if !config.backends_dir.is_dir() {
        let fault = format!(
            "BACKENDS_DIR: there is no folder {}; create it, or set BACKENDS_DIR",
            config.backends_dir.display()
        );
        return StartRefusal::because(exit::CONFIG, fault).print();
    }
    let loaded = match LoadedBackends::load(&config, &variables).await {
        Ok(loaded) => loaded,
        Err(faults) => return StartRefusal::new(exit::CONFIG, faults).print(),
    };
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
    code
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

async fn install(
    loaded: &LoadedBackends,
    config: &Config,
    file: &Path,
    args: &InstallArgs,
    fetched: Option<&FetchedBackend>,
) -> Result<Installed, KitError> {
    let InstallArgs { pin, yes, .. } = *args;
    let shown = file.display();
    let staged = loaded.engine.stage(file, &loaded.gate, pin).await.map_err(|error| {
        let text = format!("{shown} {}; hint: {}", with_causes(&error), error.hint());
        match error {
            AdmissionError::Read(_) | AdmissionError::NotAFile => KitError::usage(text),
            _ => KitError::failed(text),
        }
    })?;
    let cases = check(&staged, file, fetched.is_some()).await?;
    let proven = describe_versions(&proven_versions(&cases));
    let name = staged.inspection.descriptor.name.clone();
    let installer = Installer::of(loaded, config);
    let plan = installer.plan(staged, file).await;
    let InstallPlan { staged, target, before, aside, wants } = &plan;
    staged.try_in_place(target).await.map_err(|error| {
        let cases = aetheel_recording::selftest::folder_of(target);
        KitError::failed(format!(
            "{shown} {}; hint: put the new version's recordings into {}, or remove it",
            with_causes(&error),
            cases.display()
        ))
    })?;
    let digest = staged.inspection.digest.clone();
    let mut said = describe(staged, before.as_ref(), target);
    match &proven {
        Some(versions) => said.push_str(&format!("proven with agent version {versions}\n")),
        None if fetched.is_some() => {
            said.push_str("proven with no version of its agent: no case of it names one\n");
        }
        None => {}
    }
    if let Some(wants) = wants {
        let new = if wants.unknown { " (nothing accepted so far)" } else { "" };
        print_stderr(&format!(
            "backend {name}{new} wants to\n{}",
            consent::list_capabilities(&wants.unaccepted).trim_end()
        ));
        consent::ask(
            &wants.unaccepted,
            &format!("Accept these permissions of `{name}`, and install it?"),
            yes,
        )
        .map_err(|error| KitError::failed(error.to_string()))?;
    }
    let new_pin = pin && !pinned(config, &name, &digest).await;
    if before.as_ref().is_some_and(|before| before.inspection.digest == digest) {
        if new_pin {
            add_pin(config, &name, &digest).await?;
            said.push_str(&format!("pinned in backends.md: {digest}\n"));
        }
        if let Some(wants) = wants {
            accept(config, wants).await?;
            said.push_str("accepted in backends.md: the permissions above\n");
        }
        said.push_str("it is already installed: nothing else was changed\n");
        let target = target.clone();
        return Ok(Installed { report: said, target, digest, proven, unnoted: None });
    }
    let installation = installer.prepare(&plan).await;
    let installation = installation.map_err(|error| KitError::failed(error.to_string()))?;
    if new_pin {
        add_pin(config, &name, &digest).await?;
        said.push_str(&format!("pinned in backends.md: {digest}\n"));
    }
    if let Some(wants) = wants {
        accept(config, wants).await?;
        said.push_str("accepted in backends.md: the permissions above\n");
    }
    let finished = installation.finish(aside.clone()).await;
    finished.map_err(|error| {
        KitError::failed(format!("cannot install it as {}: {error}", target.display()))
    })?;
    said.push_str(&format!("installed as {}\n", target.display()));
    if let Some(aside) = aside {
        said.push_str(&format!(
            "the previous file could not be loaded; it was renamed to {}\n",
            aside.display()
        ));
    }
    if before.is_some() {
        said.push_str(&format!(
            "the previous version is kept: `aetheel backend rollback {name}` restores it\n"
        ));
    }
    said.push_str(&match gateway_of(config) {
        Some(pid) if config.backend_rollout != Rollout::Now && before.is_some() => format!(
            "the gateway (process {pid}) compares it with the serving version first: `aetheel backend rollout {name}` shows the result\n"
        ),
        Some(pid) => format!(
            "the gateway (process {pid}) loads it now; a running turn moves to it if both versions read \
             its recording alike, and otherwise ends with the previous version\n"
        ),
        None => "no gateway runs here: the next start loads it, and an open `aetheel console` now\n".to_owned(),
    });
    if pin && config.backend_trust != Trust::Pinned {
        said.push_str(&format!(
            "note: pins have an effect only with BACKEND_TRUST=pinned; it is {}\n",
            config.backend_trust.word()
        ));
    }
    let target = target.clone();
    Ok(Installed { report: said, target, digest, proven, unnoted: None })
}

/// Runs all checks with the recordings delivered with a component, and returns them. They are in
/// `X.cases` beside `X.wasm`, or in `cases` beside a file that was not fetched.
async fn check(
    staged: &StagedComponent,
    file: &Path,
    is_fetched: bool,
) -> Result<Vec<Case>, KitError> {
    let beside = file.parent().unwrap_or(Path::new("")).join("cases");
    let folders =
        [Some(aetheel_recording::selftest::folder_of(file)), (!is_fetched).then_some(beside)];
    let mut folders = folders.into_iter().flatten();
    let Some(folder) =
        folders.find(|folder| aetheel_recording::case::find(std::slice::from_ref(folder)).is_ok())
    else {
        return Ok(Vec::new());
    };
    let cases = kit::read_cases(vec![folder]).await?;
    let areas = aetheel_kit::check::check(&staged.backend, &cases).await;
    let areas = areas.map_err(|failure| {
        KitError::failed(format!("{}: no guest can be opened: {failure}", file.display()))
    })?;
    let findings: Vec<_> = areas.iter().flat_map(|area| &area.findings).collect();
    let Some(first) = findings.first() else { return Ok(cases) };
    let shown = file.display();
    let (got, expected) = (&first.got, &first.expected);
    let more = format!(
        "{}, the first: {}: {got}, expected: {expected}",
        counted(findings.len(), "finding"),
        first.trial
    );
    let hint = match is_fetched {
        true => "report it to its publisher; the version that is installed now stays".to_owned(),
        false => format!("`aetheel backend check {shown}` shows all"),
    };
    Err(KitError::failed(format!("{shown} does not pass its check: {more}; hint: {hint}")))
}

async fn pinned(config: &Config, name: &str, digest: &str) -> bool {
    BackendFile::new(&config.config_dir)
        .refresh()
        .await
        .0
        .of(digest)
        .is_some_and(|backends| backends.contains(name))
}

async fn accept(config: &Config, wants: &RequestedCapabilities) -> Result<(), KitError> {
    let accepted = BackendFile::new(&config.config_dir)
        .accept(&wants.descriptor.name, &wants.unaccepted)
        .await;
    accepted.map(drop).map_err(|error| {
        KitError::failed(format!("cannot save the approval: {}", with_causes(&error)))
    })
}

async fn add_pin(config: &Config, name: &str, digest: &str) -> Result<(), KitError> {
    let added = BackendFile::new(&config.config_dir).pin(name, digest).await;
    added
        .map(drop)
        .map_err(|error| KitError::failed(format!("cannot save the pin: {}", with_causes(&error))))
}

/// Describes the component and its differences from the previous one.
fn describe(staged: &StagedComponent, before: Option<&StagedComponent>, target: &Path) -> String {
    let inspection = &staged.inspection;
    let line = |descriptor: &Descriptor, digest: &str| {
        format!("{} ({})", descriptor.version, digest.get(..12).unwrap_or(digest))
    };
    let now = line(staged.backend.descriptor(), &inspection.digest);
    let mut said = match before {
        Some(before) => {
            let old = line(before.backend.descriptor(), &before.inspection.digest);
            format!(
                "backend {}: version {now}, in place of {old} in {}\n",
                inspection.descriptor.name,
                target.display()
            )
        }
        None => format!("backend {}: version {now}, new here\n", inspection.descriptor.name),
    };
    let contract = &inspection.contract;
    match before.filter(|before| before.inspection.contract != *contract) {
        Some(before) => said.push_str(&format!(
            "contract: {contract}, previously {}\n",
            before.inspection.contract
        )),
        None => said.push_str(&format!("contract: {contract}\n")),
    }
    said.push_str(
        &staged.trust.label().map(|standing| format!("trust: {standing}\n")).unwrap_or_default(),
    );
    for change in before
        .map(|before| changes(&before.inspection.descriptor, &inspection.descriptor))
        .unwrap_or_default()
    {
        said.push_str(&format!("{change}\n"));
    }
    said
}
