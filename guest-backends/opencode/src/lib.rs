//! OpenCode as a backend: one `opencode serve` for all sessions and directories ([`Live`]), or
//! `opencode run` once a turn ([`Once`]).
//!
//! Made and tested against OpenCode 1.18.33; `tests/fixtures/opencode` holds what it really said.
//! Owns its HTTP requests, its server-sent events, its flags and what it calls its tools and
//! permissions; sends nothing itself. `tests/live.rs`, `asks.rs` and `ends.rs` pin the dialogue
//! with the server, `once.rs` single runs, `disturbed.rs` that strange output is told, not dropped,
//! and never ends a link.

mod failure;
mod live;
mod once;
mod parts;
mod prompt;
mod safety;
mod spent;
mod todo;
mod tool;

pub use live::Live;
pub use once::Once;

/// The backend: a server for all sessions, or a process for every turn, as the first turn says.
pub type Backend = aetheel_backend_sdk::Either<Live, aetheel_backend_sdk::one_shot::OneShot<Once>>;

aetheel_backend_sdk::export_backend!(crate::Backend);
