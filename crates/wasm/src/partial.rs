//! Versions that serve a part of the lanes, beside the version that serves the rest.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::candidates::Successors;
use super::live_versions::LiveVersions;
use super::loader::LoaderRequest;
use aetheel_model::id::ChannelId;
use aetheel_recording::Backend;
use aetheel_store::workspace::LiveFolder;

/// The versions on rollout and in development.
pub struct PartialVersions {
    pub(super) successors: Arc<Successors>,
    pub(super) live: Arc<LiveVersions>,
    pub(super) requests: mpsc::UnboundedSender<LoaderRequest>,
}

impl PartialVersions {
    /// Returns the names of the backends with a new version on rollout.
    #[must_use]
    pub fn on_rollout(&self) -> Vec<String> {
        self.successors.load().keys().cloned().collect()
    }

    /// Returns the new version on rollout of a backend, ready to serve some lanes.
    #[must_use]
    pub fn successor(&self, name: &str) -> Option<Arc<dyn Backend>> {
        let successors = self.successors.load();
        Some(Arc::clone(&successors.get(name)?.backend) as Arc<dyn Backend>)
    }

    /// Returns the version in development of a backend that serves this channel.
    #[must_use]
    pub fn live(&self, name: &str, channel: ChannelId) -> Option<Arc<dyn Backend>> {
        let versions = self.live.load();
        let found = versions.iter().find(|it| it.name == name && it.channel == channel)?;
        Some(Arc::clone(&found.backend) as Arc<dyn Backend>)
    }

    /// Serves the versions in development of this folder from now on, each in its channel.
    pub fn follow_live(&self, folder: LiveFolder) {
        let _ = self.requests.send(LoaderRequest::FollowLive(folder)); // fails only while the loader ends
    }
}
