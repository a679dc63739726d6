//! Backend for Gemini CLI: `gemini --acp`, one process for many turns and sessions, or `gemini -o
//! stream-json`, one per turn.
//!
//! Made and tested with Gemini CLI 0.61.0; `tests/fixtures/gemini` holds its real output. [`plan`]
//! builds the command line, [`stream`] reads the lines, [`live`] has the differences within the
//! protocol (`aetheel-acp-client` implements it), and [`failure`] classifies failures. Output that
//! is not known becomes an `unrecognised` event (`tests/recorded.rs`, `tests/strange.rs`).

mod failure;
mod live;
mod plan;
mod policy;
mod stream;

pub use live::Live;
pub use stream::Gemini;

use aetheel_backend_sdk::Either;
use aetheel_backend_sdk::one_shot::OneShot;

/// The backend: one process for many turns, or one per turn.
pub type Backend = Either<aetheel_acp_client::Live<Live>, OneShot<Gemini>>;

/// Shortest pause before Gemini CLI 0.61.0 repeats a request, in milliseconds. It waits one second,
/// then two, then four.
const RETRY_PAUSE_MS: f64 = 900.0;

aetheel_backend_sdk::export_backend!(crate::Backend);
