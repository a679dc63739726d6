//! Prepares everything that must exist before the gateway accepts prompts: folders, files,
//! components and the agent. Reports all problems at once.

use std::collections::HashMap;
use std::sync::Arc;

use super::drain::DrainHandle;
use super::observation::Observation;
use super::settings::OperatorSettings;
use super::{Installer, LoadedBackends, Purpose, StartRefusal, node_name};
use super::{
    cleanup, cluster, confinement, exposure, holder, host, shipped, surroundings, survey, unknown,
};
use crate::agents::AgentRegistry;
use crate::agents::acceptance;
use crate::agents::findings::Findings;
use crate::cli::exit;
use crate::progress;
use aetheel_dispatch::{Choices, Dispatcher, DispatcherDeps, Outlet, Router};
use aetheel_model::finding::{Finding, FindingLevel};
use aetheel_model::id::{ChannelId, MessageId};
use aetheel_model::plain::with_causes;
use aetheel_model::redact::Redactor;
use aetheel_process::Custody;
use aetheel_process::holder::HeldLauncher;
use aetheel_recording::Recorder;
use aetheel_runtime::clock::Clock;
use aetheel_runtime::supervisor;
use aetheel_settings::Config;
use aetheel_store::workspace::{
    BootReport, FileError, Journal, Lock, LockError, TurnRetention, Workspace, caps_in_force,
    sweep_leftovers,
};
use aetheel_turn::{Backends as _, Host, Launcher};
use aetheel_wasm::{ObserverSet, PolicySet};
use aetheel_web::webhooks::WebhookSecrets;

/// Everything that must exist before the gateway accepts prompts.
pub struct PreparedStart {
    /// The settings, with `AGENT_BACKEND=auto` replaced by the detected backend.
    pub config: Config,
    /// See [`OperatorSettings::redactor`].
    pub redactor: Redactor,
    /// See [`OperatorSettings::webhook_secrets`].
    pub webhook_secrets: WebhookSecrets,
    variables: HashMap<String, String>,
    /// The files of `CONFIG_DIR`.
    pub workspace: Workspace,
    pub(super) agents: Arc<AgentRegistry>,
    /// The policies that decide about requests of agents.
    pub(super) policies: Arc<PolicySet>,
    /// The observers of turns.
    pub(super) observers: Arc<ObserverSet>,
    installer: Installer,
    pub(super) custody: Custody,
    /// Starts agents through the holder, if they outlive the gateway.
    held: Option<HeldLauncher>,
    /// Agents of the previous gateway may have worked after it ended, and their output is lost.
    unwatched_agents: bool,
    pub(super) findings: Arc<Findings>,
    /// How the backend was detected, with `AGENT_BACKEND=auto`.
    pub(super) detected: Option<String>,
    pub(super) warnings: Vec<Finding>,
    /// Problems that do not prevent a start: it ignores the faulty entries and files.
    pub(super) left_out: Vec<Finding>,
    /// Saves accepted events. `None` at the terminal.
    journal: Option<Journal>,
}

