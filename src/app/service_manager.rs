//! Telling the service manager how far the program is: systemd's notification socket.
//!
//! `sd_notify(3)`: datagrams of `NAME=value` lines to the socket that `NOTIFY_SOCKET` names. The
//! watchdog is fed only while the dispatcher answers. Nothing happens where nobody asked. Pinned by
//! `tests/gateway/status.rs` and, for the holder, `tests/process/holder.rs`.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::app::health::ProgramHealth;
use crate::vigil;
use crate::web::status::Health as _;

/// Longest wait for the program's answer before the watchdog is left hungry.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Whoever started the program.
pub struct System {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear from us at least.
    watchdog: Option<Duration>,
}

/// Feeds the watchdog until it is dropped.
pub(super) struct Watchdog(Option<JoinHandle<()>>);

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

impl System {
    /// Reads where to tell it.
    #[must_use]
    pub fn from_environment() -> Self {
        let socket = std::env::var("NOTIFY_SOCKET").ok().filter(|name| !name.is_empty()).and_then(|name| {
            let address = match name.strip_prefix('@') {
                Some(name) => SocketAddr::from_abstract_name(name),
                None => SocketAddr::from_pathname(&name),
            };
            let socket = UnixDatagram::unbound().and_then(|socket| {
                // News are not worth waiting for.
                socket.set_nonblocking(true)?;
                Ok((socket, address?))
            });
            socket.inspect_err(|error| tracing::warn!(%error, "cannot tell the service manager anything; check NOTIFY_SOCKET")).ok()
        });
        let ours = std::env::var("WATCHDOG_PID")
            .ok()
            .is_none_or(|pid| pid == std::process::id().to_string());
        let micros = std::env::var("WATCHDOG_USEC")
            .ok()
            .filter(|_| ours)
            .and_then(|micros| micros.parse().ok());
        Self { socket, watchdog: micros.filter(|micros| *micros > 0).map(Duration::from_micros) }
    }

    /// Prompts are taken from now on.
    pub(super) fn ready(&self, health: ProgramHealth) -> Watchdog {
        self.tell("READY=1");
        let socket = self
            .socket
            .as_ref()
            .and_then(|(socket, address)| Some((socket.try_clone().ok()?, address.clone())));
        let (Some((socket, address)), Some(every)) = (socket, self.watchdog) else {
            return Watchdog(None);
        };
        Watchdog(Some(vigil::task("watchdog", async move {
            loop {
                tokio::time::sleep(every / 2).await;
                match timeout(ANSWER_TIMEOUT, health.alive()).await {
                    // A service manager that is gone needs no news.
                    Ok(reasons) if reasons.is_empty() => {
                        drop(socket.send_to_addr(b"WATCHDOG=1", &address))
                    }
                    Ok(reasons) => tracing::error!(
                        ?reasons,
                        "the program is not well; the service manager's watchdog is not fed"
                    ),
                    Err(_) => tracing::error!(
                        "the dispatcher does not answer; the service manager's watchdog is not fed"
                    ),
                }
            }
        })))
    }

    /// As [`System::ready`], for a program that no watchdog looks after.
    pub fn serving(&self) {
        self.tell("READY=1");
    }

    /// The program is about to end.
    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    fn tell(&self, state: &str) {
        if let Some((socket, address)) = &self.socket
            && let Err(error) = socket.send_to_addr(state.as_bytes(), address)
        {
            tracing::warn!(%error, state, "cannot tell the service manager");
        }
    }
}
