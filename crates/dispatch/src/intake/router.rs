//! Events of lanes that another node has, where several machines share a bot.

use super::Accepted;
use crate::Dispatcher;
use crate::outlet::messages::Refusal;
use aetheel_model::event::{EventKind, NewEvent, Sequence};
use aetheel_model::figures;

/// Where an event went.
#[derive(Debug)]
pub enum Placed {
    /// This node took it.
    Here(Accepted),
    /// It is safe, and on its way to another node.
    Elsewhere,
}

impl Placed {
    /// Waits until the event outlives the program. None: another node gives it its number.
    ///
    /// # Errors
    /// As [`Accepted::safe`].
    pub async fn safe(self) -> Result<Option<Sequence>, Refusal> {
        match self {
            Self::Here(accepted) => accepted.safe().await.map(Some),
            Self::Elsewhere => Ok(None),
        }
    }
}

impl Dispatcher {
    /// Accepts an event here, or sends it to the node that has its lane.
    ///
    /// # Errors
    /// [`Refusal`], in words for whoever asked; nothing was kept.
    pub async fn submit_anywhere(&self, event: NewEvent) -> Result<Placed, Refusal> {
        let Some(router) = self.inner.parts.router.clone() else {
            return self.submit(event).map(Placed::Here);
        };
        // One that this node took before the lane was another's is not done twice.
        if self.inner.durability.knows(&event) {
            return Err(Refusal::Known);
        }
        if !router.elsewhere(&event) {
            return self.submit(event).map(Placed::Here);
        }
        let (lane, kind) = (event.lane.clone(), event.kind);
        router.send(event).await?;
        tracing::info!(%lane, ?kind, "event sent to the node that has its lane");
        Ok(Placed::Elsewhere)
    }

    /// Returns whether messages of a channel or thread may be taken in here although nobody sent
    /// them to this node. Always true where one machine serves the bot.
    pub async fn serves(&self, channel: u64) -> bool {
        match self.inner.parts.router.clone() {
            Some(router) => router.serves(channel).await,
            None => true,
        }
    }

    /// Accepts an event that another node sent here. None: it comes round, and the one before still
    /// runs or waits.
    ///
    /// # Errors
    /// As [`Dispatcher::submit`].
    pub fn submit_sent(&self, event: NewEvent) -> Result<Option<Accepted>, Refusal> {
        let comes_round = matches!(event.kind, EventKind::Heartbeat | EventKind::Cron);
        if comes_round && self.is_busy(&event.lane) && !self.inner.durability.knows(&event) {
            tracing::info!(lane = %event.lane, reason = "busy", "skipped: the one before still runs or waits");
            figures::schedule_skipped(event.kind, "busy", 1);
            return Ok(None);
        }
        self.submit(event).map(Some)
    }
}
