//! The parts of the bot that its logins share.

pub(crate) mod gateway;
pub(crate) mod gateway_event;
pub(crate) mod gateway_sink;
mod handler;
mod login;
pub(crate) mod permit;
pub(crate) mod phase;
pub(crate) mod receipt;
pub(crate) mod shards;
pub(crate) mod sharing;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::access::identity::Identity;
use crate::api::Api;
use crate::setup::options::DiscordOptions;
use shards::Shards;

/// The parts of the bot that its logins share.
pub(super) struct ConnectionContext {
    pub(super) options: Arc<DiscordOptions>,
    pub(super) api: Api,
    pub(super) identity: Arc<Identity>,
    /// Whether this node should be logged in.
    pub(super) logs_in: AtomicBool,
    pub(super) shards: Shards,
}
