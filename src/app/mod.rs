//! `aetheel run`: Discord, until a signal.

mod cluster;
mod dashboard;
pub mod health;
mod hooks;
pub mod liveness;
mod phase;
pub mod recovery;
pub mod service_manager;
mod shutdown;
mod signals;
mod webhooks;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::timeout;

use self::cluster::{Place, WithSeat};
use self::health::{ProgramHealth, Watched};
use self::liveness::Liveness;
use self::phase::Phase;
use self::service_manager::System;
use self::shutdown::{DELIVERY_GRACE, Shutdown, hand_back, leave};
use self::signals::{End, Signals};
use self::webhooks::Waiting;
use crate::agents::acceptance::Acceptance;
use crate::cli::exit;
use crate::config::Config;
use crate::discord::{Discord, Options, StartError};
use crate::kit::machine::Machine;
use crate::plain::with_causes;
use crate::process::holder::HeldLauncher;
use crate::sources::Schedules;
use crate::startup::settings::Settings;
use crate::startup::{Prepared, Purpose, Refused, survey};
use crate::terminal::fail;
use crate::turn::Backends;
use crate::vigil::{self, Fallen};
use crate::web::status::StatusPages;
use crate::{progress, telemetry};

/// Serves until a signal or until Discord refuses the bot for good; returns the exit code.
pub async fn serve(mut settings: Settings) -> u8 {
    let began = Instant::now();
    if let Err(fault) = telemetry::start(
        settings.config.log_format,
        &settings.config.log_level,
        settings.redactor.clone(),
    ) {
        fail(&fault);
        return exit::CONFIG;
    }
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!(%error, "cannot listen for signals");
            return exit::SOFTWARE;
        }
    };
    // Until this returns, whatever way: what ends after that ends with the program.
    let watch = vigil::keep();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "aetheel starts");
    let folder = &settings.folder;
    tracing::info!(
        folder = %folder.path.display(),
        why = %folder.by,
        settings = settings.env_file.as_ref().map(|file| tracing::field::display(file.display())),
        "configuration folder"
    );
    if let Some(hint) = folder.hint() {
        tracing::warn!("the configuration is in the working directory; hint: {hint}");
    }
    let phase = watch::Sender::new(Phase::Starting);
    let liveness = Liveness::default();
    let (health, system) =
        (ProgramHealth::new(phase.subscribe(), liveness.clone()), System::from_environment());
    let _pages = open_pages(settings.config.status_address, &health)
        .await
        .map_err(|fault| settings.unavailable.push(fault));
    let started = async {
        let mut prepared = Prepared::prepare(settings, Purpose::Serve).await?;
        let mut joining = None;
        let (lock, cluster) = prepared
            .keep_events(|| {
                phase.send_replace(Phase::Joining);
                joining = Some(system.ready(health.clone()));
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
            // The mark of a message that is safe may not have been written.
            notes.note(channel, message);
        }
        tracing::info!(address = options.api_base, "connecting to discord");
        let connecting = Discord::connect(options, notes);
        let discord =
            progress::logged("connecting to discord", connecting).await.map_err(refused)?;
        Ok::<_, Refused>((prepared, booted, discord, (webhooks, dashboard), (lock, held, place)))
    };
    // The lock is held to the end.
    let (prepared, booted, discord, (webhooks, dashboard), (lock, held, mut place)) = tokio::select! {
        started = started => match started {
            Ok(started) => started,
            Err(refused) => {
                return refused.print();
            }
        },
        _ = signals.next() => return exit::OK,
        code = deserted() => return code,
    };
    let (config, redactor) = (prepared.config.clone(), prepared.redactor.clone());
    if !discord.reads_everything() {
        tell_of_mentions(&config);
    }
    let workspace = prepared.workspace.clone();
    let (agents, state) = (prepared.agents(), workspace.folder().join("state"));
    let installer = prepared.installer();
    let router = place.as_ref().map(|place| place.router(&workspace));
    let (dispatcher, guard) = prepared.dispatcher(Arc::new(discord.clone()), router);
    // Before anything new comes: what was accepted earlier is first in its lane.
    dispatcher.revive().await;
    let saved = match &mut place {
        Some(place) => place.recover(&dispatcher).await,
        None => dispatcher.recover().await,
    };
    if saved && let Some(held) = &held {
        held.note_holder();
    }
    let webhooks = webhooks.serve(&dispatcher);
    let backend = config.agent_backend.clone();
    let backends: Arc<dyn Backends> = Arc::clone(&agents) as _;
    let seen = Arc::clone(&backends);
    let recovery = vigil::task(
        "lost replies",
        recovery::follow(dispatcher.clone(), Arc::clone(&agents), workspace.lost_turns().clone()),
    );
    let accept = Acceptance::new(Arc::clone(&agents), &config.config_dir).by_button();
    health.know(Watched {
        dispatcher: dispatcher.clone(),
        discord: discord.clone(),
        agents,
        backend,
        state,
    });
    let last = config.stop_grace * 2 + DELIVERY_GRACE;
    let (sharing, ends) = place.as_ref().map(Place::sharing).unzip();
    let listening = tokio::select! {
        listening = discord.listen(dispatcher.clone(), Some(accept), sharing) => listening.map_err(|error| {
            refused(error).print()
        }),
        _ = signals.next() => Err(exit::OK),
        code = deserted() => Err(code),
    };
    let listening = match listening {
        Ok(listening) => listening,
        Err(code) => {
            if held.as_ref().is_some_and(HeldLauncher::is_apart) {
                hand_back(&dispatcher, guard, held, code).await;
            }
            let _ = timeout(last, dispatcher.shutdown(Duration::ZERO)).await;
            leave(held).await;
            guard.close().await;
            return code;
        }
    };
    if let (Some(place), Some(ends)) = (&mut place, ends) {
        let agents = (Arc::clone(&backends), config.max_concurrent_queries);
        place.begin(ends, &dispatcher, (&workspace, &discord), agents);
        place.take_components(installer, config.limits.component);
    }
    webhooks.open().await;
    let rooms = dashboard::Rooms {
        discord: discord.clone(),
        workspace: workspace.clone(),
        zone: config.time_zone.clone(),
        placed: config.output_channel.is_some(),
        machine: Machine::new(guard.recorder(), seen, redactor.clone()),
        backends,
        query_timeout: config.query_timeout,
        redactor,
    };
    let dashboard = dashboard.map(|bound| {
        dashboard::open(bound, &dispatcher, rooms, (&health, config.dashboard_sharing))
    });
    let schedules = {
        let file = place.as_ref().map(|place| place.seat_file(workspace.folder()));
        let (dispatcher, workspace) = (dispatcher.clone(), workspace.clone());
        let (zone, output) = (config.time_zone.clone(), config.output_channel);
        let begin = move || {
            let (dispatcher, workspace) = (dispatcher.clone(), workspace.clone());
            let zone = zone.clone();
            async move { Schedules::new(dispatcher, workspace, zone, output).await.run() }
        };
        // Alone, this machine has what only one node has.
        let seat = place.as_ref().map_or_else(|| watch::channel(true).1, Place::seat);
        WithSeat::run(seat, file, begin)
    };
    tracing::info!(
        ready_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        "aetheel is ready"
    );
    phase.send_replace(Phase::Ready);
    let _watchdog = system.ready(health.clone());
    let lock = Arc::new(lock);
    let beating = liveness.beat(listening.pulses(), Arc::clone(&lock));
    hooks::started(&dispatcher, &workspace, booted.instructions).await;
    let (code, end) = tokio::select! {
        end = signals.next() => (if end == End::Upgrade { exit::TEMPORARY } else { exit::OK }, end),
        code = deserted() => (code, End::HandOver),
        error = listening.failed() => {
            tracing::error!("{error}");
            (exit::NO_PERMISSION, End::Stop)
        }
    };
    tracing::info!("shutdown: begins");
    phase.send_replace(Phase::Draining);
    // What ends from here on is meant to.
    drop(watch);
    beating.abort();
    liveness.rest();
    system.stopping();
    let hands_over = end != End::Stop && held.as_ref().is_some_and(HeldLauncher::is_apart);
    if let Some(place) = &mut place {
        place.stop_intake().await;
    }
    listening.stop_intake(hands_over);
    webhooks.stop_intake();
    drop(dashboard);
    schedules.stop().await;
    recovery.abort();
    tracing::info!("shutdown: intake closed");
    let ending = Shutdown {
        dispatcher,
        workspace,
        listening,
        webhooks,
        guard,
        held,
        place,
        // Without something it cannot do without, waiting for turns would only make it later.
        grace: if code == exit::SOFTWARE { Duration::ZERO } else { config.shutdown_grace },
        stop_limit: last,
        code,
    };
    if hands_over {
        ending.hand_over(&mut signals).await;
    }
    ending.stop(&mut signals).await
}

