//! The start, up to the point where prompts may come: folders, files, backends, agent. All faults are told at once.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::agents::{self, Findings};
use super::settings::Settings;
use crate::backend::{Engine, LoadReport, Registry, RegistryOptions};
use crate::cli::exit;
use crate::config::Config;
use crate::dispatch::{Choices, Dispatcher, Outlet, Parts};
use crate::plain::with_causes;
use crate::process::{Custody, Means};
use crate::redact::Redactor;
use crate::turn::recording::{self, Recorder};
use crate::turn::{Backends as _, Host};
use crate::workspace::Workspace;

/// Why nothing was started.
pub struct Refused {
    /// The exit code.
    pub code: u8,
    /// Each says what is wrong and what to do.
    pub faults: Vec<String>,
}

/// Everything that stands before prompts may come.
pub struct Ground {
    pub config: Config,
    pub redactor: Redactor,
    variables: HashMap<String, String>,
    pub workspace: Workspace,
    registry: Arc<Registry>,
    custody: Custody,
    findings: Findings,
}

/// What must be closed after the last turn.
pub struct Rest {
    recorder: Recorder,
    /// Keeps the backends folder watched.
    _registry: Arc<Registry>,
}

impl Rest {
    /// Waits until recordings are with the operating system.
    pub async fn close(self) {
        // The recorder blocks; a failed join means that the runtime is going away.
        let _ = tokio::task::spawn_blocking(move || self.recorder.flush()).await;
    }
}

impl Ground {
    /// Prepares everything. With `discord` a token is required.
    ///
    /// # Errors
    /// [`Refused`] with every fault found.
    pub async fn prepare(settings: Settings, discord: bool) -> Result<Self, Refused> {
        let Settings { config, variables, redactor } = settings;
        let mut faults = Vec::new();
        let mut code = exit::CONFIG;
        let mut refused_files = Vec::new();
        if discord && config.discord_bot_token.is_none() {
            faults.push("DISCORD_BOT_TOKEN is not set; copy the bot's token from Discord's developer portal".to_owned());
        }
        for (name, folder) in [("WORKSPACE_DIR", &config.workspace_dir), ("CONFIG_DIR", &config.config_dir)] {
            if let Err(error) = std::fs::create_dir_all(folder) {
                faults.push(format!("{name}: cannot make the folder {}: {error}", folder.display()));
            }
        }
        if !config.backends_dir.is_dir() {
            faults.push(format!(
                "BACKENDS_DIR: there is no folder {}; build the backends with `make guests` or set it",
                config.backends_dir.display()
            ));
        }
        let custody = Custody::new(Means::Best)
            .map_err(|error| faults.push(format!("cannot take custody of processes: {}", with_causes(&error))))
            .ok();
        let workspace = Workspace::open(&config.config_dir).await.map_err(|error| faults.push(format!("CONFIG_DIR: {error}"))).ok();
        let registry = match Engine::new(&config.limits, Some(&config.cache_dir)) {
            Ok(engine) => {
                let (registry, reports) = Registry::start(engine, RegistryOptions::new(&config.backends_dir)).await;
                refused_files = reports.into_iter().filter_map(refusal).collect();
                Some(Arc::new(registry))
            }
            Err(error) => {
                faults.push(format!("cannot start the backend engine: {}", with_causes(&error)));
                None
            }
        };
        let mut findings = Findings::default();
        if let (Some(registry), Some(custody)) = (&registry, &custody) {
            match registry.get(&config.agent_backend) {
                Some(backend) => {
                    findings = agents::examine(backend.descriptor(), &config, &variables, custody).await;
                    if !findings.faults.is_empty() && faults.is_empty() {
                        code = exit::UNAVAILABLE;
                    }
                    faults.append(&mut findings.faults);
                }
                None if config.backends_dir.is_dir() => {
                    faults.push(no_backend(&config, registry));
                    faults.append(&mut refused_files);
                }
                None => {}
            }
        }
        match (workspace, registry, custody) {
            (Some(workspace), Some(registry), Some(custody)) if faults.is_empty() => {
                Ok(Self { config, redactor, variables, workspace, registry, custody, findings })
            }
            _ => Err(Refused { code, faults }),
        }
    }

    /// Tells what was found, for `aetheel check`.
    pub fn describe(&self, out: &mut dyn Write) {
        let lines = [
            format!("configuration: {}", absolute(&self.config.config_dir)),
            format!("workspace: {}", absolute(&self.config.workspace_dir)),
            format!("backends: {}", self.registry.names().join(", ")),
            format!("answers: {}", self.config.agent_backend),
            format!("program: {}", self.findings.program.as_deref().map_or_else(|| "none".to_owned(), absolute)),
            format!("agent version: {}", self.findings.version.as_deref().unwrap_or("unknown")),
        ];
        let warnings = self.findings.warnings.iter().map(|warning| format!("warning: {warning}"));
        for line in lines.into_iter().chain(warnings) {
            // A closed stdout has nobody to tell.
            let _ = writeln!(out, "{line}");
        }
    }

