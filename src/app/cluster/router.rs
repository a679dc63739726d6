//! Sends events of webhooks and schedules to the node that has their lane.

use std::time::Duration;

use async_trait::async_trait;

use super::mail::{patiently, root_of};
use crate::cluster::{Cluster, Letter, Owner};
use crate::dispatch::{Refusal, Router};
use crate::event::NewEvent;
use crate::startup::clustering::EVENT;
use crate::workspace::Workspace;

/// Time between two looks at a lane that is on its way to or from this node.
const MOVING_INTERVAL: Duration = Duration::from_millis(250);

/// Router for a node of a cluster.
pub(super) struct ToNodes {
    pub(super) cluster: Cluster,
    pub(super) workspace: Workspace,
}

#[async_trait]
impl Router for ToNodes {
    fn elsewhere(&self, event: &NewEvent) -> bool {
        !self.cluster.has(&root_of(&event.lane))
    }

    async fn serves(&self, channel: u64) -> bool {
        loop {
            match patiently!(self.cluster.owner_of(channel)) {
                Some(Owner::Here) => return true,
                Some(Owner::Moving) => tokio::time::sleep(MOVING_INTERVAL).await,
                Some(Owner::Nobody(root)) => {
                    let roots = [root];
                    patiently!(self.cluster.claim(&roots));
                }
                Some(Owner::Another) | None => return false,
            }
        }
    }

    async fn send(&self, event: NewEvent) -> Result<(), Refusal> {
        let body = serde_json::to_string(&event).map_err(|_| Refusal::NotSaved)?;
        let key = event.key.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let letters = [Letter {
            key,
            root: root_of(&event.lane),
            thread: None,
            kind: EVENT.to_owned(),
            body,
            label: self.workspace.channels().await.of(&event.lane).node,
        }];
        patiently!(self.cluster.post(&letters)).ok_or(Refusal::NotSaved)
    }
}
