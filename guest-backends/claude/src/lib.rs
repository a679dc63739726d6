//! Claude Code as a backend: `claude -p` once a turn, its stream of JSON lines read as agent-events.
//!
//! Made and tested against Claude Code 2.1.197; `tests/fixtures/claude` holds what it really printed. Owns what its flags
//! are called ([`plan`]) and what its output means; starts nothing and keeps nothing beyond the turn. Output it does not
//! know becomes an `unrecognised` event: `tests/recorded.rs` holds that none of the recorded runs has one, and
//! `tests/strange.rs` that strange output is told, not dropped, and never ends a link.

mod answer;
mod plan;
mod result;
mod spent;
mod stream;
mod todo;
mod tool;

pub use stream::Claude;

/// The backend: one link, one turn, one process.
pub type Backend = aetheel_backend_sdk::one_shot::OneShot<Claude>;

aetheel_backend_sdk::export_backend!(crate::Backend);
