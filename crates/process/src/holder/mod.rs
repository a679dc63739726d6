//! The holder: a separate small process that starts agents and keeps them running while the gateway
//! restarts.
//!
//! It keeps their pipes, limits, cgroups and exit codes, with the same [`super::Custody`] as the
//! gateway. Output lines have numbers, and each is buffered until the gateway confirms that it is
//! recorded. The numbers of commands continue across gateways, so that none is executed twice. The
//! holder knows nothing of Discord, guests and prompts. The gateway connects to it over a Unix
//! socket in the state folder. Its program is `aetheel-hold` (`crates/hold`), or `aetheel hold` if
//! that is not installed.
//!
//! A holder that is stopped kills its agents, sends their last output but no exit, gives up its
//! lock, and then closes the connection. A link of the next holder continues their turns.
//!
//! | module | content |
//! |---|---|
//! | [`launcher`], [`bound_launcher`], [`connection`] | the gateway's side |
//! | [`serve`], [`session`] | the holder's side: its server, and the connected gateway |
//! | [`held_runs`], [`held_process`] | the runs in the holder |
//! | [`output_buffer`], [`spool`], [`outbox`] | unrecorded output, and frames to send |
//! | [`protocol`], [`socket`], [`client`] | messages, the socket, and the check of its peer |
//! | [`program`], [`start`], [`retire`] | the holder's program, its start and its replacement |
//! | [`hold_options`], [`holder_name`], [`log`] | options, the file with its name, and its log |
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
