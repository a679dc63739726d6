//! The start of the gateway, in three steps: connect, recover, listen.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::cluster::{ClusterNode, NodeParts, start_node};
use super::core::Core;
use super::gateway::Gateway;
use super::health::HealthTargets;
use super::leader_schedules::LeaderOnly;
use super::phase::ProgramPhase;
use super::process::GatewayProcess;
use super::service_manager::Watchdog;
use super::webhooks::BoundWebhooks;
use super::{
    audit, budgets, critical_task_ended, dashboard, mending, recovery, rollouts, token_claim,
    tool_server,
};
use crate::agents::acceptance::Acceptance;
use crate::cli::exit;
use crate::progress;
use crate::sources::{Scheduler, submit_later_turns};
use crate::startup::settings::OperatorSettings;
use crate::startup::{PreparedStart, Purpose, StartRefusal, survey};
use aetheel_discord::{Discord, EventSharing, GatewayListener, OfferHandler, StartError};
use aetheel_process::holder::HeldLauncher;
use aetheel_runtime::supervisor;
use aetheel_settings::Config;
use aetheel_store::workspace::{BootReport, Lock};
use aetheel_turn::Backends;

impl Gateway {
    /// Prepares everything, connects to Discord, recovers the events of the previous process, and
    /// begins to read prompts.
    ///
    /// # Errors
    /// Returns the exit code if something prevents the start or a signal arrives first. The reason
    /// is in the log.
    pub(super) async fn start(
        mut process: GatewayProcess,
        settings: OperatorSettings,
    ) -> Result<Self, u8> {
        let ready = || process.service_manager.ready(process.health.clone());
        let connected = tokio::select! {
            connected = Connected::connect(settings, &process.phase, ready) => {
                connected.map_err(|refused| refused.print())?
            }
            _ = process.signals.next() => return Err(exit::OK),
            code = critical_task_ended() => return Err(code),
        };
        connected.recover(process).await.listen().await
    }
}

/// Everything that must exist before the gateway reads prompts.
pub(super) struct Connected {
    prepared: PreparedStart,
    booted: BootReport,
    discord: Discord,
    webhooks: BoundWebhooks,
    dashboard: Option<dashboard::BoundDashboard>,
    /// Held until the program ends.
    lock: Lock,
    held: Option<HeldLauncher>,
    node: Option<ClusterNode>,
}

impl Connected {
    /// Prepares everything and connects to Discord.
    pub(super) async fn connect(
        settings: OperatorSettings,
        phase: &watch::Sender<ProgramPhase>,
        ready: impl Fn() -> Watchdog,
    ) -> Result<Self, StartRefusal> {
        let mut prepared = PreparedStart::prepare(settings, Purpose::Serve).await?;
        let mut joining = None;
        let (lock, cluster) = prepared
            .open_journal(|| {
                phase.send_replace(ProgramPhase::Joining);
                joining = Some(ready());
            })
            .await?;
        phase.send_replace(ProgramPhase::Starting);
        drop(joining);
        audit::open(&prepared.config, &prepared.redactor, &*prepared.agents());
        let booted = prepared.boot().await?;
        let held = prepared.start_holder().await?;
        let mut options =
            crate::startup::discord_options(&prepared.config, prepared.redactor.clone())
                .map_err(refused)?;
        let node = cluster.map(|cluster| start_node(cluster, held.as_ref())).transpose()?;
        if let Some(node) = &node {
            options.lease = node.lease();
        }
        let webhooks = BoundWebhooks::bind(&prepared).await?;
        let dashboard =
            dashboard::bind(&prepared.config, &prepared.workspace, &prepared.redactor).await?;
        let notes = prepared.workspace.state.discord.clone();
        for (channel, message) in prepared.taken_messages() {
            // The previous process may have ended before it noted a message from the journal.
            notes.note_seen(channel, message);
        }
        token_claim::claim(&prepared.config);
        tracing::info!(address = options.settings.api_base, "connecting to discord");
        let connecting = Discord::connect(options, notes);
        let discord =
            progress::with_log("connecting to discord", connecting).await.map_err(refused)?;
        Ok(Self { prepared, booted, discord, webhooks, dashboard, lock, held, node })
    }

