//! Recovers lost replies when a newer backend is loaded or `aetheel recover` asks for it.
//!
//! A reply is lost if no backend could read the agent's output. Its recording is read again with
//! each newer version of its backend.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::time::MissedTickBehavior;

use crate::agents::AgentRegistry;
use aetheel_dispatch::Dispatcher;
use aetheel_model::plain::with_causes;
use aetheel_store::workspace::LostTurns;
use aetheel_wasm::LoadReport;

/// How often the gateway checks for a request of `aetheel recover`.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of checks after which all lost turns are read again. A turn may have been lost while its
/// backend was replaced, and a profile may have changed.
const POLLS_PER_FULL_PASS: u32 = 30;

/// Reads the lost turns of a console again, at the start and after each load of a backend. Returns
/// only if the registry is dropped; the caller aborts it.
pub async fn watch(dispatcher: Dispatcher, agents: Arc<AgentRegistry>) {
    let Dispatcher { redelivery, waits, .. } = dispatcher;
    let mut news = agents.load_reports();
    redelivery.reread_lost(None).await;
    loop {
        match news.recv().await {
            Ok(LoadReport::Loaded { name, .. }) => {
                waits.check_again();
                redelivery.reread_lost(Some(&agents.backends_of(&name))).await
            }
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => redelivery.reread_lost(None).await,
            Err(RecvError::Closed) => return,
        }
    }
}

/// Reads lost turns again after each load of a backend, and delivers the replies that
/// `aetheel recover` requests. Returns only if the registry is dropped; the caller aborts it.
pub async fn follow(dispatcher: Dispatcher, agents: Arc<AgentRegistry>, lost: LostTurns) {
    let Dispatcher { redelivery, backends, waits, .. } = dispatcher;
    let mut news = agents.load_reports();
    let mut look = tokio::time::interval(POLL_INTERVAL);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looks = 0;
    loop {
        tokio::select! {
            report = news.recv() => match report {
                Ok(LoadReport::Loaded { name, .. }) => {
                    let served = agents.backends_of(&name);
                    backends.upgrade_turns(&served);
                    waits.check_again();
                    redelivery.reread_lost(Some(&served)).await;
                }
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => redelivery.reread_lost(None).await,
                Err(RecvError::Closed) => return,
            },
            _ = look.tick() => {
                if looks % POLLS_PER_FULL_PASS == 0 {
                    redelivery.reread_lost(None).await;
                }
                looks += 1;
                if let Some(turns) = lost.requested().await {
                    tracing::info!(turns = turns.len(), "delivering lost replies, as another program requested");
                    redelivery.deliver_all(&turns).await;
                    if let Err(error) = lost.request_done().await {
                        tracing::warn!(error = %with_causes(&error), "cannot remove the request to deliver lost replies; it will be processed again");
                    }
                }
            }
        }
    }
}
