//! The shutdown of a gateway: its turns end with it, or a holder keeps their agents running for the
//! next start.

use std::time::Duration;

use tokio::time::timeout;

use super::cluster::ClusterNode;
use super::signals::Signals;
use super::webhooks::WebhookService;
use super::{audit, hooks};
use crate::cli::exit;
use crate::startup::DrainHandle;
use aetheel_discord::GatewayListener;
use aetheel_dispatch::Dispatcher;
use aetheel_process::holder::HeldLauncher;
use aetheel_store::workspace::Workspace;

/// Time limit for the delivery of the last answers, because Discord may not respond.
pub(super) const DELIVERY_GRACE: Duration = Duration::from_secs(10);

/// Parts of the gateway that are shut down in order after the intake is closed.
pub(super) struct Shutdown {
    pub(super) dispatcher: Dispatcher,
    pub(super) workspace: Workspace,
    pub(super) listening: GatewayListener,
    pub(super) webhooks: WebhookService,
    pub(super) drain: DrainHandle,
    pub(super) held: Option<HeldLauncher>,
    pub(super) node: Option<ClusterNode>,
    /// Time before running turns and the hook `shutdown` are stopped.
    pub(super) grace: Duration,
    /// Time for stopped turns to end and to deliver their answers.
    pub(super) stop_limit: Duration,
    /// Exit code of the program.
    pub(super) code: u8,
}

impl Shutdown {
    /// Leaves running agents to the holder and waiting events to the next start. Then exits. A node
    /// of a cluster without running turns leaves the cluster, unless a service manager starts it
    /// again.
    ///
    /// Waits for the hook `shutdown` before. A second signal ends that wait, a third one exits at
    /// once.
    #[expect(clippy::disallowed_methods, reason = "dropping a running turn would end its agent")]
    pub(super) async fn hand_over(self, signals: &mut Signals) -> ! {
        let Self { dispatcher, listening, .. } = &self;
        dispatcher.leave_waiting();
        let hook = hooks::stopping(&dispatcher.intake, &self.workspace).await;
        let mut delivery_grace = DELIVERY_GRACE;
        if hook.is_some() {
            // The hook may take a while. People who write now get a notice that the answer comes
            // later.
            listening.stop_intake(false);
        }
        tokio::select! {
            () = hooks::stopped(&dispatcher.turns, hook.as_ref(), self.grace) => {}
            _ = signals.next() => {
                tracing::warn!("shutdown: second signal, waiting neither for the hook nor for answers");
                delivery_grace = Duration::ZERO;
            }
        }
        let (dispatcher, stop_limit, code) = (dispatcher.clone(), self.stop_limit, self.code);
        let Self { listening, webhooks, drain, held, node, workspace, .. } = self;
        let rest = async {
            if let Some(lane) = &hook {
                // The next start cannot continue the hook `shutdown`.
                let _ = timeout(stop_limit, dispatcher.stop_for_shutdown(lane)).await;
            }
            tokio::join!(biased; dispatcher.leave_running(delivery_grace), listening.close());
            tracing::info!("shutdown: discord is closed");
            webhooks.close().await;
            drain.close().await;
            // After the last deliveries, so that only turns with agents count.
            let is_idle = dispatcher.observer.stats().running == 0;
            if let Some(node) = node.filter(|_| is_idle && code == exit::OK) {
                node.leave(workspace.folder()).await;
            }
            leave_holder(held).await;
            audit::close("continue").await;
        };
        tokio::select! {
            () = rest => {
                tracing::info!("shutdown: done; agents go on, and the next start takes them over");
            }
            _ = signals.next() => {
                tracing::warn!("shutdown: another signal, leaving at once; agents go on, and the next start takes them over");
            }
        }
        std::process::exit(code.into())
    }

    /// Ends running turns within the grace period, and then everything else. Returns the exit code.
    ///
    /// A second signal stops the turns at once, a third one returns without waiting for them.
    pub(super) async fn stop(self, signals: &mut Signals) -> u8 {
        let Self { dispatcher, workspace, listening, webhooks, drain, held, node, .. } = self;
        let (grace, stop_limit, code) = (self.grace, self.stop_limit, self.code);
        let in_order = async {
            // After `dispatcher.shutdown`, the hook would be refused too.
            let hook = hooks::stopping(&dispatcher.intake, &workspace).await;
            let turns = timeout(grace + stop_limit, dispatcher.shutdown(grace));
            tokio::join!(biased; hooks::stopped(&dispatcher.turns, hook.as_ref(), grace), turns).1
        };
        let ended = tokio::select! {
            ended = in_order => ended.is_ok(),
            _ = signals.next() => {
                tracing::warn!("shutdown: second signal, stopping turns now");
                tokio::select! {
                    ended = timeout(stop_limit, dispatcher.shutdown(Duration::ZERO)) => ended.is_ok(),
                    _ = signals.next() => {
                        tracing::warn!("shutdown: third signal, leaving at once; the next start ends the remaining agents");
                        return code;
                    }
                }
            }
        };
        if !ended {
            tracing::warn!(
                "shutdown: not every answer could be delivered; the recordings contain the answers of turns"
            );
        }
        webhooks.close().await;
        listening.close().await;
        tracing::info!("shutdown: discord is closed");
        leave_holder(held).await;
        drain.close().await;
        if let Some(node) = node {
            node.leave(workspace.folder()).await;
        }
        audit::close("ended").await;
        tracing::info!("shutdown: done");
        code
    }
}

/// Exits after a signal that arrived while the gateway was still connecting to Discord. Agents of
/// the previous gateway may be running; they stay with the holder.
#[expect(clippy::disallowed_methods, reason = "dropping a running turn would end its agent")]
pub(super) async fn leave_agents(
    dispatcher: &Dispatcher,
    drain: DrainHandle,
    held: Option<HeldLauncher>,
    code: u8,
) -> ! {
    dispatcher.leave_waiting();
    dispatcher.leave_running(DELIVERY_GRACE).await;
    drain.close().await;
    leave_holder(held).await;
    audit::close("continue").await;
    tracing::info!("shutdown: done; agents go on, and the next start takes them over");
    std::process::exit(code.into())
}

/// Disconnects from the holder, which keeps its agents running.
pub(super) async fn leave_holder(held: Option<HeldLauncher>) {
    if let Some(held) = held {
        held.leave().await;
    }
}
