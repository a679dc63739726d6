//! The end of a gateway that served: either its turns end with it, or a holder keeps them for the
//! next start.

use std::time::Duration;

use tokio::time::timeout;

use super::cluster::Place;
use super::hooks;
use super::signals::Signals;
use super::webhooks::Listener;
use crate::discord::Listening;
use crate::dispatch::Dispatcher;
use crate::process::holder::HeldLauncher;
use crate::startup::ShutdownGuard;
use crate::workspace::Workspace;

/// Time for delivering the last answers; Discord may be out of order.
pub(super) const DELIVERY_GRACE: Duration = Duration::from_secs(10);

/// Parts of the gateway that end in order once intake is closed.
pub(super) struct Shutdown {
    pub(super) dispatcher: Dispatcher,
    pub(super) workspace: Workspace,
    pub(super) listening: Listening,
    pub(super) webhooks: Listener,
    pub(super) guard: ShutdownGuard,
    pub(super) held: Option<HeldLauncher>,
    pub(super) place: Option<Place>,
    /// Time for turns, and for the hook `shutdown`, before they are stopped.
    pub(super) grace: Duration,
    /// Time for turns to end once they are stopped, with their answers.
    pub(super) stop_limit: Duration,
    /// The exit code.
    pub(super) code: u8,
}

impl Shutdown {
    /// Leaves running turns to the holder and everything that waits to the next start, and ends the
    /// program. Waits for the hook `shutdown`; a second signal ends that, a third one everything.
    #[expect(clippy::disallowed_methods, reason = "dropping a running turn would end its agent")]
    pub(super) async fn hand_over(self, signals: &mut Signals) -> ! {
        let Self { dispatcher, listening, .. } = &self;
        dispatcher.leave_waiting();
        let hook = hooks::stopping(dispatcher, &self.workspace).await;
        let mut delivery_grace = DELIVERY_GRACE;
        if hook.is_some() {
            // It may take a while, so people who write now are told that the answer comes later.
            listening.stop_intake(false);
        }
        tokio::select! {
            () = hooks::stopped(dispatcher, hook.as_ref(), self.grace) => {}
            _ = signals.next() => {
                tracing::warn!("shutdown: second signal, waiting neither for the hook nor for answers");
                delivery_grace = Duration::ZERO;
            }
        }
        let (dispatcher, stop_limit, code) = (dispatcher.clone(), self.stop_limit, self.code);
        let Self { listening, webhooks, guard, held, place: _kept_until_the_exit, .. } = self;
        let rest = async {
            if let Some(lane) = &hook {
                // The next start would not know what to do with it.
                let _ = timeout(stop_limit, dispatcher.stop_for_shutdown(lane)).await;
            }
            tokio::join!(biased; dispatcher.leave_running(delivery_grace), listening.close());
            tracing::info!("shutdown: discord is closed");
            webhooks.close().await;
            guard.close().await;
            leave(held).await;
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

    /// Ends running turns, in the time they have, and everything else. A second signal stops turns
    /// at once, a third one ends the waiting for that.
    pub(super) async fn stop(self, signals: &mut Signals) -> u8 {
        let Self { dispatcher, workspace, listening, webhooks, guard, held, place, .. } = self;
        let (grace, stop_limit, code) = (self.grace, self.stop_limit, self.code);
        let in_order = async {
            // Before the dispatcher takes nothing more, its own hook included.
            let hook = hooks::stopping(&dispatcher, &workspace).await;
            let turns = timeout(grace + stop_limit, dispatcher.shutdown(grace));
            tokio::join!(biased; hooks::stopped(&dispatcher, hook.as_ref(), grace), turns).1
        };
        let ended = tokio::select! {
            ended = in_order => ended.is_ok(),
            _ = signals.next() => {
                tracing::warn!("shutdown: second signal, stopping turns now");
                tokio::select! {
                    ended = timeout(stop_limit, dispatcher.shutdown(Duration::ZERO)) => ended.is_ok(),
                    _ = signals.next() => {
                        tracing::warn!("shutdown: third signal, leaving at once; the next start ends what is left of agents");
                        return code;
                    }
                }
            }
        };
        if !ended {
            tracing::warn!(
                "shutdown: not every answer could be delivered; those of turns are in the recordings"
            );
        }
        webhooks.close().await;
        listening.close().await;
        tracing::info!("shutdown: discord is closed");
        leave(held).await;
        guard.close().await;
        if let Some(place) = place {
            place.leave(workspace.folder()).await;
        }
        tracing::info!("shutdown: done");
        code
    }
}

/// Ends the program before it served anybody: a signal came while it was still connecting to
/// Discord, and turns of an earlier gateway may be running.
#[expect(clippy::disallowed_methods, reason = "dropping a running turn would end its agent")]
pub(super) async fn hand_back(
    dispatcher: &Dispatcher,
    guard: ShutdownGuard,
    held: Option<HeldLauncher>,
    code: u8,
) -> ! {
    dispatcher.leave_waiting();
    dispatcher.leave_running(DELIVERY_GRACE).await;
    guard.close().await;
    leave(held).await;
    tracing::info!("shutdown: done; agents go on, and the next start takes them over");
    std::process::exit(code.into())
}

/// Leaves what a holder keeps to it.
pub(super) async fn leave(held: Option<HeldLauncher>) {
    if let Some(held) = held {
        held.leave().await;
    }
}
