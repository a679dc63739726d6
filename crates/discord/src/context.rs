//! The parts of the bot that everything it sends shares.

use std::sync::Arc;

use super::api::Api;
use super::delivery_queue::DeliveryQueues;
use super::files::Fetcher;
use super::identity::Identity;
use super::interactions::Interactions;
use super::notes::NotesCache;
use super::options::DiscordOptions;
use super::questions::QuestionBoard;
use super::queue_marker::QueueMarkers;

/// The parts of the bot that everything it sends shares.
pub(super) struct BotContext {
    pub(super) options: Arc<DiscordOptions>,
    pub(super) api: Api,
    pub(super) identity: Arc<Identity>,
    pub(super) interactions: Arc<Interactions>,
    pub(super) queue_markers: Arc<QueueMarkers>,
    pub(super) files: Fetcher,
    pub(super) questions: Arc<QuestionBoard>,
    pub(super) notes: Arc<NotesCache>,
    pub(super) delivery_queues: DeliveryQueues,
    /// When this process connected, in milliseconds since 1970.
    pub(super) started_ms: i64,
}
