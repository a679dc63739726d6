//! OpenAI Codex as a backend: `codex app-server`, one process for many conversations, or `codex
//! exec` once a turn.
//!
//! Made and tested against Codex 0.169.0; `tests/fixtures/codex` holds what it really said. Both
//! modes share the meaning of items (`story`), reasons of failures (`failure`) and usage
//! (`tokens`), so that a conversation has the same agent-events; `live` and `once` own the
//! differences. Output it does not know becomes an `unrecognised` event: `tests/recorded.rs` and
//! `tests/dialogues.rs` hold that none of the recorded runs has one, `tests/strange.rs` that
//! strange output never ends a link or a turn twice.

mod answer;
mod failure;
mod limits;
mod live;
mod native_id;
mod once;
mod prompt;
mod story;
mod tokens;
mod tool;

pub use live::Live;
pub use once::Once;

/// The backend: long-lived, or one process a turn.
pub type Backend = aetheel_backend_sdk::Either<Live, aetheel_backend_sdk::one_shot::OneShot<Once>>;

aetheel_backend_sdk::export_backend!(crate::Backend);
