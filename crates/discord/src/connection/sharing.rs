//! One bot on several nodes: the leader receives Discord's events, and each node handles the events
//! of its own channels.
//!
//! Passes events out of the connection. `router` processes those that come from other nodes.
//! [`Discord::share_events`](crate::Discord::share_events) exchanges them through the cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use super::gateway_event::{EventContent, GatewayEvent};
use super::gateway_sink::{EventCallback, GatewaySink};
use super::receipt::Receipt;
use crate::notes::NotesCache;
use aetheel_dispatch::{ClusterMail, LoginHistory};

/// Minimum time between two notifications of the other nodes, because permissions change in bursts.
const PERMISSIONS_INTERVAL: Duration = Duration::from_secs(1);

/// How nodes share the events of one bot.
pub struct EventSharing {
    /// Accepts the events that this node receives, in order.
    pub outgoing: mpsc::UnboundedSender<GatewayEvent>,
    /// Returns the events for this node, in order for each channel, including those that it
    /// received itself. This node processes only events from here.
    pub incoming: mpsc::UnboundedReceiver<(GatewayEvent, Receipt)>,
    /// Whether this node is the leader. It logs in when this becomes true, and out when it becomes
    /// false.
    pub leader: watch::Receiver<bool>,
    /// Counts logins over all nodes.
    pub logins: Arc<dyn LoginHistory>,
}

/// The other ends of the channels of an [`EventSharing`].
pub struct SharedEvents {
    pub(crate) outgoing: mpsc::UnboundedReceiver<GatewayEvent>,
    pub(crate) incoming: mpsc::UnboundedSender<(GatewayEvent, Receipt)>,
    pub(crate) nodes: Arc<dyn ClusterMail>,
}

impl EventSharing {
    /// Creates the channels of a node. `leader` says whether it is the leader.
    #[must_use]
    pub fn new(nodes: Arc<dyn ClusterMail>, leader: watch::Receiver<bool>) -> (Self, SharedEvents) {
        let (outgoing, events) = mpsc::unbounded_channel();
        let (messages, incoming) = mpsc::unbounded_channel();
        let sharing = Self { outgoing, incoming, leader, logins: Arc::clone(&nodes) as _ };
        (sharing, SharedEvents { outgoing: events, incoming: messages, nodes })
    }
}

#[async_trait]
impl LoginHistory for NotesCache {
    async fn logins(&self) -> Vec<i64> {
        Self::logins(self)
    }

    async fn record_login(&self, at_ms: i64) {
        Self::record_login(self, at_ms);
    }
}

/// Sends the events of logins to the nodes that serve their channels.
pub(crate) struct ClusterSink(mpsc::UnboundedSender<GatewayEvent>);

impl ClusterSink {
    pub(crate) fn new(to: mpsc::UnboundedSender<GatewayEvent>) -> Self {
        Self(to)
    }
}

impl GatewaySink for ClusterSink {
    fn open(&self) -> Result<EventCallback, reqwest::Error> {
        let out = EventForwarder::new(self.0.clone());
        Ok(Box::new(move |event| out.send(event)))
    }
}

/// Passes the events that a login receives to the nodes that serve their channels.
struct EventForwarder {
    to: mpsc::UnboundedSender<GatewayEvent>,
    permissions: Arc<Mutex<PermissionThrottle>>,
}

/// When the nodes were last notified of changed permissions, and whether another notification is
/// scheduled.
#[derive(Default)]
struct PermissionThrottle {
    at: Option<Instant>,
    scheduled: bool,
}

impl EventForwarder {
    fn new(to: mpsc::UnboundedSender<GatewayEvent>) -> Self {
        Self { to, permissions: Arc::default() }
    }

    /// Passes an event on. Must be called within a Tokio runtime.
    fn send(&self, event: GatewayEvent) {
        if !matches!(event.content, EventContent::PermissionsChanged(())) {
            // Sending fails only if the program ends.
            let _ = self.to.send(event);
            return;
        }
        let (now, mut throttle) = (Instant::now(), self.permissions.lock());
        if throttle.scheduled {
            return;
        }
        let wait = throttle.at.map_or(Duration::ZERO, |at| {
            PERMISSIONS_INTERVAL.saturating_sub(now.duration_since(at))
        });
        if wait.is_zero() {
            throttle.at = Some(now);
            let _ = self.to.send(event);
            return;
        }
        throttle.scheduled = true;
        let (to, permissions) = (self.to.clone(), Arc::clone(&self.permissions));
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            *permissions.lock() = PermissionThrottle { at: Some(Instant::now()), scheduled: false };
            let _ = to.send(event);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_a_burst_of_permission_changes_the_first_and_the_last_are_sent() {
        let (to, mut forwarded) = mpsc::unbounded_channel();
        let out = EventForwarder::new(to);
        for _ in 0..100 {
            out.send(GatewayEvent::permissions_changed());
        }
        out.send(GatewayEvent::for_all(EventContent::Resumed(())));
        let mut names = Vec::new();
        for _ in 0..3 {
            names.push(forwarded.recv().await.expect("open").key());
        }
        assert_eq!(names, ["permissions", "resumed", "permissions"]);
        out.send(GatewayEvent::for_all(EventContent::Resumed(())));
        assert_eq!(forwarded.recv().await.expect("open").key(), "resumed", "no third one");
    }
}
