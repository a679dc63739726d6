//! Claude Code as a backend: one `claude -p` for a conversation, with the control protocol
//! ([`Live`]), or one for every turn ([`Claude`]); its stream of JSON lines is read as the same
//! agent-events either way.
//!
//! Made and tested against Claude Code 2.1.197; `tests/fixtures/claude` holds what it really
//! printed. Owns what its flags are called ([`plan`]) and what its output means; starts nothing.
//! Output it does not know becomes an `unrecognised` event: `tests/recorded` holds that none of
//! the recorded runs has one, and `tests/strange.rs` that strange output is told, not dropped, and
//! never ends a link.

mod answer;
mod beside;
mod live;
mod plan;
mod prompt;
mod result;
mod spent;
mod stream;
mod todo;
mod tool;

pub use live::Live;
pub use stream::Claude;

/// The backend, as the operator chose: one process for a conversation, or one for every turn.
pub type Backend =
    aetheel_backend_sdk::Either<Live, aetheel_backend_sdk::one_shot::OneShot<Claude>>;

aetheel_backend_sdk::export_backend!(crate::Backend);
