//! The backend for Gemini CLI. It runs either `gemini --acp`, one process for many turns and
//! sessions, or `gemini -o stream-json`, one process for each turn.
//!
//! Tested against Gemini CLI 0.61.0, with recordings in `tests/fixtures/gemini`. [`plan`] builds
//! the command line, [`stream`] parses the output, [`live`] has the differences from other ACP
//! agents (`aetheel-acp-client` implements the protocol), and [`failure`] classifies failures.
//! Unknown output becomes an `unrecognised` event (`tests/recorded.rs`, `tests/strange.rs`).

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
