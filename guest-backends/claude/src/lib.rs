//! The backend for Claude Code, with one `claude -p` per conversation and the control protocol
//! ([`Live`]), or one per turn ([`Claude`]). Both read the same stream of JSON lines and emit the
//! same events.
//!
//! Tested against Claude Code 2.1.197, with recordings in `tests/fixtures/claude`. [`plan`] builds
//! the command line. Unknown output becomes an `unrecognised` event: `tests/recorded` checks that
//! no recorded run has one, and `tests/strange.rs` checks that unknown output is reported and never
//! ends a link.

mod answer;
mod live;
mod plan;
mod prompt;
mod result;
mod side_events;
mod spent;
mod stream;
mod todo;
mod tool;

pub use live::Live;
pub use stream::Claude;

/// The backend: one process per conversation or per turn, as the operator chooses.
pub type Backend =
    aetheel_backend_sdk::Either<Live, aetheel_backend_sdk::one_shot::OneShot<Claude>>;

aetheel_backend_sdk::export_backend!(crate::Backend);