impl PreparedStart {
    /// Prepares everything that the purpose needs.
    ///
    /// # Errors
    /// Returns [`StartRefusal`] with all problems if one of them prevents a start.
    pub async fn prepare(
        settings: OperatorSettings,
        purpose: Purpose,
    ) -> Result<Self, StartRefusal> {
        if settings.is_unreadable {
            // The other problems would only result from the missing settings.
            return Err(StartRefusal::new(exit::CONFIG, settings.faults));
        }
        let mut around = surroundings::examine(
            &settings.config,
            &settings.variables,
            &settings.redactor,
            purpose,
        );
        let OperatorSettings { mut config, variables, redactor, webhook_secrets, .. } = settings;
        let mut found = settings.warnings;
        found.extend(settings.faults);
        let unusable = |error: FileError| {
            let message = format!("CONFIG_DIR: {}", with_causes(&error));
            Finding::of_io("CONFIG_DIR", message, error.cause())
        };
        for (name, folder) in
            [("WORKSPACE_DIR", &config.workspace_dir), ("CONFIG_DIR", &config.config_dir)]
        {
            if let Err(error) = survey::make_private(folder) {
                around.retain(|finding| !finding.subject.starts_with(name));
                let message =
                    format!("{name}: cannot create the folder {}: {error}", folder.display());
                found.push(Finding::of_io(name, message, &error));
            }
        }
        found.extend(around);
        if purpose != Purpose::Check {
            found.extend(shipped::install_shipped(&config, settings.copied_backends).await);
        }
        found.extend(shipped::missing(&config));
        let workspace = Workspace::open(&config.config_dir)
            .await
            .map_err(|error| found.push(unusable(error)))
            .ok();
        if purpose == Purpose::Check {
            found.extend(survey::files(&config, &webhook_secrets));
        }
        if let Some(workspace) = &workspace {
            found.extend(survey::channels_faults(workspace));
            match workspace.boot(true).await {
                Ok(booted) if purpose == Purpose::Check => {
                    let ignored = booted.warnings.into_iter();
                    found.extend(ignored.map(|text| Finding::left_out("boot.md", text)));
                }
                Ok(_) => {}
                Err(error) => found.push(unusable(error)),
            }
        }
        let laying = LoadedBackends::load(&config, &variables);
        let what = survey::loading_message(&config);
        let laid = match purpose {
            Purpose::Serve => progress::with_log(what, laying).await,
            Purpose::Console | Purpose::Check => progress::with_spinner(what, laying).await,
        };
        let loaded = laid.map_err(|more| found.extend(more)).ok();
        let (mut findings, mut unknown_argument) = (None, false);
        if let Some(loaded) = loaded.as_ref().filter(|_| shipped::missing(&config).is_none()) {
            match &loaded.default {
                Ok(name) => {
                    let backend = loaded.agents.get(name);
                    let own_command = backend.is_some_and(|it| it.descriptor().own_command);
                    config.set_backend(name, own_command);
                    findings = loaded.agents.examine_default(name).await;
                    found.extend(findings.iter().flat_map(|findings| findings.of_default(name)));
                    found.extend(unknown::backends(&config, &loaded.agents));
                    let names = workspace.iter();
                    found.extend(names.flat_map(|workspace| {
                        survey::budget_names(&config, workspace, &loaded.agents)
                    }));
                }
                Err(undecided) => {
                    unknown_argument = undecided.code == exit::USAGE
                        && !found.iter().any(|finding| finding.level == FindingLevel::Invalid);
                    found.extend(undecided.faults.iter().cloned());
                    if purpose != Purpose::Check {
                        let level = match undecided.code {
                            exit::UNAVAILABLE => FindingLevel::Unavailable,
                            _ => FindingLevel::Invalid,
                        };
                        let refused = loaded.refused.iter().cloned();
                        found.extend(refused.map(|finding| Finding { level, ..finding }));
                    }
                }
            }
            if purpose == Purpose::Check {
                found.extend(survey::components(loaded).await);
            }
            if purpose != Purpose::Console {
                let home = variables.get("HOME").map(String::as_str);
                found.extend(survey::lanes(&config, &loaded.agents, home));
            }
        }
        match &loaded {
            Some(loaded) => {
                found.extend(unknown::variables(&settings.unknown_variables, &*loaded.agents));
                found.extend(loaded.agents.tool_warnings());
            }
            None => found.extend(unknown::misspelled(&settings.unknown_variables)),
        }
        let mut take = |level: FindingLevel| -> Vec<Finding> {
            found.extract_if(.., |finding| finding.level == level).collect()
        };
        let (mut faults, missing) = (take(FindingLevel::Invalid), take(FindingLevel::Unavailable));
        let passing = take(FindingLevel::Passing);
        let (left_out, mut warnings) = (take(FindingLevel::LeftOut), take(FindingLevel::Warning));
        match (workspace, loaded, findings) {
            (Some(workspace), Some(loaded), Some(findings))
                if faults.is_empty() && missing.is_empty() && passing.is_empty() =>
            {
                let installer = Installer::of(&loaded, &config);
                let LoadedBackends { custody, agents, detected, policies, observers, .. } = loaded;
                let confined = custody.sandbox().is_on();
                warnings.extend(exposure::warnings(&settings.secret_files, confined));
                warnings.extend(findings.warnings.iter().cloned());
                warnings.extend(agents.run_warnings());
                warnings.extend(agents.option_warnings());
                Ok(Self {
                    config,
                    redactor,
                    webhook_secrets,
                    variables,
                    workspace,
                    agents,
                    policies,
                    observers,
                    installer,
                    custody,
                    held: None,
                    unwatched_agents: false,
                    findings,
                    detected,
                    warnings,
                    left_out,
                    journal: None,
                })
            }
            _ => {
                let code = match (faults.is_empty(), missing.is_empty()) {
                    (true, true) if !passing.is_empty() => exit::TEMPORARY,
                    (true, _) => exit::UNAVAILABLE,
                    (false, _) if unknown_argument => exit::USAGE,
                    (false, _) => exit::CONFIG,
                };
                faults.extend(missing);
                faults.extend(passing);
                faults.extend(left_out);
                Err(StartRefusal { code, faults, warnings })
            }
        }
    }

