//! Finds problems in the operator's files and settings before a start: entries that a start would
//! ignore, and resources that are not available.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use crate::agent::Safety;
use crate::agents::AgentRegistry;
use crate::budget::BudgetRules;
use crate::config::{Config, nearest};
use crate::disk::read_ordinary;
use crate::event::Lane;
use crate::finding::Finding;
use crate::id::ChannelId;
use crate::plain::{counted, with_causes};
use crate::process::find_program;
use crate::sources;
use crate::startup::LoadedBackends;
use crate::startup::refusal::TAKEN_ADDRESS;
use crate::startup::running::gateway_of;
use crate::turn::Backends as _;
use crate::web::webhooks::{self, WebhookSecrets};
use crate::workspace::{
    BudgetFile, Channels, CronJobs, DOCUMENT_LIMIT, Heartbeats, Hooks, LimitFiles, WebhookFile,
    Workspace, channel_directory,
};

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
    let (faults, has_earlier) = LimitFiles::of(workspace).channels_faults();
    let finding = |fault: String| match has_earlier {
        true => Finding::left_out(
            "channels.md",
            format!("{fault}; the last content without faults stays in force"),
        ),
        false => Finding::invalid("channels.md", fault)
            .with_hint("docs/configuration.md describes the format"),
    };
    faults.into_iter().map(finding).collect()
}

/// The subject of findings about `budgets.md`.
pub const BUDGETS: &str = "budgets";

/// Returns the problems in `budgets.md`. A start with problems is refused, because a cap could be
/// missing.
pub fn budgets(config: &Config) -> Vec<Finding> {
    let faults = match BudgetFile::new(&config.config_dir).require() {
        Ok(faults) => faults,
        Err(error) => {
            let message = format!("CONFIG_DIR: {}", with_causes(&error));
            return vec![Finding::of_io(BUDGETS, message, error.cause())];
        }
    };
    let hint = "docs/budgets.md describes the format";
    faults.into_iter().map(|fault| Finding::invalid(BUDGETS, fault).with_hint(hint)).collect()
}

/// Returns the problems of `budgets.md` with names that nothing here has. Their caps would never
/// apply.
pub fn budget_names(config: &Config, agents: &AgentRegistry) -> Vec<Finding> {
    let rules = BudgetRules::parse(&text(config, "budgets.md"));
    let channels = Channels::parse(&text(config, "channels.md"));
    let heartbeats = Heartbeats::parse(&text(config, "heartbeat.md"));
    let jobs = CronJobs::parse(&text(config, "agents.md"));
    let known = |key: &str| -> Vec<String> {
        match key {
            "project" => channels.projects().map(str::to_owned).collect(),
            "backend" => agents.names(),
            _ => {
                let checks = heartbeats.checks.iter().map(|check| check.name.clone());
                checks.chain(jobs.jobs.iter().map(|job| job.name.clone())).collect()
            }
        }
    };
    let mut faults = Vec::new();
    for cap in &rules.caps {
        for (key, name) in cap.names() {
            let known = known(key);
            if !known.iter().any(|known| known == name) {
                let meant = nearest(name, known.iter().map(String::as_str));
                let hint = meant.map_or_else(
                    || format!("correct the name, or remove the budget `{}`", cap.name),
                    |meant| format!("did you mean `{meant}`?"),
                );
                let message =
                    format!("budgets.md: the {key} {name:?} of `{}` does not exist", cap.name);
                faults.push(Finding::invalid(BUDGETS, message).with_hint(hint));
            }
        }
    }
    faults.dedup();
    faults
}

/// Returns warnings about heartbeats and cron jobs without a channel for their answers.
pub fn without_channel(config: &Config) -> Vec<Finding> {
    let heartbeats = Heartbeats::parse(&text(config, "heartbeat.md"));
    let jobs = CronJobs::parse(&text(config, "agents.md"));
    let plan = |placed| {
        let now = jiff::Timestamp::now();
        sources::plan(Some(&heartbeats), &jobs, &config.time_zone, placed, now).warnings
    };
    let mut warnings = plan(config.output_channel.is_some());
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

/// Returns the channels for answers in `agents.md` and `heartbeat.md`, each with the file's name.
pub fn channels(config: &Config) -> Vec<(ChannelId, &'static str)> {
    let (agents, heartbeats) = (text(config, "agents.md"), text(config, "heartbeat.md"));
    let hooks = Hooks::parse(&agents);
    let of_hooks =
        crate::workspace::Hook::ALL.into_iter().filter_map(|hook| hooks.of(hook)?.channel);
    let of_jobs = CronJobs::parse(&agents).jobs.into_iter().filter_map(|job| job.channel);
    let of_heartbeats =
        Heartbeats::parse(&heartbeats).checks.into_iter().filter_map(|check| check.channel);
    of_hooks
        .chain(of_jobs)
        .map(|id| (id, "agents.md"))
        .chain(of_heartbeats.map(|id| (id, "heartbeat.md")))
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
