//! Events of lanes that another node of the cluster has.

use super::Accepted;
use crate::Dispatcher;
use crate::outlet::messages::Refusal;
use aetheel_model::event::{EventKind, NewEvent, Sequence};
use aetheel_model::figures;

/// The node that an event was submitted to.
#[derive(Debug)]
pub enum Placed {
    /// This node accepted the event.
    Here(Accepted),
    /// The event is saved, and will be sent to another node.
    Elsewhere,
}

impl Placed {
    /// Waits until the event is on disk. Returns `None` for an event of another node, which gives
    /// it its number.
    ///
    /// # Errors
    /// See [`Accepted::safe`].
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
    /// [`Refusal`], worded for the person who asked. A refused event is not saved.
    pub async fn submit_anywhere(&self, event: NewEvent) -> Result<Placed, Refusal> {
        let Some(router) = self.inner.parts.router.clone() else {
            return self.submit(event).map(Placed::Here);
        };
        // This node may have accepted the event before the lane moved to another node.
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

    /// Returns whether this node may accept messages of a channel or thread that no other node sent
    /// to it. Always true without a cluster.
    pub async fn serves(&self, channel: u64) -> bool {
        match self.inner.parts.router.clone() {
            Some(router) => router.serves(channel).await,
            None => true,
        }
    }

    /// Accepts an event that another node sent here. Returns `None` for a heartbeat or cron job
    /// that is skipped because the previous one still runs or waits.
    ///
    /// # Errors
    /// See [`Dispatcher::submit`].
    pub fn submit_sent(&self, event: NewEvent) -> Result<Option<Accepted>, Refusal> {
        let comes_round = matches!(event.kind, EventKind::Heartbeat | EventKind::Cron);
        if comes_round && self.is_busy(&event.lane) && !self.inner.durability.knows(&event) {
            tracing::info!(lane = %event.lane, reason = "busy", "skipped: the previous one still runs or waits");
            figures::schedule_skipped(event.kind, "busy", 1);
            return Ok(None);
        }
        self.submit(event).map(Some)
    }
}