    /// Creates the missing files that `boot.md` lists, and logs which files exist.
    ///
    /// # Errors
    /// Returns [`StartRefusal`] with the path of a file that cannot be created.
    pub async fn boot(&self) -> Result<BootReport, StartRefusal> {
        let refused = |error: FileError| StartRefusal::of_file(&error);
        let booted = self.workspace.boot(false).await.map_err(refused)?;
        for warning in &booted.warnings {
            tracing::warn!("{warning}");
        }
        let (loaded, created, missing) =
            (booted.loaded.join(", "), booted.created.join(", "), booted.missing.join(", "));
        tracing::info!(
            loaded,
            created,
            missing,
            built_in = booted.by_default,
            "boot: configuration files are there"
        );
        Ok(booted)
    }

    /// Locks the configuration folder and opens the journal. In a cluster, calls `waits`, and then
    /// joins the cluster. The caller holds the lock until the program ends.
    ///
    /// # Errors
    /// Returns [`StartRefusal`] if another gateway runs or the journal cannot be used.
    pub async fn open_journal(
        &mut self,
        waits: impl FnOnce(),
    ) -> Result<(Lock, Option<cluster::Cluster>), StartRefusal> {
        let lock = self.workspace.lock().map_err(|held| match &held {
            LockError::Other { .. } => StartRefusal::because(exit::LOCKED, held.to_string()),
            LockError::Failed { source, .. } => StartRefusal::of_io(&held.to_string(), source),
        })?;
        sweep_leftovers(self.workspace.folder());
        let joined = cluster::join(&self.config, &self.workspace, waits).await?;
        let (journal, cluster) = joined.unzip();
        self.journal = Some(match journal {
            Some(journal) => journal,
            None => {
                self.workspace.journal().await.map_err(|error| StartRefusal::of_file(&error))?
            }
        });
        Ok((lock, cluster))
    }

    /// Connects to the holder or starts one, as `AGENT_HOLDER` requires. Must be called after
    /// [`Self::open_journal`]. The caller must call [`HeldLauncher::leave`] before the program
    /// ends.
    ///
    /// # Errors
    /// Returns [`StartRefusal`] if the operator requires a holder and it cannot be used.
    pub async fn start_holder(&mut self) -> Result<Option<HeldLauncher>, StartRefusal> {
        (self.held, self.unwatched_agents) =
            holder::start_or_connect(&self.config, self.custody.sandbox()).await?;
        Ok(self.held.clone())
    }

    /// Returns the messages that previous processes accepted, as channel and message id.
    pub fn taken_messages(&self) -> Vec<(ChannelId, MessageId)> {
        self.journal.as_ref().map(Journal::messages).unwrap_or_default()
    }

    /// Returns the backends.
    pub fn agents(&self) -> Arc<AgentRegistry> {
        Arc::clone(&self.agents)
    }

    /// Returns the installer for the folder of backends.
    pub fn installer(&self) -> Installer {
        self.installer.clone()
    }

    /// Returns the custody of processes.
    pub fn custody(&self) -> Custody {
        self.custody.clone()
    }

    /// Returns the operator's variables.
    pub fn variables(&self) -> HashMap<String, String> {
        self.variables.clone()
    }

