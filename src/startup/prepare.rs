//! Prepares everything that must exist before the gateway accepts prompts: folders, files,
//! components and the agent. Reports all problems at once.

use std::collections::HashMap;
use std::sync::Arc;

use super::drain::DrainHandle;
use super::observation::Observation;
use super::preparation::Preparation;
use super::settings::OperatorSettings;
use super::{Installer, LoadedBackends, Purpose, StartRefusal, node_name, turn_parts};
use super::{cleanup, cluster, confinement, exposure, holder, host};
use crate::agents::AgentRegistry;
use crate::agents::acceptance;
use crate::agents::findings::Findings;
use crate::cli::exit;
use aetheel_dispatch::{Choices, Dispatcher, DispatcherDeps, Outlet, Router};
use aetheel_model::finding::{Finding, FindingLevel};
use aetheel_model::id::{ChannelId, MessageId};
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
use aetheel_turn::{Host, Launcher};
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
    pub(super) loaded: LoadedBackends,
    /// Starts agents through the holder, if they outlive the gateway.
    held: Option<HeldLauncher>,
    /// Agents of the previous gateway may have worked after it ended, and their output is lost.
    unwatched_agents: bool,
    pub(super) findings: Arc<Findings>,
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
        let unknown_variables = settings.unknown_variables();
        let OperatorSettings { config, variables, redactor, webhook_secrets, .. } = settings;
        let mut found = settings.warnings;
        found.extend(settings.faults);
        let mut stages = Preparation { purpose, config, variables, found, unknown_argument: false };
        stages.check_surroundings(&redactor);
        stages.install_shipped(settings.copied_backends).await;
        let workspace = stages.open_workspace(&webhook_secrets).await;
        let loaded = stages.load_backends().await;
        let findings = match &loaded {
            Some(loaded) => stages.examine_backends(loaded, workspace.as_ref()).await,
            None => None,
        };
        stages.check_unknown(loaded.as_ref(), &unknown_variables);
        let ready = workspace.zip(loaded).zip(findings);
        if let Some(refusal) = stages.take_refusal(ready.is_some()) {
            return Err(refusal);
        }
        let ((workspace, loaded), findings) = ready.expect("nothing is missing without a refusal");
        let left_out = stages.take(FindingLevel::LeftOut);
        let mut warnings = stages.take(FindingLevel::Warning);
        let confined = loaded.custody.sandbox().is_on();
        warnings.extend(exposure::warnings(&settings.secret_files, confined));
        warnings.extend(findings.warnings.iter().cloned());
        warnings.extend(loaded.agents.run_warnings());
        warnings.extend(loaded.agents.option_warnings());
        let Preparation { config, variables, .. } = stages;
        Ok(Self {
            config,
            redactor,
            webhook_secrets,
            variables,
            workspace,
            loaded,
            held: None,
            unwatched_agents: false,
            findings,
            warnings,
            left_out,
            journal: None,
        })
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
            holder::start_or_connect(&self.config, self.loaded.custody.sandbox()).await?;
        Ok(self.held.clone())
    }

    /// Returns the messages that previous processes accepted, as channel and message id.
    pub fn taken_messages(&self) -> Vec<(ChannelId, MessageId)> {
        self.journal.as_ref().map(Journal::messages).unwrap_or_default()
    }

    /// Returns the backends.
    pub fn agents(&self) -> Arc<AgentRegistry> {
        Arc::clone(&self.loaded.agents)
    }

    /// Returns the installer for the folder of backends.
    pub fn installer(&self) -> Installer {
        Installer::of(&self.loaded, &self.config)
    }

    /// Returns the custody of processes.
    pub fn custody(&self) -> Custody {
        self.loaded.custody.clone()
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
        if let Some(why) = &self.loaded.detected {
            tracing::info!(
                backend = self.config.agent_backend,
                why,
                "backend detected (AGENT_BACKEND=auto)"
            );
        }
        let sandbox = self.loaded.custody.sandbox();
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
        let leftovers = self.loaded.custody.sweep_leftovers();
        if leftovers > 0 {
            tracing::warn!(leftovers, "killed processes that an earlier gateway left behind");
        }
        let custody = self.loaded.custody.clone();
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
        self.loaded.agents.keep_components();
        let (agents, waiting) = (
            self.loaded.agents.clone().follow(outlet.clone()),
            acceptance::follow(self.loaded.agents.clone(), outlet.clone()),
        );
        let following = supervisor::spawn("agents", async {
            tokio::join!(agents, waiting);
        });
        let observers = Arc::new(Observation::start(Arc::clone(&self.loaded.observers), config));
        let deps = DispatcherDeps {
            choices,
            clock: Clock::system(),
            limits,
            host: self.host(),
            backends: self.loaded.agents.clone(),
            policies: self.loaded.policies.clone(),
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
        };
        let dispatcher = Dispatcher::new(deps, turn_parts());
        (dispatcher, DrainHandle { recorder, turns, observers, following })
    }

    fn launcher(&self) -> Arc<dyn Launcher> {
        match &self.held {
            Some(held) => Arc::new(held.clone()),
            None => Arc::new(self.loaded.custody.clone()),
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
        host::host_of(
            &self.config,
            &self.variables,
            &self.loaded.agents,
            self.loaded.custody.sandbox(),
        )
    }
}
