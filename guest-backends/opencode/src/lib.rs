//! The backend for OpenCode. It runs either one `opencode serve` for all sessions and directories
//! ([`Live`]), or one `opencode run` for each turn ([`Once`]).
//!
//! Tested against OpenCode 1.18.33, with recordings in `tests/fixtures/opencode`. `tests/live.rs`,
//! `asks.rs` and `ends.rs` test the dialogue with the server, and `once.rs` tests one-shot runs.
//! `disturbed.rs` checks that unknown output is reported and that links survive arbitrary output.

mod failure;
mod live;
mod once;
mod parts;
mod prompt;
mod safety;
mod spent;
mod todo;
mod tool;
mod tool_server;

pub use live::Live;
pub use once::Once;

/// The backend, with a server for all sessions or a process for each turn. The first turn selects
/// one.
pub type Backend = aetheel_backend_sdk::Either<Live, aetheel_backend_sdk::one_shot::OneShot<Once>>;

aetheel_backend_sdk::export_backend!(crate::Backend);
