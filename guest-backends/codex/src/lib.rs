//! The backend for OpenAI Codex. It runs either `codex app-server`, one process for many
//! conversations, or `codex exec`, one process for each turn.
//!
//! Tested against Codex 0.169.0, with recordings in `tests/fixtures/codex`. Both modes share the
//! meaning of items (`story`), the kinds of failures (`failure`) and the usage (`tokens`), so a
//! conversation has the same events in both. Unknown output becomes an `unrecognised` event:
//! `tests/recorded.rs` and `tests/dialogues.rs` check that no recording has one, and
//! `tests/strange.rs` checks that unknown output never ends a link and never ends a turn twice.

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

/// The backend: long-lived, or one process per turn.
pub type Backend = aetheel_backend_sdk::Either<Live, aetheel_backend_sdk::one_shot::OneShot<Once>>;

aetheel_backend_sdk::export_backend!(crate::Backend);
