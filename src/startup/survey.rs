//! Looking at what a start would go on without, or could not have: for whoever looks before it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::Duration;

use crate::agents::AgentRegistry;
use crate::config::Config;
use crate::disk::read_ordinary;
use crate::process::find_program;
use crate::sources;
use crate::startup::LoadedBackends;
use crate::startup::running::gateway_of;
use crate::turn::Backends as _;
use crate::web::webhooks::{self, Secrets};
use crate::workspace::{
    Channels, CronJobs, DOCUMENT_LIMIT, Heartbeats, Hooks, WebhookFile, Workspace,
};

/// From when on it is said what takes so long.
const SLOW_TIMEOUT: Duration = Duration::from_secs(2);

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

/// What `channels.md` says that cannot be.
pub async fn lanes(
    config: &Config,
    workspace: &Workspace,
    agents: &AgentRegistry,
    home: Option<&str>,
) -> Vec<String> {
    let channels = workspace.channels().await;
    let mut warnings = channels.warnings.clone();
    for (lane, settings) in channels.lanes() {
        if let Some(backend) = settings.backend.as_ref().filter(|name| agents.get(name).is_none()) {
            warnings.push(format!(
                "channels.md: {lane} is to be answered by `{backend}`, which is no backend here"
            ));
        }
        for backend in settings.backends.iter().flatten().filter(|name| agents.get(name).is_none())
        {
            warnings
                .push(format!("channels.md: {lane} offers `{backend}`, which is no backend here"));
        }
        if let Some(directory) = &settings.directory {
            let found = workspace.directory(directory, &config.project_roots, home).await;
            warnings.extend(
                found.err().map(|fault| format!("channels.md: nothing runs in {lane}: {fault}")),
            );
        }
    }
    warnings
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
    let text = |name: &str| {
        let read = read_ordinary(&config.config_dir.join(name), DOCUMENT_LIMIT);
        read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    };
    let (agents, heartbeats) = (text("agents.md"), text("heartbeat.md"));
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

/// Waits for the backends, and says on stdout why it takes so long: at once where none was compiled
/// here before.
pub async fn patiently<T>(cache: &Path, work: impl Future<Output = T>) -> T {
    let say = || {
        // A closed stdout has nobody to tell.
        let _ = std::io::Write::write_all(
            &mut std::io::stdout(),
            b"looking at the backends; those not seen before are compiled first, which takes some seconds ...\n",
        );
    };
    let cold = std::fs::read_dir(cache).map_or(true, |mut entries| entries.next().is_none());
    if cold {
        say();
        return work.await;
    }
    tokio::pin!(work);
    match tokio::time::timeout(SLOW_TIMEOUT, &mut work).await {
        Ok(done) => done,
        Err(_) => {
            say();
            work.await
        }
    }
}
