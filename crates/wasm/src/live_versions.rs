//! The versions in development that serve one channel each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::component::ComponentBackend;
use aetheel_model::id::ChannelId;
use aetheel_store::disk::Stamp;
use aetheel_store::workspace::LiveFolder;

/// The versions in development. Only the loader replaces them. Readers never wait.
pub(super) type LiveVersions = ArcSwap<Vec<LiveVersion>>;

/// A version in development that serves its channel.
#[derive(Clone)]
pub(super) struct LiveVersion {
    pub(super) name: String,
    pub(super) channel: ChannelId,
    pub(super) backend: Arc<ComponentBackend>,
    pub(super) path: PathBuf,
}

/// The loader's state of the versions in development.
pub(super) struct LiveLoader {
    /// The folder, once it is followed.
    pub(super) folder: Option<LiveFolder>,
    pub(super) versions: Arc<LiveVersions>,
    pub(super) checked: BTreeMap<PathBuf, Stamp>,
}

impl LiveLoader {
    pub(super) fn new(versions: Arc<LiveVersions>) -> Self {
        Self { folder: None, versions, checked: BTreeMap::new() }
    }

    pub(super) fn replace(&self, path: &PathBuf, version: Option<LiveVersion>) {
        let mut next = Vec::clone(&self.versions.load());
        next.retain(|known| known.path != *path);
        next.extend(version);
        self.versions.store(Arc::new(next));
    }
}
