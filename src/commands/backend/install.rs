//! `aetheel backend install`.
//!
//! Everything that can fail is done before anything changes; the last step is one rename. Pinned by
//! `tests/gateway/components.rs`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::assent;
use super::changes::changes;
use super::open;
use crate::agent::Descriptor;
use crate::backend::{AdmissionError, StagedComponent, Wants};
use crate::cli::exit;
use crate::config::{Config, LogFormat, Trust};
use crate::kit;
use crate::plain::with_causes;
use crate::redact::Redactor;
use crate::startup::LoadedBackends;
use crate::startup::Refused;
use crate::startup::running::gateway_of;
use crate::startup::settings::Settings;
use crate::telemetry;
use crate::terminal::say;
use crate::turn::Backend as _;
use crate::workspace::{BackendFile, Components};

/// The operator's consent, given beforehand as arguments.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct Wish {
    /// Its bytes are trusted from now on.
    pub pin: bool,
    /// It may do what it wants to.
    pub yes: bool,
}

pub(in crate::commands) async fn run(settings: Settings, component: PathBuf, wish: Wish) -> u8 {
    let Settings { config, variables, redactor, .. } = settings;
    if let Err(fault) = telemetry::start(LogFormat::Human, "error", redactor.clone()) {
        say(&format!("error: {fault}"));
        return exit::CONFIG;
    }
    if !config.backends_dir.is_dir() {
        let fault = format!(
            "BACKENDS_DIR: there is no folder {}; make it or set it",
            config.backends_dir.display()
        );
        return Refused::because(exit::CONFIG, fault).print();
    }
    let loaded = match LoadedBackends::load(&config, &variables).await {
        Ok(loaded) => loaded,
        Err(faults) => return Refused { code: exit::CONFIG, faults }.print(),
    };
    match install(&loaded, &config, &component, wish).await {
        Ok(said) => {
            // A closed stdout has nobody to tell; the exit code still does.
            let _ = std::io::stdout().write_all(redactor.clean(said).as_bytes());
            exit::OK
        }
        Err((code, fault)) => refuse(&redactor, code, &fault),
    }
}

fn refuse(redactor: &Redactor, code: u8, fault: &str) -> u8 {
    say(&format!("error: {}", redactor.clean(fault.to_owned())));
    say("nothing was changed");
    code
}

async fn install(
    loaded: &LoadedBackends,
    config: &Config,
    file: &Path,
    wish: Wish,
) -> Result<String, (u8, String)> {
    let Wish { pin, yes } = wish;
    let shown = file.display();
    let failed = |what: String| (exit::FAILED, what);
    let staged = loaded.engine.stage(file, &loaded.gate, pin).await.map_err(|error| {
        let code = if matches!(error, AdmissionError::Read(_) | AdmissionError::NotAFile) {
            exit::USAGE
        } else {
            exit::FAILED
        };
        (code, format!("{shown} {}; hint: {}", with_causes(&error), error.hint()))
    })?;
    check(&staged, file).await?;
    let name = staged.inspection.descriptor.name.clone();
    // For which of several files it stands depends on the installed agent.
    loaded.agents.examine(&name).await;
    let target = target(loaded, config, &name, file);
    staged.try_in_place(&target).await.map_err(|error| {
        let cases = kit::selftest::folder_of(&target);
        failed(format!(
            "{shown} {}; hint: put the new version's recordings into {}, or remove it",
            with_causes(&error),
            cases.display()
        ))
    })?;
    let digest = staged.inspection.digest.clone();
    let before = match loaded.engine.stage(&target, &loaded.gate, false).await {
        Ok(before) if before.inspection.descriptor.name == name => Some(before),
        Err(AdmissionError::Read(error)) if error.kind() == std::io::ErrorKind::NotFound => None,
        // Refused as it is, or another backend: it is put aside.
        _ => None,
    };
    let aside = before
        .is_none()
        .then(|| target.with_extension("wasm.replaced"))
        .filter(|_| target.exists());
    let mut said = describe(&staged, before.as_ref(), &target);
    let wants = loaded.gate.wants(&staged.inspection.descriptor).await;
    if let Some(wants) = &wants {
        let new = if wants.unknown { ", of which nothing was accepted so far," } else { "" };
        say(&format!("backend {name}{new} wants to\n{}", assent::list(&wants.more).trim_end()));
        assent::given(
            &wants.more,
            &format!("Accept this of `{name}` from now on, and install it?"),
            yes,
        )
        .map_err(failed)?;
    }
    let new_pin = pin && !pinned(config, &name, &digest).await;
    if before.as_ref().is_some_and(|before| before.inspection.digest == digest) {
        if new_pin {
            add_pin(config, &name, &digest).await.map_err(failed)?;
            said.push_str(&format!("pinned in backends.md: {digest}\n"));
        }
        if let Some(wants) = &wants {
            accept(config, wants).await.map_err(failed)?;
            said.push_str("accepted in backends.md: what it may do\n");
        }
        return Ok(said + "it is there already: nothing else was changed\n");
    }
    let installation = staged.prepare(&target).await.map_err(|error| {
        failed(format!(
            "cannot write to {}: {error}; check the permissions of BACKENDS_DIR",
            config.backends_dir.display()
        ))
    })?;
    if let Some(before) = &before {
        let (components, served, backend) =
            (Components::new(&config.config_dir), before.served(), name.clone());
        let kept = tokio::task::spawn_blocking(move || components.keep(&backend, &served)).await;
        let kept = kept.map_err(|error| failed(error.to_string()))?;
        kept.map_err(|error| {
            failed(format!("what it would replace cannot be kept: {}", with_causes(&error)))
        })?;
    }
    if new_pin {
        add_pin(config, &name, &digest).await.map_err(failed)?;
        said.push_str(&format!("pinned in backends.md: {digest}\n"));
    }
    if let Some(wants) = &wants {
        accept(config, wants).await.map_err(failed)?;
        said.push_str("accepted in backends.md: what it may do\n");
    }
    let finished = installation.finish(aside.clone()).await;
    finished.map_err(|error| {
        failed(format!("cannot put it in its place, {}: {error}", target.display()))
    })?;
    said.push_str(&format!("installed as {}\n", target.display()));
    if let Some(aside) = aside {
        said.push_str(&format!("what was there could not serve; it is now {}\n", aside.display()));
    }
    if before.is_some() {
        said.push_str(&format!(
            "the one before is kept: `aetheel backend rollback {name}` puts it back\n"
        ));
    }
    said.push_str(&match gateway_of(config) {
        Some(pid) => format!(
            "the gateway (process {pid}) loads it now; turns that run end with the one before\n"
        ),
        None => "no gateway runs here: the next start loads it\n".to_owned(),
    });
    if pin && config.backend_trust != Trust::Pinned {
        said.push_str(&format!(
            "note: pins count with BACKEND_TRUST=pinned; it is {}\n",
            config.backend_trust.word()
        ));
    }
    Ok(said)
}

