//! `aetheel backend install`: checks a component and puts it into the folder of backends.
//!
//! All steps that can fail run before anything changes; the last step is a single rename. Tested by
//! `tests/gateway/components.rs`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::all_nodes::ClusterInstaller;
use super::changes::changes;
use super::consent;
use super::open::{self, KitError};
use crate::agent::Descriptor;
use crate::backend::{AdmissionError, RequestedCapabilities, StagedComponent};
use crate::cli::exit;
use crate::config::{Config, LogFormat, Rollout, Trust};
use crate::kit;
use crate::plain::{counted, with_causes};
use crate::redact::Redactor;
use crate::startup::running::gateway_of;
use crate::startup::settings::OperatorSettings;
use crate::startup::{InstallPlan, Installer, LoadedBackends, StartRefusal};
use crate::telemetry;
use crate::terminal::{self, print_stderr};
use crate::turn::Backend as _;
use crate::workspace::{BackendFile, ServedComponent};

#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct InstallOptions {
    /// Whether to pin the component's digest in `backends.md`, so that it is trusted.
    pub pin: bool,
    /// Whether to accept all permissions of the component without asking.
    pub yes: bool,
    /// Whether to send the component to the other machines of the cluster.
    pub all_nodes: bool,
}

struct Installed {
    report: String,
    /// The installed file, and its contents.
    target: PathBuf,
    served: ServedComponent,
}

pub(in crate::commands) async fn run(
    settings: OperatorSettings,
    component: PathBuf,
    wish: InstallOptions,
) -> u8 {
    let OperatorSettings { config, variables, redactor, .. } = settings;
    if let Err(fault) =
        telemetry::start(LogFormat::Human, terminal::command_log_level(), redactor.clone())
    {
        print_stderr(&format!("error: {fault}"));
        return exit::CONFIG;
    }
    let others = match wish.all_nodes.then(|| ClusterInstaller::from_config(&config)).transpose() {
        Ok(others) => others,
        Err(error) => return report_failure(&redactor, exit::CONFIG, &error.to_string()),
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
    let Installed { report: said, target, served } =
        match install(&loaded, &config, &component, wish).await {
            Ok(installed) => installed,
            Err(error) => return report_failure(&redactor, error.code, &error.text),
        };
    // Write errors are ignored: stdout may be closed. The exit code reports the result.
    let print = |said: String| std::io::stdout().write_all(redactor.redact(said).as_bytes());
    let _ = print(said);
    let Some(others) = others else { return exit::OK };
    match others.distribute(&target, served).await {
        Ok(said) => {
            let _ = print(said);
            exit::OK
        }
        Err(error) => {
            print_stderr(&format!("error: {}", redactor.redact(error.text)));
            print_stderr(
                "it is installed here, but was not sent to the other machines; run this again",
            );
            error.code
        }
    }
}

fn report_failure(redactor: &Redactor, code: u8, fault: &str) -> u8 {
    print_stderr(&format!("error: {}", redactor.redact(fault.to_owned())));
    print_stderr("nothing was changed");
    code
}

async fn install(
    loaded: &LoadedBackends,
    config: &Config,
    file: &Path,
    wish: InstallOptions,
) -> Result<Installed, KitError> {
    let InstallOptions { pin, yes, .. } = wish;
    let shown = file.display();
    let staged = loaded.engine.stage(file, &loaded.gate, pin).await.map_err(|error| {
        let text = format!("{shown} {}; hint: {}", with_causes(&error), error.hint());
        match error {
            AdmissionError::Read(_) | AdmissionError::NotAFile => KitError::usage(text),
            _ => KitError::failed(text),
        }
    })?;
    check(&staged, file).await?;
    let name = staged.inspection.descriptor.name.clone();
    let installer = Installer::of(loaded, config);
    let plan = installer.plan(staged, file).await;
    let InstallPlan { staged, target, before, aside, wants } = &plan;
    staged.try_in_place(target).await.map_err(|error| {
        let cases = kit::selftest::folder_of(target);
        KitError::failed(format!(
            "{shown} {}; hint: put the new version's recordings into {}, or remove it",
            with_causes(&error),
            cases.display()
        ))
    })?;
    let digest = staged.inspection.digest.clone();
    let mut said = describe(staged, before.as_ref(), target);
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
        return Ok(Installed { report: said, target: target.clone(), served: staged.served() });
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
        None => "no gateway runs here: the next start loads it\n".to_owned(),
    });
    if pin && config.backend_trust != Trust::Pinned {
        said.push_str(&format!(
            "note: pins have an effect only with BACKEND_TRUST=pinned; it is {}\n",
            config.backend_trust.word()
        ));
    }
    Ok(Installed { report: said, target: target.clone(), served: staged.served() })
}

/// Runs all checks with the recordings delivered with a component, which are in `X.cases` beside
/// `X.wasm`.
async fn check(staged: &StagedComponent, file: &Path) -> Result<(), KitError> {
    let folder = kit::selftest::folder_of(file);
    if !folder.is_dir() {
        return Ok(());
    }
    let cases = open::cases(vec![folder]).await?;
    let areas = kit::check::check(&staged.backend, &cases).await;
    let areas = areas.map_err(|failure| {
        KitError::failed(format!("{}: no guest can be opened: {failure}", file.display()))
    })?;
    let findings: Vec<_> = areas.iter().flat_map(|area| &area.findings).collect();
    let Some(first) = findings.first() else { return Ok(()) };
    let shown = file.display();
    let (got, expected) = (&first.got, &first.expected);
    let more = format!(
        "{}, the first: {}: {got}, expected: {expected}",
        counted(findings.len(), "finding"),
        first.trial
    );
    Err(KitError::failed(format!(
        "{shown} does not pass its check: {more}; hint: `aetheel backend check {shown}` shows all"
    )))
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
