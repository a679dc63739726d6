//! A handle to a run that kills all of its processes when it is dropped.
//!
//! The leader is reaped last, so that its pid and process group cannot be reused while they are
//! signalled. Pinned by `a_dropped_process_ends_its_whole_run` and
//! `a_dropped_runtime_kills_its_runs`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::cgroup::Cgroup;
use super::descent::RunProcesses;
use super::{KILL_LIMIT, descent, wait_until};
use aetheel_model::agent::{self, Exit};
use aetheel_runtime::figures;
use aetheel_runtime::supervisor;

/// How long the reaper tries to kill a run.
const REAP_TIMEOUT: Duration = Duration::from_secs(60);
/// How often the reaper tries to kill a run that does not end immediately.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);
/// How often orphans are reaped. The end of a run reaps them too.
const ORPHANS_INTERVAL: Duration = Duration::from_secs(10);

/// Whether orphans become our children, because this process is their subreaper or the first
/// process of a container.
static ADOPTING: AtomicBool = AtomicBool::new(false);

/// Makes this process the parent of orphans, and starts the thread that reaps them.
pub(super) fn adopt_orphans() {
    if !ADOPTING.swap(true, Ordering::Relaxed) {
        descent::adopt_orphans();
        reaper();
    }
}

/// A run that is killed when this value is dropped.
#[derive(Debug)]
pub(super) struct RunHandle(Option<RunningGroup>);

#[derive(Debug)]
pub(super) struct RunningGroup {
    /// The leader; also the id of its process group and session.
    pub(super) leader: Pid,
    pub(super) processes: RunProcesses,
    pub(super) pidfd: OwnedFd,
    /// `None` if the processes of the run are found by descent.
    pub(super) cgroup: Option<Cgroup>,
    /// The name of the run in the log.
    pub(super) name: String,
}

impl RunHandle {
    pub(super) fn new(run: RunningGroup) -> Self {
        Self(Some(run))
    }

    /// Returns the process id of the leader, or `None` if the run has ended.
    pub(super) fn leader(&self) -> Option<u32> {
        self.0.as_ref().map(|run| run.leader.as_raw_nonzero().get().unsigned_abs())
    }

    /// Returns a descriptor that becomes readable when the leader has ended.
    ///
    /// # Errors
    /// The run has ended, or no descriptor is free.
    pub(super) fn pidfd(&self) -> io::Result<OwnedFd> {
        self.0
            .as_ref()
            .map_or_else(|| Err(io::Error::other("the run has ended")), |run| run.pidfd.try_clone())
    }

    /// Signals the leader's process group. Stopped processes are continued, so that they handle the
    /// signal.
    pub(super) fn signal(&self, signal: agent::Signal) {
        let Some(run) = &self.0 else { return };
        let signal = match signal {
            agent::Signal::Interrupt => Signal::INT,
            agent::Signal::Terminate => Signal::TERM,
            agent::Signal::Kill => return self.kill(),
        };
        run.signal(signal);
        run.signal(Signal::CONT);
    }

    /// Kills the processes that run now, without waiting. [`RunHandle::finish`] waits until none is
    /// left.
    pub(super) fn kill(&self) {
        if let Some(run) = &self.0 {
            figures::process_killed();
            run.kill();
        }
    }

    /// Kills the processes of the run until none is left, and returns how the leader ended. Blocks
    /// for at most 5 seconds.
    pub(super) fn finish(mut self) -> Exit {
        let Some(run) = self.0.take() else { return Exit::Unknown };
        if let Some(how) = run.end(KILL_LIMIT) {
            return how;
        }
        tracing::error!(
            run = run.name,
            pid = run.leader.as_raw_nonzero(),
            "processes of a run do not end; they are ignored"
        );
        send_to_reaper(run);
        Exit::Unknown
    }
}

impl Drop for RunHandle {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            figures::process_killed();
            run.kill();
            send_to_reaper(run);
        }
    }
}

impl RunningGroup {
    fn signal(&self, signal: Signal) {
        // Fails if all processes of the group have ended.
        let _ = kill_process_group(self.leader, signal);
    }

