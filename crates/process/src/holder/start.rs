//! Starts a holder, and detaches it from the process that started it.
#![allow(unsafe_code, reason = "each use gives its reason")]

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;

use super::log;
use super::program::HolderProgram;
use crate::{Sandbox, cgroup, descent};
use aetheel_runtime::supervisor;

const VARIABLES: [&str; 9] =
    ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LOG_LEVEL", "LOG_FORMAT", "NO_COLOR"];

#[derive(Debug)]
pub(super) struct StartedHolder(Arc<AtomicBool>);

impl StartedHolder {
    pub(super) fn has_ended(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Starts a holder for a state folder. All its agents get this sandbox.
///
/// # Errors
/// The program or its log cannot be opened.
pub(super) fn start(
    state: &Path,
    program: &HolderProgram,
    sandbox: &Sandbox,
    claim_within: Duration,
) -> io::Result<StartedHolder> {
    let environment = VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut command = program.command();
    command
        .arg("--state")
        .arg(std::path::absolute(state)?)
        .arg("--claim-within")
        .arg(claim_within.as_secs().to_string())
        .args(["--sandbox", sandbox.setting(), "--leave-when-empty", "--detach"])
        .env_clear()
        .envs(environment)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log::open(state)?);
    let mut child = {
        // While the lock is held, the new child is not mistaken for an orphan.
        let mut leaders = descent::leaders();
        let child = command.spawn()?;
        leaders.add_non_agent(child.id() as i32);
        child
    };
    let ended = Arc::new(AtomicBool::new(false));
    let ended_flag = Arc::clone(&ended);
    let waiting = supervisor::spawn_thread("holder", move || {
        // Only this thread reaps it.
        let _ = child.wait();
        descent::leaders().remove_non_agent(child.id() as i32);
        ended_flag.store(true, Ordering::SeqCst);
    });
    waiting.map(|_| StartedHolder(ended))
}

/// Detaches this process from its parent: closes inherited descriptors and starts a new session.
/// Must be called before anything is opened and before any other thread exists.
///
/// # Errors
/// A new session cannot be started.
pub fn detach() -> io::Result<()> {
    // SAFETY: this process has not opened a descriptor yet, so all descriptors above 2 are
    // inherited ones that it does not use. A raw system call, because musl has no function for it.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    match rustix::process::setsid() {
        // A shell has already made it the leader of a process group.
        Ok(_) | Err(Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Moves this process out of the cgroup of its parent. Logs the consequences if that is impossible.
pub fn leave_cgroup() {
    if let Err(error) = cgroup::move_to_holders() {
        tracing::info!(%error, "agents end with this service when a service manager stops it; to keep them over restarts, install the holder's unit: `aetheel init --yes --then install-unit`");
    }
}
