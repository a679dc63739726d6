//! Threads: each has a session of its own; the settings of its channel hold where it has none of its own.

use std::collections::BTreeMap;

use super::choices::names;
use super::{Dispatcher, Inner, lock};
use crate::event::Lane;
use crate::workspace::LaneSettings;

/// Threads remembered; a forgotten one is learned again with its next message.
const REMEMBERED: usize = 10_000;

impl Dispatcher {
    /// Learns that a channel is a thread of another one.
    pub fn learn(&self, channel: u64, parent: u64) {
        self.inner.learn(channel, parent);
    }

    /// Whether a lane was used before, or the operator wrote about it.
    pub async fn knows(&self, lane: &Lane) -> bool {
        let workspace = &self.inner.parts.workspace;
        self.is_busy(lane) || workspace.channels().await.lanes().any(|(known, _)| known == lane) || workspace.bindings().knows(lane).await
    }
}

impl Inner {
    pub(super) fn learn(&self, channel: u64, parent: u64) {
        let mut parents = lock(&self.parents);
        if parents.len() >= REMEMBERED {
            parents.clear();
        }
        parents.insert(channel, parent);
    }

    /// The lane of the channel that a lane's thread belongs to.
    pub(super) fn parent_of(&self, lane: &Lane) -> Option<Lane> {
        let Lane::Channel(channel) = lane else { return None };
        lock(&self.parents).get(channel).map(|parent| Lane::Channel(*parent))
    }

    /// Who answers in a lane, and what the operator wrote about it. What belongs to the thread goes before what belongs to
    /// its channel; of either, what people chose before what the operator wrote.
    pub(super) async fn backend_of(&self, lane: &Lane) -> (String, LaneSettings) {
        let (channels, bindings) = (self.parts.workspace.channels().await, self.parts.workspace.bindings());
        let mut settings = channels.of(lane);
        let mut name = bindings.active_backend(lane).await.or_else(|| settings.backend.clone());
        if let Some(parent) = self.parent_of(lane) {
            let above = channels.of(&parent);
            if name.is_none() {
                name = bindings.active_backend(&parent).await.or_else(|| above.backend.clone());
            }
            settings = settings.or(&above);
        }
        (name.unwrap_or_else(|| self.parts.choices.backend.clone()), settings)
    }

    /// What people chose for a lane and backend.
    pub(super) async fn chosen(&self, lane: &Lane, backend: &str) -> BTreeMap<String, String> {
        let bindings = self.parts.workspace.bindings();
        let mut own = bindings.get(lane, backend).await.settings;
        if let Some(parent) = self.parent_of(lane) {
            let mut above = bindings.get(&parent, backend).await.settings;
            for name in names::ALL {
                if let (false, Some(value)) = (own.contains_key(name), above.remove(name)) {
                    own.insert(name.to_owned(), value);
                }
            }
        }
        own
    }
}
