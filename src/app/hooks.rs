//! Submits the hooks `startup` and `shutdown` (the operator's instructions to the agent for these
//! moments) and the instructions of the first start as events in lanes of their own. Tested by
//! `tests/gateway/hooks.rs`.

use std::time::Duration;

use tokio::time::timeout;

use aetheel_dispatch::{Intake, Turns};
use aetheel_model::event::{EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::id::ChannelId;
use aetheel_store::workspace::{Hook, Workspace};

/// Submits the instructions of the first start, if `first` has them, and saves that this was done.
/// Then fires the hook `startup`.
pub(super) async fn started(intake: &Intake, workspace: &Workspace, first: Option<String>) {
    if let Some(instructions) = first
        && submit(intake, first_start(instructions)).await
    {
        tracing::info!("boot: the agent gets the instructions for the first start");
        if let Err(error) = workspace.mark_instructed().await {
            tracing::error!(%error, "the next start will give the agent the instructions for the first start again");
        }
    }
    fire(intake, workspace, Hook::Startup).await;
}

/// Fires the hook `shutdown`. Returns its lane if the hook runs.
pub(super) async fn stopping(intake: &Intake, workspace: &Workspace) -> Option<Lane> {
    fire(intake, workspace, Hook::Shutdown).await.then(|| lane(Hook::Shutdown))
}

/// Waits until the hook `shutdown` has ended, but not longer than `grace`.
pub(super) async fn stopped(turns: &Turns, lane: Option<&Lane>, grace: Duration) {
    let Some(lane) = lane else { return };
    match timeout(grace, turns.lane_idle(lane)).await {
        Ok(()) => tracing::info!("shutdown: the hook has ended"),
        Err(_) => tracing::warn!(
            "shutdown: the hook did not end in time; raise SHUTDOWN_GRACE_MS or make it shorter"
        ),
    }
}

/// Submits a hook. Returns whether it has an instruction and was accepted.
async fn fire(intake: &Intake, workspace: &Workspace, hook: Hook) -> bool {
    let hooks = workspace.hooks().await;
    let instruction = hooks.of(hook);
    tracing::info!(hook = hook.name(), instructed = instruction.is_some(), "hook fired");
    match instruction {
        Some(instruction) => {
            submit(intake, event(hook, instruction.channel, instruction.text.clone())).await
        }
        None => false,
    }
}

/// Submits an event. Returns whether it was accepted and saved. The dispatcher logs refusals.
async fn submit(intake: &Intake, event: NewEvent) -> bool {
    match intake.submit(event) {
        Ok(accepted) => accepted.wait_until_saved().await.is_ok(),
        Err(_) => false,
    }
}

fn event(hook: Hook, channel: Option<ChannelId>, prompt: String) -> NewEvent {
    NewEvent::new(EventKind::Hook, lane(hook), EventOrigin::Internal { channel }, prompt)
}

/// Makes the event with the instructions of the first start. Its key makes it run again after a
/// crash; the key is new each time, because an operator can ask for the instructions again.
fn first_start(instructions: String) -> NewEvent {
    let key = Some(format!("boot:{}", uuid::Uuid::new_v4().simple()));
    NewEvent { key, ..event(Hook::Startup, None, instructions) }
}

fn lane(hook: Hook) -> Lane {
    Lane::Hook(hook.name().to_owned())
}
