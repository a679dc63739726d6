//! The test kit for backends: analyses components, without a terminal.
//!
//! Uses recordings (`aetheel_recording`), and of `aetheel_turn` only the rules for what a link may
//! start. Must not know wasmtime or how results are printed. `tests/kit` tests this crate with real
//! components, and with guests that misbehave on purpose.
//!
//! | module | content |
//! |---|---|
//! | [`check`], [`finding`] | checks that a component follows the contract, and the faults |
//! | [`trial`], [`hostile`], [`damage`], [`mutation`] | the inputs of these checks |
//! | [`simulator`], [`seeded_rng`] | a simulated host, and random numbers that can be repeated |
//! | [`golden`], [`proven`] | cases: expected actions, and the agent's versions that they prove |
//! | [`mod@unread`] | answers in the agent's output that a component does not show |
//! | [`mend`] | judges a changed version of a backend that reads lost replies |
//! | [`report`] | reduces a recording to the lines that show a fault |
//! | [`answered`] | which requests people were asked about, and their answers |
//! | [`summary`], [`step_viewer`] | recordings for people: summaries, and turns step by step |

pub mod answered;
pub mod check;
mod damage;
mod finding;
pub mod golden;
mod hostile;
pub mod mend;
mod proven;
pub mod step_viewer;
// The SDK uses the same file to change recordings in its tests.
#[path = "../../../guest-backends/sdk/src/mutation/mod.rs"]
pub mod mutation;
pub mod report;
mod seeded_rng;
mod simulator;
pub mod summary;
mod trial;
mod unread;

pub use finding::{CheckFinding, Rule};
pub use proven::{describe_versions, proven_versions};
pub use unread::{Unread, unread};
