//! The backend for Factory Droid. It runs either a long-lived `droid exec` with JSON-RPC
//! ([`Live`]), or one process for each turn that prints JSON lines ([`Once`]).
//!
//! Tested against Droid 0.225.2 (protocol 1.220.0), with recordings in `tests/fixtures/droid`.
//! Droid's requests must never be answered with an error, because Droid then hangs
//! (`tests/asks.rs`). Unknown output becomes an `unrecognised` event: `tests/recorded.rs` checks
//! that the recordings contain none, and `tests/strange.rs` checks arbitrary output.

mod answer;
mod failure;
mod live;
mod once;
mod plan;
mod tool;
mod usage;

pub use live::Live;
pub use once::Once;

/// The backend, with a long-lived process or one process for each turn.
pub type Backend = aetheel_backend_sdk::Either<Live, aetheel_backend_sdk::one_shot::OneShot<Once>>;

aetheel_backend_sdk::export_backend!(crate::Backend);
