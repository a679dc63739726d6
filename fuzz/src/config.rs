//! The part of the host's `config` that the fuzzed modules use.

#[path = "../../src/config/nearness.rs"]
mod nearness;

pub use nearness::{nearest, suggestion};
