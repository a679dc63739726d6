//! Agent processes: starts a run, reads its output, stops it, and leaves no process behind.
//!
//! Owns the only code that starts programs. Every run has its own session and process group, and a
//! cgroup where the system allows it. Without one, its processes are found as descendants. Must not
//! decide which program runs, nor its arguments, environment and directory. The crate contains the
//! holder, which keeps agents running while the gateway restarts, and the sandbox of agents.
//!
//! | module | content |
//! |---|---|
//! | [`custody`], [`run_handle`] | the launcher of agents, and the handle that ends a run |
//! | [`start`], [`starter`], [`clone`] | the start of a program with its pipes |
//! | [`drive`], [`tail`] | one run until its last event, and the end of its stderr |
//! | [`cgroup`], [`descent`], [`process_table`], [`gateway_id`] | finding all processes of a run |
//! | [`sandbox`], [`seclusion`], [`scratch`] | confinement of agents, and their temporary folders |
//! | [`holder`], [`tool_relay`] | the holder, and its relay for calls of host tools |
//! | [`program`], [`probe`], [`operator_command`], [`background`], [`exec`] | other programs |
//! | [`notify`] | the service manager's notification socket |
//!
//! `tests/process` checks that no process of a run exists after the run's last event.

mod background;
mod cgroup;
mod clone;
mod custody;
mod descent;
mod drive;
mod exec;
mod gateway_id;
pub mod holder;
mod notify;
mod operator_command;
mod probe;
mod process_table;
mod program;
mod run_handle;
mod sandbox;
mod scratch;
mod seclusion;
mod start;
mod starter;
mod tail;
pub mod tool_relay;

use std::time::{Duration, Instant};

pub use background::{BackgroundProgram, StartedProgram};
pub use custody::{Custody, Means};
pub use exec::exec_program;
pub use notify::NotifySocket;
pub use operator_command::{OperatorCommand, OperatorCommandError};
pub use probe::ProbeError;
pub use program::{ProgramError, find_program};
pub use sandbox::{BubblewrapError, Sandbox, SandboxError};
pub use seclusion::{forget_variables, ignore_file_size_signal, seclude, take_descriptor};

/// How long a killed process may take to end.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Calls `done` until it returns `true`, with increasing pauses of up to 10 ms. Returns `false` if
/// the limit is exceeded first.
#[expect(clippy::disallowed_methods, reason = "called on threads that may block")]
fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    let mut pause = Duration::from_micros(100);
    while !done() {
        if start.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
    true
}
