//! The hooks of the gateway's own life, `startup` and `shutdown`, and the instructions of the first
//! start: events like any other, in lanes of their own. Pinned by `tests/gateway/hooks.rs`.

use std::time::Duration;

use tokio::time::timeout;

use crate::dispatch::Dispatcher;
use crate::event::{EventKind, Lane, NewEvent, Origin};
use crate::workspace::{Hook, Workspace};

/// Hands the agent the instructions of the first start, which they are noted to have been, and
/// fires the hook `startup` behind them.
pub(super) async fn started(dispatcher: &Dispatcher, workspace: &Workspace, first: Option<String>) {
    if let Some(instructions) = first
        && submit(dispatcher, first_start(instructions)).await
    {
        tracing::info!("boot: the agent gets the instructions for the first start");
        if let Err(error) = workspace.instructed().await {
            tracing::error!(%error, "the next start will give the agent the instructions for the first start again");
        }
    }
    fire(dispatcher, workspace, Hook::Startup).await;
}

/// Fires the hook `shutdown`; returns its lane if there is something to wait for.
pub(super) async fn stopping(dispatcher: &Dispatcher, workspace: &Workspace) -> Option<Lane> {
    fire(dispatcher, workspace, Hook::Shutdown).await.then(|| lane(Hook::Shutdown))
}

/// Waits for the hook `shutdown`, for as long as turns are waited for.
pub(super) async fn stopped(dispatcher: &Dispatcher, lane: Option<&Lane>, grace: Duration) {
    let Some(lane) = lane else { return };
    match timeout(grace, dispatcher.lane_idle(lane)).await {
        Ok(()) => tracing::info!("shutdown: the hook has ended"),
        Err(_) => tracing::warn!(
            "shutdown: the hook did not end in time; raise SHUTDOWN_GRACE_MS or make it shorter"
        ),
    }
}

/// Whether there is something to do, and it was taken.
async fn fire(dispatcher: &Dispatcher, workspace: &Workspace, hook: Hook) -> bool {
    let hooks = workspace.hooks().await;
    let instruction = hooks.of(hook);
    tracing::info!(hook = hook.name(), instructed = instruction.is_some(), "hook fired");
    match instruction {
        Some(instruction) => {
            submit(dispatcher, event(hook, instruction.channel, instruction.text.clone())).await
        }
        None => false,
    }
}

/// Refusals are in the log already.
async fn submit(dispatcher: &Dispatcher, event: NewEvent) -> bool {
    match dispatcher.submit(event) {
        Ok(accepted) => accepted.safe().await.is_ok(),
        Err(_) => false,
    }
}

fn event(hook: Hook, channel: Option<u64>, prompt: String) -> NewEvent {
    NewEvent::new(EventKind::Hook, lane(hook), Origin::Internal { channel }, prompt)
}

/// They are given once, so they must outlive a crash in the midst of them: with a key, another one
/// each time they are wanted.
fn first_start(instructions: String) -> NewEvent {
    let key = Some(format!("boot:{}", uuid::Uuid::new_v4().simple()));
    NewEvent { key, ..event(Hook::Startup, None, instructions) }
}

fn lane(hook: Hook) -> Lane {
    Lane::Hook(hook.name().to_owned())
}
