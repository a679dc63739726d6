//! Looking at what a start would go on without, or could not have: for whoever looks before it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use crate::agent::Safety;
use crate::agents::AgentRegistry;
use crate::config::{Config, suggestion};
use crate::disk::read_ordinary;
use crate::event::Lane;
use crate::process::find_program;
use crate::sources;
use crate::startup::LoadedBackends;
use crate::startup::running::gateway_of;
use crate::turn::Backends as _;
use crate::web::webhooks::{self, Secrets};
use crate::workspace::{
    Channels, CronJobs, DOCUMENT_LIMIT, Heartbeats, Hooks, WebhookFile, channel_directory,
};

/// What is left out of the operator's files because it cannot be meant. Those of backends are in
/// [`components`].
pub fn files(config: &Config, secrets: &Secrets) -> Vec<String> {
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
    // Where their answers go is another matter.
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
    faults
}

/// Heartbeats and cron jobs whose answers nobody reads, because no channel is named for them.
pub fn unplaced(config: &Config) -> Vec<String> {
    let heartbeats = Heartbeats::parse(&text(config, "heartbeat.md"));
    let jobs = CronJobs::parse(&text(config, "agents.md"));
    let plan = |placed| {
        let now = jiff::Timestamp::now();
        sources::plan(Some(&heartbeats), &jobs, &config.time_zone, placed, now).warnings
    };
    let mut warnings = plan(config.output_channel.is_some());
    let others = plan(true);
    warnings.retain(|warning| !others.contains(warning));
    warnings
}

/// Returns what sections of `channels.md` ask for and cannot get here.
pub fn lanes(config: &Config, agents: &AgentRegistry, home: Option<&str>) -> Vec<String> {
    let channels = Channels::parse(&text(config, "channels.md"));
    let mut faults = Vec::new();
    let known = agents.names();
    for (lane, settings) in channels.lanes() {
        let mut unknown = |what: &str, backend: &str| {
            if agents.get(backend).is_none() {
                let meant = suggestion(backend, known.iter().map(String::as_str));
                faults.push(format!(
                    "channels.md: {lane} {what} `{backend}`, which is no backend here{meant}"
                ));
            }
        };
        settings.backend.iter().for_each(|backend| unknown("is to be answered by", backend));
        settings.backends.iter().flatten().for_each(|backend| unknown("offers", backend));
        if let Some(safety) = settings.safety.filter(|safety| *safety > config.safety) {
            faults.push(format!(
                "channels.md: {lane} asks for safety `{}`, but PERMISSION_MODE allows only `{}`; raise PERMISSION_MODE, or lower it there",
                word(safety),
                word(config.safety)
            ));
        }
        if let Some(directory) = &settings.directory {
            let found = channel_directory(directory, &config.project_roots, home);
            faults.extend(
                found.err().map(|fault| format!("channels.md: nothing runs in {lane}: {fault}")),
            );
        }
    }
    faults
}

/// The channels and threads that `channels.md` lets write without a mention.
pub fn without_mention(config: &Config) -> Vec<u64> {
    let channels = Channels::parse(&text(config, "channels.md"));
    let open = channels.lanes().filter(|(_, settings)| settings.require_mention == Some(false));
    open.filter_map(|(lane, _)| if let Lane::Channel(id) = lane { Some(*id) } else { None })
        .collect()
}

/// A file of the configuration folder; empty if it cannot be read.
fn text(config: &Config, name: &str) -> String {
    let read = read_ordinary(&config.config_dir.join(name), DOCUMENT_LIMIT);
    read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// A level of safety as `channels.md` names it.
fn word(safety: Safety) -> &'static str {
    match safety {
        Safety::Default => "ask",
        Safety::Edit => "edit",
        Safety::Danger => "danger",
    }
}

/// Components that do not serve, and what cannot be meant in the files about backends.
pub async fn components(loaded: &LoadedBackends) -> Vec<String> {
    let mut faults: Vec<String> = loaded.refused.iter().map(ToString::to_string).collect();
    faults.extend(loaded.agents.warnings());
    faults.extend(loaded.gate.warnings().await);
    faults
}

/// The channels that the files name where answers go.
pub fn channels(config: &Config) -> Vec<(u64, &'static str)> {
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

/// The command before agents' programs that cannot be started.
pub fn wrapper(config: &Config, variables: &HashMap<String, String>) -> Option<String> {
    let program = config.agent_wrapper.first()?;
    let path = variables.get("PATH").map_or("", String::as_str);
    let error = find_program(Path::new(program), OsStr::new(path)).err()?;
    Some(format!("AGENT_WRAPPER: {error}; install it, or take it out"))
}

/// Addresses that cannot be listened at; what the gateway that serves now listens at is its own.
pub fn addresses(config: &Config, status_too: bool) -> Vec<String> {
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
        Some(format!(
            "{name}: cannot listen at {address}: {error}; choose another address, or end whatever listens there"
        ))
    };
    wanted.into_iter().filter_map(taken).collect()
}

/// Makes a folder, and those above it that are missing, for this user alone.
pub fn make_private(folder: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Name of the wait for the backends, which is long where none was compiled before.
#[must_use]
pub fn loading(config: &Config) -> &'static str {
    let mut compiled = std::fs::read_dir(&config.cache_dir).into_iter().flatten();
    match compiled.next() {
        Some(_) => "loading the backends",
        None => "compiling the backends, which takes some seconds the first time",
    }
}