    /// Builds the dispatcher. Must be called within a Tokio runtime. `router` is `Some` in a
    /// cluster.
    pub fn dispatcher(
        self,
        outlet: Arc<dyn Outlet>,
        router: Option<Arc<dyn Router>>,
    ) -> (Dispatcher, DrainHandle) {
        if let Some(why) = &self.detected {
            tracing::info!(
                backend = self.config.agent_backend,
                why,
                "backend detected (AGENT_BACKEND=auto)"
            );
        }
        let sandbox = self.custody.sandbox();
        if sandbox.is_on() {
            tracing::info!(sandbox = sandbox.describe(), "agents are confined");
        }
        let warnings = confinement::warnings(&self.config, sandbox);
        for warning in warnings.iter().chain(&self.warnings).chain(&self.left_out) {
            tracing::warn!("{warning}");
        }
        let workspace = self.workspace.clone();
        tokio::task::spawn_blocking(move || {
            let caps = caps_in_force(workspace.folder()).len();
            tracing::info!(caps, "limits in force; `aetheel config` lists them");
            workspace.limit_files().keep();
        });
        let leftovers = self.custody.sweep_leftovers();
        if leftovers > 0 {
            tracing::warn!(leftovers, "killed processes that an earlier gateway left behind");
        }
        let custody = self.custody.clone();
        tokio::task::spawn_blocking(move || match custody.sweep_folders() {
            0 => {}
            folders => tracing::info!(
                folders,
                "removed temporary folders that an earlier gateway left behind"
            ),
        });
        let limits = self.config.queue_limits();
        let choices = self.choices();
        let config = &self.config;
        let (room, redactor) = (cleanup::limits(config), self.redactor.clone());
        let recorder = Recorder::new(config.recordings_dir.clone(), room, redactor);
        let kept = TurnRetention { texts: config.recordings_max_age, lines: config.turns_kept };
        cleanup::tidy(recorder.clone(), self.workspace.clone(), kept);
        let turns = self.workspace.turns();
        self.agents.keep_components();
        let (agents, waiting) = (
            self.agents.clone().follow(outlet.clone()),
            acceptance::follow(self.agents.clone(), outlet.clone()),
        );
        let following = supervisor::spawn("agents", async {
            tokio::join!(agents, waiting);
        });
        let observers = Arc::new(Observation::start(Arc::clone(&self.observers), config));
        let dispatcher = Dispatcher::new(DispatcherDeps {
            choices,
            clock: Clock::system(),
            limits,
            host: self.host(),
            backends: self.agents.clone(),
            policies: self.policies.clone(),
            observers: observers.clone(),
            launcher: self.launcher(),
            unwatched_agents: self.unwatched_agents,
            outlet,
            workspace: self.workspace,
            router,
            journal: self.journal,
            recorder: recorder.clone(),
            redactor: self.redactor,
            rollback: self.config.backend_rollback,
            rollout: self.config.backend_rollout.clone(),
            machine: self.config.cluster_url.as_ref().map(|_| node_name(&self.config)),
        });
        (dispatcher, DrainHandle { recorder, turns, observers, following })
    }

    fn launcher(&self) -> Arc<dyn Launcher> {
        match &self.held {
            Some(held) => Arc::new(held.clone()),
            None => Arc::new(self.custody.clone()),
        }
    }

    fn choices(&self) -> Choices {
        Choices {
            backend: self.config.agent_backend.clone(),
            backends: self.config.allowed_backends.clone(),
            model: self.config.backend_model.clone(),
            effort: self.config.backend_effort.clone(),
            safety: self.config.safety,
            mode: self.config.mode,
            allowed_tools: self.config.allowed_tools.clone(),
            policy_allow: self.config.policy_allow,
            host_tools: self.config.host_tools.clone(),
            recap_on_switch: self.config.switch_recap,
            waits_for_limits: self.config.usage_limits,
            time_zone: self.config.time_zone.clone(),
            collisions: self.config.collisions,
            max_turns: self.config.backend_max_turns,
            project_roots: self.config.project_roots.clone(),
            prompts_per_minute: self.config.user_prompts_per_minute,
            prompt_limit: self.config.limits.prompt,
            attachments_max: self.config.attachments_max,
            attachment_limit: self.config.attachment_limit,
            approvers: self.config.approvers.clone(),
        }
    }

    fn host(&self) -> Host {
        host::host_of(&self.config, &self.variables, &self.agents, self.custody.sandbox())
    }
}
