//! Finds problems in the operator's files and settings before a start: entries that a start would
//! ignore, and resources that are not available.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::agents::AgentRegistry;
use crate::sources;
use crate::startup::LoadedBackends;
use crate::startup::refusal::TAKEN_ADDRESS;
use crate::startup::running::gateway_of;
use aetheel_model::agent::Safety;
use aetheel_model::budget::BudgetRules;
use aetheel_model::event::Lane;
use aetheel_model::finding::Finding;
use aetheel_model::id::ChannelId;
use aetheel_model::plain::{counted, with_causes};
use aetheel_model::suggest::nearest;
use aetheel_process::find_program;
use aetheel_runtime::ordinary::read_ordinary;
use aetheel_settings::Config;
use aetheel_store::workspace::{
    BudgetFile, Channels, CronJobs, DOCUMENT_LIMIT, Heartbeats, Hooks, KnownNames, WebhookFile,
    Workspace, caps_in_force, channel_directory, faults_of_channels, lanes_in_force,
};
use aetheel_turn::Backends as _;
use aetheel_web::webhooks::{self, WebhookSecrets};

/// Describes the backends whose agents are not installed here and that nobody asked for: those with
/// a component of their own by name, and the number of profiles. Returns `None` without any.
pub fn unusable(names: &[&str], profiles: usize) -> Option<String> {
    let mut all: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    if profiles > 0 {
        all.push(counted(profiles, "profile"));
    }
    (!all.is_empty()).then(|| {
        format!("{} cannot work here; `aetheel backend list --all` shows why", all.join(", "))
    })
}

/// Returns the problems in `agents.md`, `heartbeat.md`, `channels.md` and `webhooks.md`. A start
/// ignores the entries with problems. [`components`] returns those in the files about backends.
pub fn files(config: &Config, secrets: &WebhookSecrets) -> Vec<Finding> {
    let mut faults = Vec::new();
    let mut text = |name: &str| match read_ordinary(&config.config_dir.join(name), DOCUMENT_LIMIT) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                faults.push(format!("{name} cannot be read: {error}"));
            }
            String::new()
        }
    };
    let (agents, heartbeats, channels) =
        (text("agents.md"), text("heartbeat.md"), text("channels.md"));
    faults.extend(Hooks::parse(&agents).warnings);
    // `without_channel` reports missing channels for answers.
    let placed = true;
    let (heartbeats, jobs) = (Heartbeats::parse(&heartbeats), CronJobs::parse(&agents));
    faults.extend(
        sources::plan(Some(&heartbeats), &jobs, &config.time_zone, placed, jiff::Timestamp::now())
            .warnings,
    );
    faults.extend(Channels::parse(&channels).warnings);
    if config.webhooks_address.is_some() {
        let (defined, _) = WebhookFile::new(&config.config_dir).read();
        faults.extend(webhooks::faults(&defined, secrets));
    }
    faults.into_iter().map(|fault| Finding::left_out("files", fault)).collect()
}

/// Returns the faults of `channels.md` that may hide a limit. With an earlier content, that stays in
/// force, otherwise a start is refused.
pub fn channels_faults(workspace: &Workspace) -> Vec<Finding> {
    let (faults, has_earlier) = workspace.limit_files().channels_faults();
    limit_faults("channels.md", faults, has_earlier, CHANNELS_FORMAT)
}

/// Returns how many limits are in force, and the faults of `channels.md`. [`budgets`] returns those of
/// `budgets.md`.
pub fn limits(config: &Config) -> Vec<Finding> {
    let folder = &config.config_dir;
    let mut findings = match faults_of_channels(folder) {
        Ok((faults, has_earlier)) => {
            limit_faults("channels.md", faults, has_earlier, CHANNELS_FORMAT)
        }
        Err(error) => vec![Finding::of_io(
            "channels.md",
            format!("CONFIG_DIR: {}", with_causes(&error)),
            error.cause(),
        )],
    };
    findings.push(limits_in_force(folder));
    findings
}

/// Returns how many caps and channels have limits in force.
pub fn limits_in_force(folder: &Path) -> Finding {
    let (caps, lanes) = (caps_in_force(folder).len(), lanes_in_force(folder));
    let limits = format!("caps in budgets.md: {caps}; channels in channels.md: {lanes}");
    Finding::ok("limits (`aetheel config` lists them)", limits)
}

