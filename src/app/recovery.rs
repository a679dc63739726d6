//! Following what lost replies wait for: newer backends, and the wish of `aetheel recover`.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::time::MissedTickBehavior;

use crate::agents::AgentRegistry;
use crate::backend::LoadReport;
use crate::dispatch::Dispatcher;
use crate::workspace::LostTurns;

/// How often the request of another program is looked for.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Looks after which everything is gone through: a turn may have been lost while its backend was
/// replaced, and a profile may have changed.
const EVERYTHING: u32 = 30;

/// Reads a console's lost turns again: now, and as newer backends come. Never returns; to be
/// aborted.
pub async fn watch(dispatcher: Dispatcher, agents: Arc<AgentRegistry>) {
    let mut news = agents.news();
    dispatcher.reread(None).await;
    loop {
        match news.recv().await {
            Ok(LoadReport::Loaded { name, .. }) => {
                dispatcher.reread(Some(&agents.served_by(&name))).await
            }
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => dispatcher.reread(None).await,
            Err(RecvError::Closed) => return,
        }
    }
}

/// Reads lost turns again as newer backends come, and delivers what another program asks for. Never
/// returns; to be aborted.
pub async fn follow(dispatcher: Dispatcher, agents: Arc<AgentRegistry>, lost: LostTurns) {
    let mut news = agents.news();
    let mut look = tokio::time::interval(LOOK_INTERVAL);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looks = 0;
    loop {
        tokio::select! {
            report = news.recv() => match report {
                Ok(LoadReport::Loaded { name, .. }) => {
                    let served = agents.served_by(&name);
                    dispatcher.renew(&served);
                    dispatcher.reread(Some(&served)).await;
                }
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => dispatcher.reread(None).await,
                Err(RecvError::Closed) => return,
            },
            _ = look.tick() => {
                if looks % EVERYTHING == 0 {
                    dispatcher.reread(None).await;
                }
                looks += 1;
                if let Some(turns) = lost.requested().await {
                    tracing::info!(turns = turns.len(), "lost replies are to be delivered, as another program asks");
                    dispatcher.deliver_all(&turns).await;
                    if let Err(error) = lost.request_done().await {
                        tracing::warn!(%error, "the request to deliver lost replies stays; it will be looked at again");
                    }
                }
            }
        }
    }
}
