//! The signals that end the gateway.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// How the program is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Running turns end with it.
    Stop,
    /// A holder keeps running turns for the next start; without one as [`End::Stop`].
    HandOver,
    /// As [`End::HandOver`], and the exit code asks a service manager for that start.
    Upgrade,
}

/// Listens for SIGINT, SIGTERM, SIGHUP and SIGUSR2. `docs/operating.md` has the table of what each
/// does; `tests/gateway/signals.rs` has its tests.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` where SIGHUP was ignored when the program started, as `nohup` has it.
    hangup: Option<Signal>,
    upgrade: Signal,
}

impl Signals {
    /// Takes the signals over from the system.
    ///
    /// # Errors
    /// Returns what the system said.
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
    pub(super) async fn next(&mut self) -> End {
        let hung_up = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => End::Stop,
            _ = self.terminate.recv() => End::HandOver,
            _ = hung_up => End::Stop,
            _ = self.upgrade.recv() => End::Upgrade,
        }
    }
}

/// Whether this process ignores a signal (proc_pid_status(5)).
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (kind.as_raw_value() - 1)) != 0
}
