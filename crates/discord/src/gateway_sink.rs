//! The destination of the events that logins receive: this node, or the nodes that serve the
//! channels of the events.

use tokio::sync::mpsc;

use super::gateway_event::GatewayEvent;
use super::handler::EventCallback;
use super::receipt::Receipt;
use super::router::{EventRouter, RouterDeps};
use super::sharing::EventForwarder;

/// The destination of the events that logins receive.
#[derive(Clone)]
pub(super) enum GatewaySink {
    /// Processes events on this node, in the login's own runtime.
    Local(RouterDeps),
    /// Sends events to the nodes that serve their channels.
    Cluster(mpsc::UnboundedSender<GatewayEvent>),
}

impl GatewaySink {
    /// Creates the function that accepts events. Must be called in the runtime of the login.
    pub(super) fn open(self) -> Result<EventCallback, reqwest::Error> {
        Ok(match self {
            Self::Local(parts) => {
                let reader = EventRouter::new(parts, None)?;
                Box::new(move |event| reader.route(&event, Receipt::none()))
            }
            Self::Cluster(out) => {
                let out = EventForwarder::new(out);
                Box::new(move |event| out.send(event))
            }
        })
    }
}
