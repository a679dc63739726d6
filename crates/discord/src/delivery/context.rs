//! The parts of the bot that everything it sends shares.

use std::sync::Arc;

use super::queue::DeliveryQueues;
use super::queue_marker::QueueMarkers;
use crate::access::identity::Identity;
use crate::api::Api;
use crate::api::interactions::Interactions;
use crate::notes::NotesCache;
use crate::questions::QuestionBoard;
use crate::rest::files::Fetcher;
use crate::setup::options::DiscordOptions;

/// The parts of the bot that everything it sends shares.
pub(crate) struct BotContext {
    pub(crate) options: Arc<DiscordOptions>,
    pub(crate) api: Api,
    pub(crate) identity: Arc<Identity>,
    pub(crate) interactions: Arc<Interactions>,
    pub(crate) queue_markers: Arc<QueueMarkers>,
    pub(crate) files: Fetcher,
    pub(crate) questions: Arc<QuestionBoard>,
    pub(crate) notes: Arc<NotesCache>,
    pub(crate) delivery_queues: DeliveryQueues,
    /// When this process connected, in milliseconds since 1970.
    pub(crate) started_ms: i64,
}