/// Returns the exit code once something has ended that the program cannot do without.
async fn deserted() -> u8 {
    let Fallen { name, how } = vigil::fallen().await;
    tracing::error!(
        task = name,
        how,
        "something has ended that the program cannot do without; it leaves to be started again"
    );
    exit::SOFTWARE
}

/// Logs what the bot cannot read, because its application may not read every message.
fn tell_of_mentions(config: &Config) {
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

/// Opens the status pages, where the operator wants them.
async fn open_pages(
    address: Option<SocketAddr>,
    health: &ProgramHealth,
) -> Result<Option<StatusPages>, String> {
    let Some(wanted) = address else { return Ok(None) };
    match StatusPages::open(wanted, Arc::new(health.clone())).await {
        Ok(pages) => {
            tracing::info!(address = %pages.address, "status pages are open");
            Ok(Some(pages))
        }
        Err(error) => {
            let hint = "choose another address, or end whatever listens there";
            Err(format!("STATUS_ADDRESS: {}; {hint}", with_causes(&error)))
        }
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

    #[tokio::test]
    async fn the_end_of_what_it_cannot_do_without_is_70() {
        let _watch = vigil::keep();
        let _ = vigil::task("reception", async {}).await;
        assert_eq!(deserted().await, 70);
    }

    #[test]
    fn what_may_pass_by_itself_is_75_and_everything_else_needs_a_person() {
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
