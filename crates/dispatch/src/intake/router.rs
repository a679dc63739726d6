//! Events of lanes that another node of the cluster serves.

use super::Accepted;
use super::Intake;
use crate::outlet::messages::PromptRefusal;
use aetheel_model::event::{EventKind, NewEvent, Sequence};
use aetheel_model::id::ChannelId;
use aetheel_runtime::figures;

/// The node that an event was submitted to.
#[derive(Debug)]
pub enum Placement {
    /// This node accepted the event.
    Local(Accepted),
    /// The event is saved, and will be sent to another node.
    Remote,
}

impl Placement {
    /// Waits until the event is on disk. Returns the number of the event, or `None` for an event of
    /// another node, which assigns the number.
    ///
    /// # Errors
    /// See [`Accepted::wait_until_saved`].
    pub async fn wait_until_saved(self) -> Result<Option<Sequence>, PromptRefusal> {
        match self {
            Self::Local(accepted) => accepted.wait_until_saved().await.map(Some),
            Self::Remote => Ok(None),
        }
    }
}

impl Intake {
    /// Accepts an event here, or sends it to the node that serves its lane.
    ///
    /// # Errors
    /// [`PromptRefusal`], worded for the person who asked. A refused event is not saved.
    pub async fn submit_or_route(&self, event: NewEvent) -> Result<Placement, PromptRefusal> {
        let Some(router) = self.shared.deps.router.clone() else {
            return self.submit(event).map(Placement::Local);
        };
        // This node may have accepted the event before the lane moved to another node.
        if self.shared.durability.is_known(&event) {
            return Err(PromptRefusal::Known);
        }
        if !router.is_remote(&event) {
            return self.submit(event).map(Placement::Local);
        }
        let (lane, kind) = (event.lane.clone(), event.kind);
        router.send(event).await?;
        tracing::info!(%lane, ?kind, "event sent to the node that has its lane");
        Ok(Placement::Remote)
    }

    /// Returns whether this node serves a channel or thread, so that it may accept messages that no
    /// other node sent to it. Always true without a cluster.
    pub async fn serves(&self, channel: ChannelId) -> bool {
        match self.shared.deps.router.clone() {
            Some(router) => router.serves(channel).await,
            None => true,
        }
    }

    /// Accepts an event that another node sent here. Returns `None` for a heartbeat or cron job
    /// that is skipped because the previous one still runs or waits.
    ///
    /// # Errors
    /// See [`Intake::submit`].
    pub fn submit_routed(&self, event: NewEvent) -> Result<Option<Accepted>, PromptRefusal> {
        let comes_round = matches!(event.kind, EventKind::Heartbeat | EventKind::Cron);
        if comes_round
            && self.shared.lanes.is_busy(&event.lane)
            && !self.shared.durability.is_known(&event)
        {
            tracing::info!(lane = %event.lane, reason = "busy", "skipped: the previous one still runs or waits");
            figures::schedule_skipped(event.kind, "busy", 1);
            return Ok(None);
        }
        self.submit(event).map(Some)
    }
}