    /// Builds the dispatcher; must be called within the runtime.
    pub fn dispatcher(self, outlet: Arc<dyn Outlet>) -> (Dispatcher, Rest) {
        for warning in &self.findings.warnings {
            tracing::warn!("{warning}");
        }
        let leftovers = self.custody.sweep_leftovers();
        if leftovers > 0 {
            tracing::warn!(leftovers, "killed processes that an earlier gateway left behind");
        }
        let limits = (&self.config).into();
        let choices = self.choices();
        let recorder = Recorder::new(self.config.recordings_dir.clone(), self.redactor.clone());
        prune_recordings(&self.config);
        let dispatcher = Dispatcher::new(Parts {
            choices,
            limits,
            host: self.host(),
            backends: self.registry.clone(),
            launcher: Arc::new(self.custody.clone()),
            outlet,
            workspace: self.workspace,
            recorder: recorder.clone(),
            redactor: self.redactor,
        });
        (dispatcher, Rest { recorder, _registry: self.registry })
    }

    fn choices(&self) -> Choices {
        Choices {
            backend: self.config.agent_backend.clone(),
            model: self.config.backend_model.clone(),
            safety: self.config.safety,
            mode: self.config.mode,
            allowed_tools: self.config.allowed_tools.clone(),
            max_turns: self.config.backend_max_turns,
            prompt_limit: self.config.limits.prompt,
            approvers: self.config.approvers.clone(),
        }
    }

    fn host(&self) -> Host {
        let config = &self.config;
        let mut programs = HashMap::new();
        for name in self.registry.names() {
            let declared = self.registry.get(&name).map(|backend| backend.descriptor().programs.clone()).unwrap_or_default();
            for program in declared.iter().filter(|program| program.name == env!("CARGO_PKG_NAME")) {
                if let Ok(ourselves) = std::env::current_exe() {
                    programs.insert((name.clone(), program.name.clone()), ourselves);
                }
            }
            if let (true, Some(first), Some(found)) = (name == config.agent_backend, declared.first(), &self.findings.program) {
                programs.insert((name.clone(), first.name.clone()), found.clone());
            }
        }
        Host {
            variables: self.variables.clone(),
            further_variables: config.agent_env.clone(),
            programs,
            agent_versions: self.findings.version.iter().map(|version| (config.agent_backend.clone(), version.clone())).collect(),
            wrapper: config.agent_wrapper.clone(),
            cwd: std::path::absolute(&config.workspace_dir).unwrap_or_else(|_| config.workspace_dir.clone()),
            query_timeout: config.query_timeout,
            idle_timeout: config.idle_timeout,
            ask_timeout: config.ask_timeout,
            link_idle: config.link_idle,
            links_warm: config.links_warm,
            stop_grace: config.stop_grace,
            max_turns: config.backend_max_turns,
            line_limit: config.limits.line,
            output_limit: config.limits.output,
        }
    }
}

/// Why a file of the backends folder does not serve.
fn refusal(report: LoadReport) -> Option<String> {
    match report {
        LoadReport::Refused { path, reason } => Some(format!("{}: {}; {}", path.display(), with_causes(&*reason), reason.hint())),
        _ => None,
    }
}

fn no_backend(config: &Config, registry: &Registry) -> String {
    let (wanted, names) = (&config.agent_backend, registry.names());
    let folder = config.backends_dir.display();
    if names.is_empty() {
        format!("AGENT_BACKEND {wanted:?}: no backend could be loaded from {folder}; build them with `make guests`")
    } else {
        format!("AGENT_BACKEND {wanted:?} is not one of the backends in {folder}: {}", names.join(", "))
    }
}

/// Now and every hour; as long as the runtime lives.
fn prune_recordings(config: &Config) {
    let (folder, max_age, max_bytes) = (config.recordings_dir.clone(), config.recordings_max_age, config.recordings_max_bytes);
    tokio::spawn(async move {
        let mut hourly = tokio::time::interval(Duration::from_secs(3600));
        loop {
            hourly.tick().await;
            let folder = folder.clone();
            let pruned = tokio::task::spawn_blocking(move || recording::prune(&folder, max_age, max_bytes, SystemTime::now())).await;
            match pruned {
                Ok(Ok(0)) => {}
                Ok(Ok(removed)) => tracing::info!(removed, "removed old recordings"),
                Ok(Err(error)) => tracing::warn!(%error, "cannot look through the recordings; check RECORDINGS_DIR"),
                Err(_) => return,
            }
        }
    });
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}
