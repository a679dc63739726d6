//! The database of the cluster, as the adapter of the chat platform uses it.

use async_trait::async_trait;

use crate::Cluster;
use crate::retry::until_answered;
use aetheel_dispatch::{ClusterMail, ClusterMessage, LoginHistory};
use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;

/// Sends the events of the adapter to other nodes.
pub(super) struct ChatMail(pub(super) Cluster);

#[async_trait]
impl ClusterMail for ChatMail {
    async fn post(&self, messages: &[ClusterMessage]) -> bool {
        until_answered(|| self.0.post(messages)).await.is_some()
    }

    async fn broadcast(&self, kind: &str, body: &str) {
        until_answered(|| self.0.broadcast(kind, body)).await;
    }

    async fn find_root(&self, channel: ChannelId) -> Option<Lane> {
        until_answered(|| self.0.find_root(channel)).await.flatten()?.parse().ok()
    }
}

#[async_trait]
impl LoginHistory for ChatMail {
    async fn logins(&self) -> Vec<i64> {
        until_answered(|| self.0.logins()).await.unwrap_or_default()
    }

    async fn record_login(&self, at_ms: i64) {
        until_answered(|| self.0.record_login(at_ms)).await;
    }
}
