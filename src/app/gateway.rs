//! The gateway: starts, runs and drains.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::core::Core;
use super::dashboard::Dashboard;
use super::leader_schedules::LeaderOnly;
use super::phase::ProgramPhase;
use super::process::GatewayProcess;
use super::service_manager::Watchdog;
use super::shutdown::Shutdown;
use super::signals::ShutdownMode;
use super::{critical_task_ended, hooks};
use crate::cli::exit;
use crate::sources::RunningSchedules;
use aetheel_discord::GatewayListener;
use aetheel_process::holder::HeldLauncher;
use aetheel_store::workspace::{GatewayReport, Lock};

pub(super) struct Gateway {
    pub(super) core: Core,
    pub(super) listening: GatewayListener,
    pub(super) dashboard: Option<Dashboard>,
    pub(super) schedules: LeaderOnly,
    pub(super) later_turns: RunningSchedules,
    pub(super) recovery: JoinHandle<()>,
    pub(super) mending: JoinHandle<()>,
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
    pub(super) async fn run(&mut self) -> (u8, ShutdownMode) {
        let process = &mut self.core.process;
        tracing::info!(
            ready_ms = u64::try_from(process.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            "aetheel is ready"
        );
        process.phase.send_replace(ProgramPhase::Ready);
        self.watchdog = Some(process.service_manager.ready(process.health.clone()));
        let health = process.health.clone();
        let at_start = GatewayReport::of_this_process();
        let report = move || health.report(at_start.clone());
        let lock = Arc::clone(&self.lock);
        let beating = process.liveness.start(self.listening.pulses(), lock, report);
        self.heartbeat = Some(beating);
        hooks::started(
            &self.core.dispatcher.intake,
            &self.core.workspace,
            self.instructions.take(),
        )
        .await;
        tokio::select! {
            end = process.signals.next() => {
                (if end == ShutdownMode::Upgrade { exit::TEMPORARY } else { exit::OK }, end)
            }
            code = critical_task_ended() => (code, ShutdownMode::HandOver),
            error = self.listening.failed() => {
                tracing::error!("{error}");
                (exit::NO_PERMISSION, ShutdownMode::Stop)
            }
        }
    }

    /// Closes the intake, then ends running turns or leaves them to the holder. Returns the exit
    /// code.
    pub(super) async fn drain(self, code: u8, end: ShutdownMode) -> u8 {
        let Self {
            mut core, listening, dashboard, schedules, later_turns, recovery, mending, ..
        } = self;
        tracing::info!("shutdown: begins");
        let stop_limit = core.stop_limit();
        let GatewayProcess {
            mut signals,
            supervision,
            phase,
            liveness,
            service_manager: system,
            ..
        } = core.process;
        phase.send_replace(ProgramPhase::Draining);
        // Tasks that end from here on end on purpose.
        drop(supervision);
        if let Some(heartbeat) = self.heartbeat {
            heartbeat.abort();
        }
        liveness.stop();
        system.stopping();
        let hands_over =
            end != ShutdownMode::Stop && core.held.as_ref().is_some_and(HeldLauncher::is_apart);
        if let Some(node) = &mut core.node {
            node.stop_intake().await;
        }
        listening.stop_intake(hands_over);
        core.webhooks.stop_intake();
        drop(dashboard);
        schedules.stop().await;
        later_turns.stop().await;
        recovery.abort();
        mending.abort();
        tracing::info!("shutdown: intake closed");
        let ending = Shutdown {
            dispatcher: core.dispatcher,
            workspace: core.workspace,
            listening,
            webhooks: core.webhooks,
            drain: core.drain,
            held: core.held,
            node: core.node,
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
