//! Installs the component of a file.

use std::path::{Path, PathBuf};

use super::InstallArgs;
use crate::commands::backend::changes::changes;
use crate::commands::backend::consent;
use crate::commands::backend::fetched::FetchedBackend;
use crate::commands::kit::{self, KitError};
use crate::startup::running::gateway_of;
use crate::startup::{InstallPlan, Installer, LoadedBackends};
use crate::terminal::print_stderr;
use aetheel_kit::{describe_versions, proven_versions};
use aetheel_model::agent::Descriptor;
use aetheel_model::choice::Trust;
use aetheel_model::plain::{counted, with_causes};
use aetheel_model::rollout::Rollout;
use aetheel_recording::Backend as _;
use aetheel_recording::case::Case;
use aetheel_recording::selftest;
use aetheel_settings::Config;
use aetheel_store::workspace::BackendFile;
use aetheel_wasm::{AdmissionError, RequestedCapabilities, StagedComponent};

pub(super) struct Installed {
    pub(super) report: String,
    /// The installed file, and its digest.
    pub(super) target: PathBuf,
    pub(super) digest: String,
    /// The versions of the agent that made the cases beside the component.
    pub(super) proven: Option<String>,
    /// The reason why `backends.lock.md` was not updated.
    pub(super) unnoted: Option<KitError>,
}

/// Checks the component of a file, asks the operator to accept its capabilities, and installs it.
///
/// # Errors
/// [`KitError`] if nothing was changed.
pub(super) async fn install(
    loaded: &LoadedBackends,
    config: &Config,
    file: &Path,
    args: &InstallArgs,
    fetched: Option<&FetchedBackend>,
) -> Result<Installed, KitError> {
    let staged = stage(loaded, file, args.pin).await?;
    let cases = check(&staged, file, fetched.is_some()).await?;
    let proven = describe_versions(&proven_versions(&cases));
    let installer = Installer::of(loaded, config);
    let plan = installer.plan(staged, file).await;
    let InstallPlan { staged, target, before, aside, wants } = &plan;
    staged.try_in_place(target).await.map_err(|error| {
        KitError::failed(format!(
            "{} {}; hint: put the new version's recordings into {}, or remove it",
            file.display(),
            with_causes(&error),
            selftest::folder_of(target).display()
        ))
    })?;
    let mut report = describe(staged, before.as_ref(), target);
    match &proven {
        Some(versions) => report.push_str(&format!("proven with agent version {versions}\n")),
        None if fetched.is_some() => {
            report.push_str("proven with no version of its agent: no case of it names one\n");
        }
        None => {}
    }
    let name = &staged.inspection.descriptor.name;
    if let Some(wants) = wants {
        ask_consent(name, wants, args.yes)?;
    }
    let digest = staged.inspection.digest.clone();
    let is_installed = before.as_ref().is_some_and(|before| before.inspection.digest == digest);
    let installation = if is_installed {
        None
    } else {
        let prepared = installer.prepare(&plan).await;
        Some(prepared.map_err(|error| KitError::failed(error.to_string()))?)
    };
    if args.pin && !pinned(config, name, &digest).await {
        add_pin(config, name, &digest).await?;
        report.push_str(&format!("pinned in backends.md: {digest}\n"));
    }
    if let Some(wants) = wants {
        accept(config, wants).await?;
        report.push_str("accepted in backends.md: the permissions above\n");
    }
    match installation {
        None => report.push_str("it is already installed: nothing else was changed\n"),
        Some(installation) => {
            installation.finish(aside.clone()).await.map_err(|error| {
                KitError::failed(format!("cannot install it as {}: {error}", target.display()))
            })?;
            report.push_str(&effect(&plan, config, args.pin));
        }
    }
    Ok(Installed { report, target: target.clone(), digest, proven, unnoted: None })
}

async fn stage(
    loaded: &LoadedBackends,
    file: &Path,
    pin: bool,
) -> Result<StagedComponent, KitError> {
    loaded.engine.stage(file, &loaded.gate, pin).await.map_err(|error| {
        let text = format!("{} {}; hint: {}", file.display(), with_causes(&error), error.hint());
        match error {
            AdmissionError::Read(_) | AdmissionError::NotAFile => KitError::usage(text),
            _ => KitError::failed(text),
        }
    })
}

fn ask_consent(name: &str, wants: &RequestedCapabilities, yes: bool) -> Result<(), KitError> {
    let new = if wants.unknown { " (nothing accepted so far)" } else { "" };
    print_stderr(&format!(
        "backend {name}{new} wants to\n{}",
        consent::list_capabilities(&wants.unaccepted).trim_end()
    ));
    let question = format!("Accept these permissions of `{name}`, and install it?");
    consent::ask(&wants.unaccepted, &question, yes)
        .map_err(|error| KitError::failed(error.to_string()))
}

/// Describes the files that changed, and when the new component serves.
fn effect(plan: &InstallPlan, config: &Config, pin: bool) -> String {
    let InstallPlan { staged, target, before, aside, .. } = plan;
    let name = &staged.inspection.descriptor.name;
    let mut text = format!("installed as {}\n", target.display());
    if let Some(aside) = aside {
        text.push_str(&format!(
            "the previous file could not be loaded; it was renamed to {}\n",
            aside.display()
        ));
    }
    if before.is_some() {
        text.push_str(&format!(
            "the previous version is kept: `aetheel backend rollback {name}` restores it\n"
        ));
    }
    text.push_str(&match gateway_of(config) {
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
        text.push_str(&format!(
            "note: pins have an effect only with BACKEND_TRUST=pinned; it is {}\n",
            config.backend_trust.word()
        ));
    }
    text
}

/// Runs all checks with the recordings delivered with a component, and returns them. They are in
/// `X.cases` beside `X.wasm`, or in `cases` beside a file that was not fetched.
async fn check(
    staged: &StagedComponent,
    file: &Path,
    is_fetched: bool,
) -> Result<Vec<Case>, KitError> {
    let beside = file.parent().unwrap_or(Path::new("")).join("cases");
    let folders = [Some(selftest::folder_of(file)), (!is_fetched).then_some(beside)];
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
    let trust = staged.trust.label().map(|trust| format!("trust: {trust}\n"));
    said.push_str(&trust.unwrap_or_default());
    for change in before
        .map(|before| changes(&before.inspection.descriptor, &inspection.descriptor))
        .unwrap_or_default()
    {
        said.push_str(&format!("{change}\n"));
    }
    said
}
