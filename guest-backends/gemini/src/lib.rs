//! Gemini CLI as a backend: `gemini --acp` for many turns and sessions in one process, or `gemini
//! -o stream-json` once a turn.
//!
//! Made and tested against Gemini CLI 0.61.0; `tests/fixtures/gemini` holds what it really said.
//! Owns what is its own: flags and modes ([`plan`]), its stream of lines ([`stream`]), its ways
//! within the protocol ([`live`], the protocol itself is `aetheel-acp-client`), why it failed
//! ([`failure`]). Output it does not know becomes an `unrecognised` event (`tests/recorded.rs`,
//! `tests/strange.rs`).

mod failure;
mod live;
mod plan;
mod policy;
mod stream;

pub use live::Live;
pub use stream::Gemini;

use aetheel_backend_sdk::Either;
use aetheel_backend_sdk::one_shot::OneShot;

/// The backend: one process for many turns, or for each.
pub type Backend = Either<aetheel_acp_client::Live<Live>, OneShot<Gemini>>;

/// Least pause before Gemini CLI 0.61.0 asks the model again, milliseconds: it waits a second, then
/// two, then four.
const RETRY_PAUSE_MS: f64 = 900.0;

aetheel_backend_sdk::export_backend!(crate::Backend);
