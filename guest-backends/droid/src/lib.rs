//! Factory Droid as a backend: `droid exec` long-lived, spoken to in its JSON-RPC ([`Live`]), or
//! once a turn with its stream of JSON lines ([`Once`]).
//!
//! Made and tested against Droid 0.225.2 (protocol 1.220.0); `tests/fixtures/droid` holds what it
//! really said. Owns what its flags, methods and notifications are called and mean; starts nothing
//! by itself. Never answers a request of Droid with an error: it takes none, and hangs
//! (`tests/asks.rs`). Output it does not know becomes an `unrecognised` event: `tests/recorded.rs`
//! holds that the recordings have none, `tests/strange.rs` that strange output harms nothing.

mod answer;
mod failure;
mod live;
mod once;
mod plan;
mod tool;
mod usage;

pub use live::Live;
pub use once::Once;

/// The backend: long-lived, or one process a turn.
pub type Backend = aetheel_backend_sdk::Either<Live, aetheel_backend_sdk::one_shot::OneShot<Once>>;

aetheel_backend_sdk::export_backend!(crate::Backend);
