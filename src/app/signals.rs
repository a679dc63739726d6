//! The signals that end the gateway.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShutdownMode {
    /// Running turns end with the program.
    Stop,
    /// A holder keeps running agents for the next start. Without a holder, the same as
    /// [`ShutdownMode::Stop`].
    HandOver,
    /// The same as [`ShutdownMode::HandOver`], but the exit code asks the service manager for a
    /// restart.
    Upgrade,
}

/// Listens for SIGINT, SIGTERM, SIGHUP and SIGUSR2. `docs/operating.md` describes the effect of
/// each one, and `tests/gateway/signals.rs` tests it.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` if SIGHUP was ignored when the program started, for example by `nohup`.
    hangup: Option<Signal>,
    upgrade: Signal,
}

impl Signals {
    /// Installs the signal handlers.
    ///
    /// # Errors
    /// Returns the error of the system if a handler cannot be installed.
    pub(super) fn listen() -> io::Result<Self> {
        let hangup = (!is_ignored(SignalKind::hangup())).then(|| signal(SignalKind::hangup()));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: hangup.transpose()?,
            upgrade: signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> ShutdownMode {
        let hung_up = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => ShutdownMode::Stop,
            _ = self.terminate.recv() => ShutdownMode::HandOver,
            _ = hung_up => ShutdownMode::Stop,
            _ = self.upgrade.recv() => ShutdownMode::Upgrade,
        }
    }
}

/// Returns whether this process ignores a signal (proc_pid_status(5)).
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (kind.as_raw_value() - 1)) != 0
}
