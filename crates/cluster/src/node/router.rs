//! Sends events of webhooks and schedules to the node that has their lane.

use std::time::Duration;

use async_trait::async_trait;

use crate::mail::{EVENT_MESSAGE, FILE_NEWS};
use crate::retry::until_answered;
use crate::{Cluster, LaneOwner};
use aetheel_dispatch::{ClusterBudgets, ClusterMessage, PromptRefusal, Router};
use aetheel_model::event::NewEvent;
use aetheel_model::id::ChannelId;
use aetheel_store::workspace::Workspace;

/// Time between two checks of a lane that is on its way to or from this node.
const MOVING_POLL_INTERVAL: Duration = Duration::from_millis(250);

pub(super) struct ClusterRouter {
    pub(super) cluster: Cluster,
    pub(super) workspace: Workspace,
}

#[async_trait]
impl Router for ClusterRouter {
    fn is_remote(&self, event: &NewEvent) -> bool {
        !self.cluster.has_open_lane(&event.lane.to_string())
    }

    async fn serves(&self, channel: ChannelId) -> bool {
        loop {
            match until_answered(|| self.cluster.owner_of(channel)).await {
                Some(LaneOwner::ThisNode) => return true,
                Some(LaneOwner::Moving) => tokio::time::sleep(MOVING_POLL_INTERVAL).await,
                Some(LaneOwner::Unassigned(root)) => {
                    let roots = [root];
                    until_answered(|| self.cluster.claim(&roots)).await;
                }
                Some(LaneOwner::OtherNode) | None => return false,
            }
        }
    }

    async fn send(&self, event: NewEvent) -> Result<(), PromptRefusal> {
        let body = serde_json::to_string(&event).map_err(|_| PromptRefusal::NotSaved)?;
        let key = event.key.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let messages = [ClusterMessage {
            key,
            root: event.lane.to_string(),
            thread: None,
            kind: EVENT_MESSAGE.to_owned(),
            body,
            label: self.workspace.channels().await.of(&event.lane).node,
        }];
        until_answered(|| self.cluster.post(&messages)).await.ok_or(PromptRefusal::NotSaved)
    }

    fn cluster_budgets(&self) -> Option<&dyn ClusterBudgets> {
        Some(&self.cluster)
    }

    fn share_file_news(&self, news: String) {
        let cluster = self.cluster.clone();
        // A refusal is logged. News that arrive late are harmless.
        tokio::spawn(async move { until_answered(|| cluster.broadcast(FILE_NEWS, &news)).await });
    }
}