/// Tries everything with the recordings that came with a component, `X.cases` beside `X.wasm`.
async fn check(staged: &StagedComponent, file: &Path) -> Result<(), (u8, String)> {
    let folder = kit::selftest::folder_of(file);
    if !folder.is_dir() {
        return Ok(());
    }
    let cases = open::cases(vec![folder]).await.map_err(|unable| (unable.code, unable.text))?;
    let areas = kit::check::check(&staged.backend, &cases).await;
    let areas = areas.map_err(|failure| {
        (exit::FAILED, format!("{}: no guest can be opened: {failure}", file.display()))
    })?;
    let findings: Vec<_> = areas.iter().flat_map(|area| &area.findings).collect();
    let Some(first) = findings.first() else { return Ok(()) };
    let (count, shown) = (findings.len(), file.display());
    let (got, expected) = (&first.got, &first.expected);
    let more = format!("{count} findings, the first: {}: {got}, expected: {expected}", first.trial);
    Err((
        exit::FAILED,
        format!(
            "{shown} does not pass its check: {more}; hint: `aetheel backend check {shown}` shows all"
        ),
    ))
}

/// Where a component goes: over the file of its own file name if that is of its backend, else over
/// the one that serves, else to a new file named after the backend.
fn target(loaded: &LoadedBackends, config: &Config, name: &str, file: &Path) -> PathBuf {
    let fresh = config.backends_dir.join(format!("{name}.wasm"));
    let Some(chosen) = loaded.components.chosen(name) else { return fresh };
    let of_its_name = chosen
        .others
        .iter()
        .map(|other| &other.path)
        .find(|path| path.file_name() == file.file_name());
    of_its_name.unwrap_or(&chosen.path).clone()
}

async fn pinned(config: &Config, name: &str, digest: &str) -> bool {
    BackendFile::new(&config.config_dir)
        .refresh()
        .await
        .0
        .of(digest)
        .is_some_and(|backends| backends.contains(name))
}

async fn accept(config: &Config, wants: &Wants) -> Result<(), String> {
    let accepted =
        BackendFile::new(&config.config_dir).accept(&wants.descriptor.name, &wants.more).await;
    accepted.map(drop).map_err(|error| format!("it cannot be accepted: {}", with_causes(&error)))
}

async fn add_pin(config: &Config, name: &str, digest: &str) -> Result<(), String> {
    let added = BackendFile::new(&config.config_dir).pin(name, digest).await;
    added.map(drop).map_err(|error| format!("it cannot be pinned: {}", with_causes(&error)))
}

/// Describes the component, and what is new about it.
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
        Some(before) => {
            said.push_str(&format!("contract: {contract}, before {}\n", before.inspection.contract))
        }
        None => said.push_str(&format!("contract: {contract}\n")),
    }
    said.push_str(
        &staged.standing.says().map(|standing| format!("trust: {standing}\n")).unwrap_or_default(),
    );
    for change in before
        .map(|before| changes(&before.inspection.descriptor, &inspection.descriptor))
        .unwrap_or_default()
    {
        said.push_str(&format!("{change}\n"));
    }
    said
}