    /// Builds the dispatcher, and continues the events of the previous process before new ones
    /// arrive.
    pub(super) async fn recover(self, process: GatewayProcess) -> Recovered {
        let Self { prepared, booted, discord, webhooks, dashboard, lock, held, mut node } = self;
        let (config, redactor) = (prepared.config.clone(), prepared.redactor.clone());
        if !discord.reads_everything() {
            log_required_mentions(&config);
        }
        let workspace = prepared.workspace.clone();
        let (agents, installer) = (prepared.agents(), prepared.installer());
        let (custody, variables) = (prepared.custody(), prepared.variables());
        let router = node.as_ref().map(|node| node.router(&workspace));
        let (dispatcher, drain) = prepared.dispatcher(Arc::new(discord.clone()), router);
        let state = workspace.folder().join("state");
        let tool_server =
            tool_server::open(&config, &dispatcher, Some(&state), held.as_ref()).await;
        dispatcher.recovery.restore_agents().await;
        let saved = match &mut node {
            Some(node) => node.recover(&dispatcher.recovery, &dispatcher.transfer).await,
            None => dispatcher.recovery.recover().await,
        };
        if saved && let Some(held) = &held {
            held.note_holder();
        }
        let webhooks = webhooks.serve(&dispatcher.intake);
        let lost = workspace.state.lost.clone();
        let following = recovery::follow(dispatcher.clone(), Arc::clone(&agents), lost);
        agents.follow_live();
        let rolling = rollouts::follow(dispatcher.rollouts.clone(), Arc::clone(&agents));
        let recovery = supervisor::spawn("lost replies and rollouts", async {
            tokio::join!(following, rolling);
        });
        let accept = Acceptance::new(Arc::clone(&agents), &config.config_dir).by_button();
        let accept = accept.or(rollouts::by_button(dispatcher.rollouts.clone()));
        let accept = accept.or(budgets::by_button(dispatcher.budgets.clone()));
        let parts = mending::MendingParts {
            config: config.clone(),
            variables,
            workspace: workspace.clone(),
            agents: Arc::clone(&agents),
            custody,
            installer,
            recorder: drain.recorder(),
            redactor,
        };
        let desk = mending::MendingDesk::new(parts, Arc::new(discord.clone()));
        let accept = accept.or(desk.by_button());
        let mending = supervisor::spawn("mending", desk.follow());
        process.health.set_targets(HealthTargets {
            observer: dispatcher.observer.clone(),
            discord: discord.clone(),
            agents: Arc::clone(&agents),
            backend: config.agent_backend.clone(),
            state,
        });
        let core = Core {
            process,
            config,
            dispatcher,
            workspace,
            webhooks,
            drain,
            held,
            node,
            _tool_server: tool_server,
        };
        let backends: Arc<dyn Backends> = agents;
        Recovered {
            core,
            discord,
            accept: Some(accept),
            backends,
            dashboard,
            lock,
            recovery,
            mending,
            instructions: booted.instructions,
        }
    }
}

/// A gateway that has recovered the events of the previous process, and reads no prompts yet.
pub(super) struct Recovered {
    core: Core,
    discord: Discord,
    accept: Option<OfferHandler>,
    backends: Arc<dyn Backends>,
    dashboard: Option<dashboard::BoundDashboard>,
    lock: Lock,
    recovery: JoinHandle<()>,
    mending: JoinHandle<()>,
    /// Instructions for the agent if this is the first start.
    instructions: Option<String>,
}

