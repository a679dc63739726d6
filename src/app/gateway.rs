//! The gateway: starts, runs and drains.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::cluster::WithSeat;
use super::core::Core;
use super::phase::Phase;
use super::process::Process;
use super::service_manager::Watchdog;
use super::shutdown::Shutdown;
use super::signals::End;
use super::{deserted, hooks};
use crate::cli::exit;
use crate::discord::Listening;
use crate::process::holder::HeldLauncher;
use crate::startup::settings::Settings;
use crate::web::dashboard::Dashboard;
use crate::workspace::Lock;

/// A running gateway.
pub(super) struct Gateway {
    pub(super) core: Core,
    pub(super) listening: Listening,
    pub(super) dashboard: Option<Dashboard>,
    pub(super) schedules: WithSeat,
    pub(super) recovery: JoinHandle<()>,
    pub(super) lock: Arc<Lock>,
    /// Instructions for the agent if this is the first start.
    pub(super) instructions: Option<String>,
    /// Feeds the service manager's watchdog until the program ends.
    pub(super) watchdog: Option<Watchdog>,
    pub(super) heartbeat: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Runs until a signal arrives, Discord rejects the bot, or a task ends that the program
    /// needs. Returns the exit code and how to end.
    pub(super) async fn run(&mut self) -> (u8, End) {
        let process = &mut self.core.process;
        tracing::info!(
            ready_ms = u64::try_from(process.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            "aetheel is ready"
        );
        process.phase.send_replace(Phase::Ready);
        self.watchdog = Some(process.system.ready(process.health.clone()));
        let beating = process.liveness.beat(self.listening.pulses(), Arc::clone(&self.lock));
        self.heartbeat = Some(beating);
        hooks::started(&self.core.dispatcher, &self.core.workspace, self.instructions.take()).await;
        tokio::select! {
            end = process.signals.next() => {
                (if end == End::Upgrade { exit::TEMPORARY } else { exit::OK }, end)
            }
            code = deserted() => (code, End::HandOver),
            error = self.listening.failed() => {
                tracing::error!("{error}");
                (exit::NO_PERMISSION, End::Stop)
            }
        }
    }

    /// Closes the intake, then ends running turns or leaves them to the holder. Returns the exit
    /// code.
    pub(super) async fn drain(self, code: u8, end: End) -> u8 {
        let Self { mut core, listening, dashboard, schedules, recovery, .. } = self;
        tracing::info!("shutdown: begins");
        let stop_limit = core.stop_limit();
        let Process { mut signals, supervision, phase, liveness, system, .. } = core.process;
        phase.send_replace(Phase::Draining);
        // Tasks that end from here on end on purpose.
        drop(supervision);
        if let Some(heartbeat) = self.heartbeat {
            heartbeat.abort();
        }
        liveness.rest();
        system.stopping();
        let hands_over = end != End::Stop && core.held.as_ref().is_some_and(HeldLauncher::is_apart);
        if let Some(place) = &mut core.place {
            place.stop_intake().await;
        }
        listening.stop_intake(hands_over);
        core.webhooks.stop_intake();
        drop(dashboard);
        schedules.stop().await;
        recovery.abort();
        tracing::info!("shutdown: intake closed");
        let ending = Shutdown {
            dispatcher: core.dispatcher,
            workspace: core.workspace,
            listening,
            webhooks: core.webhooks,
            guard: core.guard,
            held: core.held,
            place: core.place,
            // After a fault of the program, waiting for turns would only delay the restart.
            grace: if code == exit::SOFTWARE { Duration::ZERO } else { core.config.shutdown_grace },
            stop_limit,
            code,
        };
        if hands_over {
            ending.hand_over(&mut signals).await;
        }
        ending.stop(&mut signals).await
    }
}
