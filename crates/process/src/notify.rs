//! The service manager's notification socket (`sd_notify(3)`).
//!
//! Messages are datagrams of `NAME=value` lines to the socket that `NOTIFY_SOCKET` names. Nothing is
//! sent if the variable is not set.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The socket through which the service manager learns the state of this process.
#[derive(Debug)]
pub struct NotifySocket(Option<(UnixDatagram, SocketAddr)>);

impl NotifySocket {
    /// Reads the address from `NOTIFY_SOCKET`. Logs a warning if it is not a valid address.
    #[must_use]
    pub fn from_environment() -> Self {
        let name = std::env::var("NOTIFY_SOCKET").ok().filter(|name| !name.is_empty());
        Self(name.and_then(|name| {
            let address = match name.strip_prefix('@') {
                Some(name) => SocketAddr::from_abstract_name(name),
                None => SocketAddr::from_pathname(&name),
            };
            let socket = UnixDatagram::unbound().and_then(|socket| {
                // A service manager that does not read must not block the program.
                socket.set_nonblocking(true)?;
                Ok((socket, address?))
            });
            socket.inspect_err(|error| tracing::warn!(%error, "cannot notify the service manager; check NOTIFY_SOCKET")).ok()
        }))
    }

    /// Returns a second handle to the socket, or `None` if there is no service manager.
    #[must_use]
    pub fn try_clone(&self) -> Option<Self> {
        let (socket, address) = self.0.as_ref()?;
        Some(Self(Some((socket.try_clone().ok()?, address.clone()))))
    }

    /// Reports that the program has started.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// Reports that the program is about to end.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Resets the watchdog. Failures are ignored, because the next call follows soon.
    pub fn watchdog(&self) {
        if let Some((socket, address)) = &self.0 {
            let _ = socket.send_to_addr(b"WATCHDOG=1", address);
        }
    }

    fn send(&self, state: &str) {
        if let Some((socket, address)) = &self.0
            && let Err(error) = socket.send_to_addr(state.as_bytes(), address)
        {
            tracing::warn!(%error, state, "cannot notify the service manager");
        }
    }
}