impl Recovered {
    /// Reads prompts from Discord, and opens webhooks, dashboard and schedules.
    ///
    /// # Errors
    /// Returns the exit code if Discord rejects the bot or a signal arrives first.
    pub(super) async fn listen(mut self) -> Result<Gateway, u8> {
        let share = |node: &ClusterNode| EventSharing::new(node.mail(), node.leadership());
        let (sharing, shared) = self.core.node.as_ref().map(share).unzip();
        let listening = match self.listen_to_discord(sharing).await {
            Ok(listening) => listening,
            Err(code) => return Err(self.core.abandon(code).await),
        };
        let Self { mut core, discord, backends, .. } = self;
        if let (Some(node), Some(shared)) = (&mut core.node, shared) {
            discord.share_events(shared, core.workspace.clone());
            node.serve(NodeParts {
                dispatcher: &core.dispatcher,
                workspace: &core.workspace,
                chat: Arc::new(discord.clone()),
                backends: Arc::clone(&backends),
                slots: core.config.max_concurrent_queries,
            });
        }
        core.webhooks.open().await;
        let dashboard = self.dashboard.map(|bound| bound.open(&core, discord, backends));
        let later_turns = core.dispatcher.later_turns.clone();
        Ok(Gateway {
            listening,
            dashboard,
            schedules: run_schedules(&core),
            later_turns: submit_later_turns(later_turns, core.dispatcher.clock.clone()),
            recovery: self.recovery,
            mending: self.mending,
            lock: Arc::new(self.lock),
            instructions: self.instructions,
            watchdog: None,
            heartbeat: None,
            core,
        })
    }

    async fn listen_to_discord(
        &mut self,
        sharing: Option<EventSharing>,
    ) -> Result<GatewayListener, u8> {
        let accept = self.accept.take();
        let listening = self.discord.listen(self.core.dispatcher.clone(), accept, sharing);
        tokio::select! {
            listening = listening => listening.map_err(|error| refused(error).print()),
            _ = self.core.process.signals.next() => Err(exit::OK),
            code = critical_task_ended() => Err(code),
        }
    }
}

/// Runs the schedules while this node is the leader. Without a cluster, it always is.
fn run_schedules(core: &Core) -> LeaderOnly {
    let node = core.node.as_ref();
    let file = node.map(|node| node.leader_file(core.workspace.folder()));
    let leadership = node.map_or_else(|| watch::channel(true).1, ClusterNode::leadership);
    let (dispatcher, workspace) = (core.dispatcher.clone(), core.workspace.clone());
    let (zone, output) = (core.config.time_zone.clone(), core.config.discord.output_channel);
    LeaderOnly::run(leadership, file, move || {
        let (dispatcher, workspace) = (dispatcher.clone(), workspace.clone());
        let zone = zone.clone();
        async move { Scheduler::new(&dispatcher, workspace, zone, output).await.run() }
    })
}

/// Logs the effect of a missing Message Content Intent: people must mention the bot.
fn log_required_mentions(config: &Config) {
    let channels = survey::without_mention(config);
    if channels.is_empty() {
        tracing::info!(
            "Message Content Intent is off: people must mention the bot, in its threads too"
        );
    } else {
        tracing::warn!(
            ?channels,
            "Message Content Intent is off, so `require-mention: no` does not work in these channels; switch it on at https://discord.com/developers/applications, your application, page Bot"
        );
    }
}

fn refused(error: StartError) -> StartRefusal {
    let code = match error {
        StartError::NoToken | StartError::BadToken(_) | StartError::Untrusted { .. } => {
            exit::CONFIG
        }
        StartError::TokenRefused | StartError::Intents(_) => exit::NO_PERMISSION,
        StartError::Unreachable { .. } => exit::TEMPORARY,
    };
    StartRefusal::because(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unreachable_discord_is_a_temporary_error() {
        let base = || "https://discord.com".to_owned();
        let cases = [
            (
                StartError::Unreachable {
                    base: base(),
                    why: "discord was not reachable for 60 s".to_owned(),
                },
                exit::TEMPORARY,
            ),
            (
                StartError::Untrusted { base: base(), why: "invalid peer certificate".to_owned() },
                exit::CONFIG,
            ),
            (StartError::NoToken, exit::CONFIG),
            (StartError::BadToken("leave the word `Bot` out"), exit::CONFIG),
            (StartError::TokenRefused, exit::NO_PERMISSION),
            (StartError::Intents(4014), exit::NO_PERMISSION),
        ];
        for (error, code) in cases {
            let refused = refused(error);
            assert_eq!(refused.code, code, "{:?}", refused.faults);
            assert!(refused.faults[0].message.contains("hint: "), "{:?}", refused.faults);
        }
    }
}
