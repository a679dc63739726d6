//! The parts of the bot that its logins share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::api::Api;
use super::identity::Identity;
use super::options::DiscordOptions;
use super::shards::Shards;

/// The parts of the bot that its logins share.
pub(super) struct ConnectionContext {
    pub(super) options: Arc<DiscordOptions>,
    pub(super) api: Api,
    pub(super) identity: Arc<Identity>,
    /// Whether this node should be logged in.
    pub(super) logs_in: AtomicBool,
    /// Which shards are connected.
    pub(super) shards: Shards,
}
