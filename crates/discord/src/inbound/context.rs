//! The parts of the bot that the processing of events shares.

use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc;

use super::{ChannelQueues, InboundEvent};
use crate::access::lookups::LookupCache;
use crate::access::user_permissions::PermissionCache;
use crate::connection::gateway_event::GatewayEvent;
use crate::connection::receipt::Receipt;
use crate::panel::dashboard::SignInService;

/// The parts of the bot that the processing of events shares.
#[derive(Default)]
pub(crate) struct InboundContext {
    pub(crate) permission_cache: PermissionCache,
    pub(crate) lookups: Arc<LookupCache>,
    pub(crate) channel_queues: Arc<ChannelQueues>,
    /// Sends events to an `InboundProcessor`. Set by [`crate::Discord::listen`].
    pub(crate) events: OnceLock<mpsc::UnboundedSender<(InboundEvent, Receipt)>>,
    /// Sends the events of other nodes to the router. Set by [`crate::Discord::share_events`].
    pub(crate) from_nodes: OnceLock<mpsc::UnboundedSender<(GatewayEvent, Receipt)>>,
    /// Signs people in to the dashboard. Set by [`crate::Discord::set_sign_in`].
    pub(crate) sign_in: OnceLock<Arc<dyn SignInService>>,
}
