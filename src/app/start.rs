//! The start of the gateway, in three steps: connect, recover, listen.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::cluster::{Place, WithSeat};
use super::core::Core;
use super::gateway::Gateway;
use super::health::Watched;
use super::phase::Phase;
use super::process::Process;
use super::service_manager::Watchdog;
use super::webhooks::Waiting;
use super::{dashboard, deserted, recovery};
use crate::agents::acceptance::Acceptance;
use crate::cli::exit;
use crate::config::Config;
use crate::discord::{Accept, Discord, Listening, Options, Sharing, StartError};
use crate::dispatch::Dispatcher;
use crate::kit::machine::Machine;
use crate::process::holder::HeldLauncher;
use crate::progress;
use crate::redact::Redactor;
use crate::sources::Schedules;
use crate::startup::settings::Settings;
use crate::startup::{Installer, Prepared, Purpose, Refused, ShutdownGuard, survey};
use crate::turn::Backends;
use crate::vigil;
use crate::workspace::{Booted, Lock, Workspace};

impl Gateway {
    /// Prepares everything, connects to Discord, recovers the events of the previous process, and
    /// begins to read prompts.
    ///
    /// # Errors
    /// Returns the exit code if something prevents the start or a signal arrives first. The reason
    /// is in the log.
    pub(super) async fn start(mut process: Process, settings: Settings) -> Result<Self, u8> {
        let ready = || process.system.ready(process.health.clone());
        let connected = tokio::select! {
            connected = Connected::connect(settings, &process.phase, ready) => {
                connected.map_err(|refused| refused.print())?
            }
            _ = process.signals.next() => return Err(exit::OK),
            code = deserted() => return Err(code),
        };
        connected.recover(process).await.listen().await
    }
}

/// Everything that must exist before the gateway reads prompts.
pub(super) struct Connected {
    prepared: Prepared,
    booted: Booted,
    discord: Discord,
    webhooks: Waiting,
    dashboard: Option<dashboard::Ready>,
    /// Held until the program ends.
    lock: Lock,
    held: Option<HeldLauncher>,
    place: Option<Place>,
}

impl Connected {
    /// Prepares everything and connects to Discord.
    pub(super) async fn connect(
        settings: Settings,
        phase: &watch::Sender<Phase>,
        ready: impl Fn() -> Watchdog,
    ) -> Result<Self, Refused> {
        let mut prepared = Prepared::prepare(settings, Purpose::Serve).await?;
        let mut joining = None;
        let (lock, cluster) = prepared
            .keep_events(|| {
                phase.send_replace(Phase::Joining);
                joining = Some(ready());
            })
            .await?;
        phase.send_replace(Phase::Starting);
        drop(joining);
        let booted = prepared.boot().await?;
        let held = prepared.hold().await?;
        let mut options =
            Options::from_config(&prepared.config, prepared.redactor.clone()).map_err(refused)?;
        let place = cluster.map(|cluster| Place::keep(cluster, held.as_ref())).transpose()?;
        if let Some(place) = &place {
            options.lease = place.lease();
        }
        let webhooks = Waiting::bind(&prepared).await?;
        let dashboard = dashboard::bind(&prepared.config, &prepared.workspace).await?;
        let notes = prepared.workspace.discord_notes().clone();
        for (channel, message) in prepared.taken_messages() {
            // The previous process may have ended before it noted a message from the journal.
            notes.note(channel, message);
        }
        tracing::info!(address = options.api_base, "connecting to discord");
        let connecting = Discord::connect(options, notes);
        let discord =
            progress::logged("connecting to discord", connecting).await.map_err(refused)?;
        Ok(Self { prepared, booted, discord, webhooks, dashboard, lock, held, place })
    }

    /// Builds the dispatcher, and continues the events of the previous process before new ones
    /// arrive.
    pub(super) async fn recover(self, process: Process) -> Recovered {
        let Self { prepared, booted, discord, webhooks, dashboard, lock, held, mut place } = self;
        let (config, redactor) = (prepared.config.clone(), prepared.redactor.clone());
        if !discord.reads_everything() {
            log_required_mentions(&config);
        }
        let workspace = prepared.workspace.clone();
        let (agents, installer) = (prepared.agents(), prepared.installer());
        let router = place.as_ref().map(|place| place.router(&workspace));
        let (dispatcher, guard) = prepared.dispatcher(Arc::new(discord.clone()), router);
        dispatcher.revive().await;
        let saved = match &mut place {
            Some(place) => place.recover(&dispatcher).await,
            None => dispatcher.recover().await,
        };
        if saved && let Some(held) = &held {
            held.note_holder();
        }
        let webhooks = webhooks.serve(&dispatcher);
        let lost = workspace.lost_turns().clone();
        let following = recovery::follow(dispatcher.clone(), Arc::clone(&agents), lost);
        let recovery = vigil::task("lost replies", following);
        let accept = Acceptance::new(Arc::clone(&agents), &config.config_dir).by_button();
        process.health.know(Watched {
            dispatcher: dispatcher.clone(),
            discord: discord.clone(),
            agents: Arc::clone(&agents),
            backend: config.agent_backend.clone(),
            state: workspace.folder().join("state"),
        });
        let core = Core { process, config, dispatcher, workspace, webhooks, guard, held, place };
        let backends: Arc<dyn Backends> = agents;
        Recovered {
            core,
            discord,
            accept: Some(accept),
            backends,
            installer,
            redactor,
            dashboard,
            lock,
            recovery,
            instructions: booted.instructions,
        }
    }
}

