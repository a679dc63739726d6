//! The ports between the nodes of a cluster and an adapter whose channels they divide.

use async_trait::async_trait;

use aetheel_model::event::Lane;
use aetheel_model::id::{ChannelId, MessageId};
use aetheel_store::workspace::FileError;

/// Selects channels.
pub type ChannelFilter<'a> = dyn Fn(ChannelId) -> bool + Send + Sync + 'a;

/// A message for the node that has a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMessage {
    /// Unique among the messages of the bot. A second message with the same key is dropped.
    pub key: String,
    /// The root of its lane.
    pub root: String,
    /// The thread of the lane that it is about, if any.
    pub thread: Option<ChannelId>,
    /// The type of its body.
    pub kind: String,
    /// The content, as JSON.
    pub body: String,
    /// The label that the lane's node should have.
    pub label: Option<String>,
}

/// The recent logins of the bot. After many logins, the next one has to wait.
#[async_trait]
pub trait LoginHistory: Send + Sync {
    /// Returns the times of the last logins, in milliseconds since 1970 and any order. Waits until
    /// they are known.
    async fn logins(&self) -> Vec<i64>;

    /// Records that the bot is about to log in. Returns once this is saved.
    async fn record_login(&self, at_ms: i64);
}

/// Sends the events of an adapter to the nodes that have their channels. Every method waits while
/// the database of the cluster is not available. The logins are those of all nodes.
#[async_trait]
pub trait ClusterMail: LoginHistory {
    /// Posts messages, in their order. Skips messages with a known key. Returns `false` if the
    /// database can never store at least one of them; then it stores none.
    async fn post(&self, messages: &[ClusterMessage]) -> bool;

    /// Posts a message to every node, including this one.
    async fn broadcast(&self, kind: &str, body: &str);

    /// Returns the lane of the channel that a channel or thread belongs to, or `None` if no message
    /// about it was posted yet.
    async fn find_root(&self, channel: ChannelId) -> Option<Lane>;
}

/// An adapter whose channels the nodes of a cluster divide.
#[async_trait]
pub trait ClusterChat: Send + Sync {
    /// Processes a message that a node posted. Calls `done` once the message cannot be lost any
    /// more; otherwise the next process receives it again. Returns `false` if this version cannot
    /// read the message.
    fn receive(&self, kind: &str, body: &str, done: Box<dyn FnOnce() + Send>) -> bool;

    /// Notifies the author of a message that its channel is closed because an agent may still run
    /// on another machine. `until` is the latest time at which the channel opens if that machine
    /// does not return, in seconds since 1970.
    async fn report_closed(&self, body: &str, until: i64);

    /// Limits this node to its share of the bot's requests, which `nodes` nodes divide equally.
    fn share_requests(&self, nodes: usize);

    /// Returns whether no event of these channels is being processed and none of them catches up.
    fn is_idle_in(&self, is_theirs: &ChannelFilter<'_>) -> bool;

    /// Returns the notes about channels, as lines that [`ClusterChat::import_channels`] reads on
    /// another node. Changes nothing.
    async fn export_channels(&self, is_theirs: &ChannelFilter<'_>) -> String;

    /// Removes the notes that [`ClusterChat::export_channels`] returned, because another node has
    /// them.
    ///
    /// # Errors
    /// [`FileError`]. The notes are removed in memory, and the file is saved with the next note.
    async fn forget_channels(&self, is_theirs: &ChannelFilter<'_>) -> Result<(), FileError>;

    /// Imports the notes of another node about channels, from its whole file or some lines of it.
    /// If both nodes have notes about a channel, the later message counts, so the import can be
    /// repeated. Open questions are closed, because their turns have ended. Returns the channels,
    /// for [`ClusterChat::catch_up`].
    ///
    /// # Errors
    /// [`FileError`]. The notes are used, but a crash may lose them.
    async fn import_channels(
        &self,
        body: &str,
        is_theirs: &ChannelFilter<'_>,
    ) -> Result<Vec<ChannelId>, FileError>;

    /// Records messages as handled, each with its channel. Returns the channels without earlier
    /// notes. Ignores messages of other chat platforms.
    fn mark_handled(&self, messages: &[(ChannelId, MessageId)]) -> Vec<ChannelId>;

    /// Handles the messages in these channels since the last handled one, which no node may have
    /// received while the channels moved.
    fn catch_up(&self, channels: Vec<ChannelId>);
}