    fn kill(&self) {
        self.signal(Signal::KILL);
        match &self.cgroup {
            Some(cgroup) => {
                if let Err(error) = cgroup.kill() {
                    tracing::warn!(run = self.name, %error, "cannot kill a cgroup");
                }
            }
            None => {
                self.processes.kill_round();
            }
        }
    }

    /// Waits until no process of the run is left, and returns how the leader ended. Returns `None`
    /// if the limit is exceeded first.
    fn end(&self, limit: Duration) -> Option<Exit> {
        let gone = match &self.cgroup {
            // Usually all processes have ended, and then the folder can be removed.
            Some(cgroup) => {
                cgroup.remove()
                    || wait_until(limit, || {
                        self.kill();
                        cgroup.remove()
                    })
            }
            None => wait_until(limit, || {
                self.signal(Signal::KILL);
                // While `/proc` is read, a parent may end. Its child then has a parent that is not
                // in the table. In the next round it is our child.
                self.processes.kill_round() == 0 && self.processes.kill_round() == 0
            }),
        };
        if !gone {
            return None;
        }
        let mut how = None;
        // The cgroup may be empty shortly before the leader is a zombie.
        wait_until(limit, || {
            how = self.reap();
            how.is_some()
        });
        how
    }

    /// Reaps the leader if it has ended, and returns how it ended.
    fn reap(&self) -> Option<Exit> {
        let mut leaders = descent::leaders();
        let status = match waitid(
            WaitId::PidFd(self.pidfd.as_fd()),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
        ) {
            Ok(None) => return None,
            Ok(Some(status)) => status,
            // Other code reaped it.
            Err(error) => {
                tracing::warn!(run = self.name, %error, "cannot find out how an agent ended");
                leaders.forget(self.leader.as_raw_nonzero().get());
                return Some(Exit::Unknown);
            }
        };
        leaders.forget(self.leader.as_raw_nonzero().get());
        Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code as u32),
            (None, Some(signal)) => Exit::Signal(signal as u32),
            (None, None) => Exit::Unknown,
        })
    }
}

fn send_to_reaper(run: RunningGroup) {
    let refused = match reaper() {
        Some(sender) => sender.send(run).err().map(|refused| refused.0),
        None => Some(run),
    };
    if let Some(run) = refused {
        run.end(KILL_LIMIT);
    }
}

/// Returns the sender to the reaper, a thread that kills runs for which nobody waits and reaps
/// orphans. The thread outlives every runtime. Returns `None` if it cannot be started.
fn reaper() -> Option<&'static Sender<RunningGroup>> {
    static REAPER: OnceLock<Option<Sender<RunningGroup>>> = OnceLock::new();
    let start = || {
        let (sender, receiver) = channel();
        let thread = supervisor::spawn_thread("reaper", move || reap_runs(&receiver));
        thread
            .map(|_| sender)
            .inspect_err(|error| tracing::error!(%error, "cannot start the reaper thread"))
            .ok()
    };
    REAPER.get_or_init(start).as_ref()
}

fn reap_runs(receiver: &Receiver<RunningGroup>) {
    let mut buried: Vec<(RunningGroup, Instant)> = Vec::new();
    loop {
        let pause = if buried.is_empty() { ORPHANS_INTERVAL } else { RETRY_INTERVAL };
        match receiver.recv_timeout(pause) {
            Ok(run) => buried.push((run, Instant::now())),
            Err(RecvTimeoutError::Timeout)
                if buried.is_empty() && ADOPTING.load(Ordering::Relaxed) =>
            {
                descent::reap_strays()
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        buried.retain(|(run, since)| {
            let ended = run.end(Duration::ZERO).is_some();
            if !ended && since.elapsed() > REAP_TIMEOUT {
                tracing::error!(
                    run = run.name,
                    pid = run.leader.as_raw_nonzero(),
                    "processes of a run cannot be killed"
                );
                return false;
            }
            !ended
        });
    }
}
