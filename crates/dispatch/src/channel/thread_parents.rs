//! The channels of known threads.

use std::collections::HashMap;

use parking_lot::Mutex;

use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;

/// The maximum number of remembered threads. A forgotten one is remembered at its next message.
const THREAD_LIMIT: usize = 10_000;

/// The channel of each known thread.
#[derive(Default)]
pub(crate) struct ThreadParents(Mutex<HashMap<ChannelId, ChannelId>>);

impl ThreadParents {
    /// Records that a channel is a thread of another channel.
    pub(crate) fn learn(&self, channel: ChannelId, parent: ChannelId) {
        let mut parents = self.0.lock();
        if parents.len() >= THREAD_LIMIT {
            parents.clear();
        }
        parents.insert(channel, parent);
    }

    /// Returns the lane of the channel that a thread's lane belongs to.
    pub(crate) fn of(&self, lane: &Lane) -> Option<Lane> {
        let Lane::Channel(channel) = lane else { return None };
        self.0.lock().get(channel).map(|parent| Lane::Channel(*parent))
    }
}
