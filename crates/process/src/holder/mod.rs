//! The holder: a separate small process that starts agents and keeps them running while the gateway
//! restarts.
//!
//! It keeps their pipes, limits, cgroups and exit codes, with the same [`super::Custody`] as the
//! gateway, and buffers their output until the gateway has recorded it. It knows nothing of
//! Discord, guests and prompts. The gateway connects to it over a Unix socket in the state folder.
//! Its program is `aetheel-hold` (`crates/hold`), or `aetheel hold` if that is not installed.
//!
//! Pinned by `tests/process/holder/mod.rs`: whenever the gateway ends, no line is lost, repeated or
//! out of order, and no command is executed twice.

mod bound_launcher;
mod client;
mod connection;
mod held_process;
mod held_runs;
mod hold_options;
mod holder_name;
mod launcher;
mod log;
mod outbox;
mod output_buffer;
mod program;
mod protocol;
mod retire;
mod serve;
mod session;
mod socket;
mod spool;
mod start;

pub use hold_options::HoldOptions;
pub use launcher::{HeldLauncher, HolderStart};
pub use program::{PROGRAM, UnusableProgram, program_beside};
pub use serve::hold;
pub use socket::HolderError;
pub use spool::HoldLimits;
pub use start::{detach, leave_cgroup};
