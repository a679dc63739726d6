//! The holder: a small process of its own that starts agents and keeps them, so that they outlive
//! the gateway.
//!
//! It keeps their pipes, limits, cgroups and exit codes ([`super::Custody`] does that in it as it
//! does in the gateway), and what they say, until the gateway has it written down. It knows nothing
//! of Discord, guests and prompts. The gateway speaks to it over a Unix socket in its state folder.
//!
//! Pinned by `tests/process/holder.rs`: no line is lost, doubled or out of order, and no command
//! done twice, whenever the gateway dies.

mod bound;
mod connection;
mod held;
mod kept;
mod latest;
mod launcher;
mod log;
mod outbox;
mod place;
mod protocol;
mod room;
mod serve;
mod spool;
mod start;
mod wire;

pub use launcher::{HeldLauncher, Holding};
pub use place::HolderError;
pub use serve::{HoldOptions, hold};
pub use spool::HoldLimits;
pub use start::{detach, leave_cgroup};
