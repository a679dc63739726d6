//! The destination of the events that logins receive.

use super::gateway_event::GatewayEvent;

/// Accepts an event of a login, without waiting.
pub(crate) type EventCallback = Box<dyn Fn(GatewayEvent) + Send + Sync>;

/// The destination of the events that logins receive: the router of this node, which processes them
/// in the login's own runtime, or the nodes that serve their channels.
pub(crate) trait GatewaySink: Send + Sync {
    /// Creates the function that accepts the events of a login. Must be called in the runtime of
    /// the login.
    ///
    /// # Errors
    /// If the HTTP client cannot be created.
    fn open(&self) -> Result<EventCallback, reqwest::Error>;
}
