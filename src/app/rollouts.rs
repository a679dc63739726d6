//! Follows the rollouts of new versions of backends, and lets owners decide about them with buttons.
//! Tested by `tests/gateway/rollout.rs`.

use std::sync::Arc;

use tokio::sync::broadcast::error::RecvError;

use crate::agents::AgentRegistry;
use aetheel_discord::OfferHandler;
use aetheel_dispatch::Rollouts;

/// Reports rollouts that begin and end, at the start and after each load of a component. Returns
/// only if the registry of components is dropped; the caller aborts it.
pub(super) async fn follow(rollouts: Rollouts, agents: Arc<AgentRegistry>) {
    let mut news = agents.load_reports();
    loop {
        rollouts.follow().await;
        match news.recv().await {
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Returns the handler of the buttons in Discord.
pub(super) fn by_button(rollouts: Rollouts) -> OfferHandler {
    OfferHandler::new(move |id, person| {
        let rollouts = rollouts.clone();
        async move { rollouts.press(&id, &person).await }
    })
}