/// The subject of findings about `budgets.md`.
pub const BUDGETS: &str = "budgets";

/// Returns the faults of `budgets.md`. With earlier caps, these stay in force, otherwise a start is
/// refused, because a cap could be missing.
pub fn budgets(config: &Config) -> Vec<Finding> {
    match BudgetFile::new(&config.config_dir).require() {
        Ok((faults, has_earlier)) => limit_faults(BUDGETS, faults, has_earlier, BUDGETS_FORMAT),
        Err(error) => {
            let message = format!("CONFIG_DIR: {}", with_causes(&error));
            vec![Finding::of_io(BUDGETS, message, error.cause())]
        }
    }
}

/// Returns the same for names in `budgets.md` that nothing here has, and lets the file be compared
/// with the known names from now on.
pub fn budget_names(
    config: &Config,
    workspace: &Workspace,
    agents: &Arc<AgentRegistry>,
) -> Vec<Finding> {
    let agents = Arc::clone(agents);
    let known = KnownNames::new(&config.config_dir, move || agents.names());
    let before = workspace.budgets().faults();
    let (mut faults, has_earlier) = workspace.budgets().check_names(known);
    faults.retain(|fault| !before.contains(fault));
    limit_faults(BUDGETS, faults, has_earlier, BUDGETS_FORMAT)
}

const CHANNELS_FORMAT: &str = "docs/configuration.md describes the format";
const BUDGETS_FORMAT: &str = "docs/budgets.md describes the format";

fn limit_faults(subject: &str, faults: Vec<String>, has_earlier: bool, hint: &str) -> Vec<Finding> {
    let finding = |fault: String| match has_earlier {
        true => Finding::left_out(
            subject,
            format!("{fault}; the last content without faults stays in force"),
        ),
        false => Finding::invalid(subject, fault).with_hint(hint),
    };
    faults.into_iter().map(finding).collect()
}

/// Returns warnings about heartbeats and cron jobs without a channel for their answers.
pub fn without_channel(config: &Config) -> Vec<Finding> {
    let heartbeats = Heartbeats::parse(&text(config, "heartbeat.md"));
    let jobs = CronJobs::parse(&text(config, "agents.md"));
    let plan = |placed| {
        let now = jiff::Timestamp::now();
        sources::plan(Some(&heartbeats), &jobs, &config.time_zone, placed, now).warnings
    };
    let mut warnings = plan(config.discord.output_channel.is_some());
    let others = plan(true);
    warnings.retain(|warning| !others.contains(warning));
    let finding = |warning| {
        Finding::warning("schedules", warning)
            .with_hint("name one with `channel`, or set OUTPUT_CHANNEL_ID")
    };
    warnings.into_iter().map(finding).collect()
}

/// Returns the problems of `channels.md` with backends, safety levels and directories that are not
/// available.
pub fn lanes(config: &Config, agents: &AgentRegistry, home: Option<&str>) -> Vec<Finding> {
    let channels = Channels::parse(&text(config, "channels.md"));
    let mut faults = Vec::new();
    let known = agents.names();
    for (lane, settings) in channels.lanes() {
        let mut unknown = |what: &str, backend: &str| {
            if agents.get(backend).is_none() {
                let message =
                    format!("channels.md: {lane} {what} `{backend}`, which is not a backend here");
                let meant = nearest(backend, known.iter().map(String::as_str));
                faults.push(Finding {
                    hint: meant.map(|name| format!("did you mean `{name}`?")),
                    ..Finding::left_out("channels.md", message)
                });
            }
        };
        settings.backend.iter().for_each(|backend| unknown("chooses", backend));
        settings.backends.iter().flatten().for_each(|backend| unknown("offers", backend));
        if let Some(safety) = settings.safety.filter(|safety| *safety > config.safety) {
            let message = format!(
                "channels.md: {lane} asks for safety `{}`, but PERMISSION_MODE allows only `{}`",
                safety_word(safety),
                safety_word(config.safety)
            );
            faults.push(
                Finding::left_out("channels.md", message)
                    .with_hint("raise PERMISSION_MODE, or lower it there"),
            );
        }
        if let Some(directory) = &settings.directory {
            let found = channel_directory(directory, &config.project_roots, home);
            faults.extend(found.err().map(|fault| {
                let message = format!("channels.md: nothing runs in {lane}: {fault}");
                Finding::left_out("channels.md", message)
            }));
        }
    }
    faults
}