/// A gateway that has recovered the events of the previous process, and reads no prompts yet.
pub(super) struct Recovered {
    core: Core,
    discord: Discord,
    accept: Option<Accept>,
    backends: Arc<dyn Backends>,
    installer: Installer,
    redactor: Redactor,
    dashboard: Option<dashboard::Ready>,
    lock: Lock,
    recovery: JoinHandle<()>,
    /// Instructions for the agent if this is the first start.
    instructions: Option<String>,
}

impl Recovered {
    /// Reads prompts from Discord, and opens webhooks, dashboard and schedules.
    ///
    /// # Errors
    /// Returns the exit code if Discord rejects the bot or a signal arrives first.
    pub(super) async fn listen(mut self) -> Result<Gateway, u8> {
        let (sharing, ends) = self.core.place.as_ref().map(Place::sharing).unzip();
        let listening = match self.listen_to_discord(sharing).await {
            Ok(listening) => listening,
            Err(code) => return Err(self.core.abandon(code).await),
        };
        let Self { mut core, discord, backends, installer, redactor, .. } = self;
        if let (Some(place), Some(ends)) = (&mut core.place, ends) {
            let agents = (Arc::clone(&backends), core.config.max_concurrent_queries);
            place.begin(ends, &core.dispatcher, (&core.workspace, &discord), agents);
            place.take_components(installer, core.config.limits.component);
        }
        core.webhooks.open().await;
        let rooms = dashboard::Rooms {
            discord,
            workspace: core.workspace.clone(),
            zone: core.config.time_zone.clone(),
            placed: core.config.output_channel.is_some(),
            machine: Machine::new(core.guard.recorder(), Arc::clone(&backends), redactor.clone()),
            backends,
            query_timeout: core.config.query_timeout,
            redactor,
        };
        let dashboard = self.dashboard.map(|bound| {
            let sharing = core.config.dashboard_sharing;
            dashboard::open(bound, &core.dispatcher, rooms, (&core.process.health, sharing))
        });
        Ok(Gateway {
            listening,
            dashboard,
            schedules: run_schedules(&core),
            recovery: self.recovery,
            lock: Arc::new(self.lock),
            instructions: self.instructions,
            watchdog: None,
            heartbeat: None,
            core,
        })
    }

    async fn listen_to_discord(&mut self, sharing: Option<Sharing>) -> Result<Listening, u8> {
        let accept = self.accept.take();
        let listening = self.discord.listen(self.core.dispatcher.clone(), accept, sharing);
        tokio::select! {
            listening = listening => listening.map_err(|error| refused(error).print()),
            _ = self.core.process.signals.next() => Err(exit::OK),
            code = deserted() => Err(code),
        }
    }
}

/// Runs the schedules while this node is the leader. Without a cluster, it always is.
fn run_schedules(core: &Core) -> WithSeat {
    let file = core.place.as_ref().map(|place| place.seat_file(core.workspace.folder()));
    let seat = core.place.as_ref().map_or_else(|| watch::channel(true).1, Place::seat);
    let (dispatcher, workspace) = (core.dispatcher.clone(), core.workspace.clone());
    let (zone, output) = (core.config.time_zone.clone(), core.config.output_channel);
    WithSeat::run(seat, file, move || {
        let (dispatcher, workspace) = (dispatcher.clone(), workspace.clone());
        let zone = zone.clone();
        async move { Schedules::new(dispatcher, workspace, zone, output).await.run() }
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

fn refused(error: StartError) -> Refused {
    let code = match error {
        StartError::NoToken | StartError::BadToken(_) | StartError::Untrusted { .. } => {
            exit::CONFIG
        }
        StartError::TokenRefused | StartError::Intents(_) => exit::NO_PERMISSION,
        StartError::Unreachable { .. } => exit::TEMPORARY,
    };
    Refused::because(code, error.to_string())
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
            assert!(refused.faults[0].contains("hint: "), "{:?}", refused.faults);
        }
    }
}
