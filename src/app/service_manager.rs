//! Reports the state of the program to the service manager through systemd's notification socket.
//!
//! As described in `sd_notify(3)`, the program sends datagrams with `NAME=value` lines to the
//! socket in `NOTIFY_SOCKET`. It feeds the watchdog only while the dispatcher responds. Without
//! `NOTIFY_SOCKET`, nothing is sent. Tested by `tests/gateway/status.rs` and, for the holder,
//! `tests/process/holder/mod.rs`.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::app::health::ProgramHealth;
use aetheel_process::NotifySocket;
use aetheel_runtime::supervisor;
use aetheel_web::status::HealthSource as _;

/// Longest wait for the health check. After that, the watchdog is not fed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Connection to the service manager, if there is one.
pub struct ServiceManager {
    socket: NotifySocket,
    /// Longest time between two watchdog messages.
    watchdog: Option<Duration>,
}

/// A task that feeds the watchdog. Dropping this value stops the task.
pub(super) struct Watchdog(Option<JoinHandle<()>>);

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

impl ServiceManager {
    /// Reads `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`.
    #[must_use]
    pub fn from_environment() -> Self {
        let ours = std::env::var("WATCHDOG_PID")
            .ok()
            .is_none_or(|pid| pid == std::process::id().to_string());
        let micros = std::env::var("WATCHDOG_USEC")
            .ok()
            .filter(|_| ours)
            .and_then(|micros| micros.parse().ok());
        let socket = NotifySocket::from_environment();
        Self { socket, watchdog: micros.filter(|micros| *micros > 0).map(Duration::from_micros) }
    }

    /// Reports that the program is ready, and feeds the watchdog until the result is dropped.
    pub(super) fn ready(&self, health: ProgramHealth) -> Watchdog {
        self.socket.ready();
        let (Some(socket), Some(every)) = (self.socket.try_clone(), self.watchdog) else {
            return Watchdog(None);
        };
        Watchdog(Some(supervisor::spawn("watchdog", async move {
            loop {
                tokio::time::sleep(every / 2).await;
                match timeout(ANSWER_TIMEOUT, health.alive()).await {
                    Ok(reasons) if reasons.is_empty() => socket.watchdog(),
                    Ok(reasons) => tracing::error!(
                        ?reasons,
                        "the program is unhealthy; the service manager's watchdog is not fed"
                    ),
                    Err(_) => tracing::error!(
                        "the dispatcher does not answer; the service manager's watchdog is not fed"
                    ),
                }
            }
        })))
    }

    /// Reports that the program is shutting down.
    pub(super) fn stopping(&self) {
        self.socket.stopping();
    }
}