/// Returns the channels and threads with `require-mention: no` in `channels.md`.
pub fn without_mention(config: &Config) -> Vec<ChannelId> {
    let channels = Channels::parse(&text(config, "channels.md"));
    let open = channels.lanes().filter(|(_, settings)| settings.require_mention == Some(false));
    open.filter_map(|(lane, _)| if let Lane::Channel(id) = lane { Some(*id) } else { None })
        .collect()
}

/// Returns the text of a file in the configuration folder. Empty if it cannot be read.
fn text(config: &Config, name: &str) -> String {
    let read = read_ordinary(&config.config_dir.join(name), DOCUMENT_LIMIT);
    read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Returns the name of a safety level in `channels.md`.
fn safety_word(safety: Safety) -> &'static str {
    match safety {
        Safety::Default => "ask",
        Safety::Edit => "edit",
        Safety::Danger => "danger",
    }
}

/// Returns the components that are not used, and the problems in the files about backends.
pub async fn components(loaded: &LoadedBackends) -> Vec<Finding> {
    let ignored = loaded.agents.warnings().into_iter().chain(loaded.gate.warnings().await);
    let ignored = ignored.map(|warning| Finding::left_out("backends", warning));
    loaded.refused.iter().cloned().chain(ignored).collect()
}

/// Returns the channels for answers in `agents.md` and `heartbeat.md`, and those of `budgets.md`, each
/// with the file's name.
pub fn channels(config: &Config) -> Vec<(ChannelId, &'static str)> {
    let (agents, heartbeats) = (text(config, "agents.md"), text(config, "heartbeat.md"));
    let hooks = Hooks::parse(&agents);
    let of_hooks =
        aetheel_store::workspace::Hook::ALL.into_iter().filter_map(|hook| hooks.of(hook)?.channel);
    let of_jobs = CronJobs::parse(&agents).jobs.into_iter().filter_map(|job| job.channel);
    let of_heartbeats =
        Heartbeats::parse(&heartbeats).checks.into_iter().filter_map(|check| check.channel);
    let of_budgets = BudgetRules::parse(&text(config, "budgets.md")).channels();
    let of_budgets = of_budgets.into_iter().map(|id| (id, "budgets.md"));
    of_hooks
        .chain(of_jobs)
        .map(|id| (id, "agents.md"))
        .chain(of_heartbeats.map(|id| (id, "heartbeat.md")))
        .chain(of_budgets)
        .collect()
}

/// Returns a problem if the program of `AGENT_WRAPPER` cannot be found.
pub fn wrapper(config: &Config, variables: &HashMap<String, String>) -> Option<Finding> {
    let program = config.agent_wrapper.first()?;
    let path = variables.get("PATH").map_or("", String::as_str);
    let error = find_program(Path::new(program), OsStr::new(path)).err()?;
    Some(
        Finding::invalid("wrapper", format!("AGENT_WRAPPER: {error}"))
            .with_hint("install it, or remove the setting"),
    )
}

/// Returns a problem for each address that cannot be bound. Empty while a gateway runs, because it
/// uses the addresses itself.
pub fn addresses(config: &Config, status_too: bool) -> Vec<Finding> {
    if gateway_of(config).is_some() {
        return Vec::new();
    }
    let wanted = [
        ("STATUS_ADDRESS", config.status_address.filter(|_| status_too)),
        ("WEBHOOKS_ADDRESS", config.webhooks_address),
        ("DASHBOARD_ADDRESS", config.dashboard_address),
    ];
    let taken = |(name, address): (&str, Option<SocketAddr>)| {
        let (address, error) =
            address.and_then(|address| Some((address, TcpListener::bind(address).err()?)))?;
        let message = format!("{name}: cannot listen at {address}: {error}");
        Some(Finding::of_io("addresses", message, &error).with_hint(TAKEN_ADDRESS))
    };
    wanted.into_iter().filter_map(taken).collect()
}

/// Creates a folder and its missing parents with mode 0700.
pub fn make_private(folder: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Returns the message for the wait until the backends are loaded. The first start takes longer,
/// because it compiles them.
#[must_use]
pub fn loading_message(config: &Config) -> &'static str {
    let mut compiled = std::fs::read_dir(&config.cache_dir).into_iter().flatten();
    match compiled.next() {
        Some(_) => "loading the backends",
        None => "compiling the backends, which takes some seconds the first time",
    }
}
