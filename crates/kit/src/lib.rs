//! The test kit for backends: analyses components, without a terminal.
//!
//! Uses the ports of the turn crate (`aetheel_turn`) and its recordings. Must not know wasmtime or
//! how results are printed. `tests/kit` tests this crate with real components, and with guests that
//! misbehave on purpose.
//!
//! * [`check`] runs trials (`trial`), made by `hostile` and `damage`, against a simulated host
//!   (`simulator`).
//! * [`golden`] compares the actions of a replay with the expected ones, and `cause` finds the
//!   input that causes a difference.
//! * [`unread()`] finds answers in the agent's output that the component does not show.
//! * [`selftest`] replays the recordings that come with a component.
//! * [`mend`] judges a changed version of a backend that reads lost replies.
//! * [`report`] reduces a recording to the lines that show a fault.
//! * [`answered`] reads which requests people were asked about, and their answers.
//! * [`summary`] and [`difference`] format results for readers.
//! * [`step_viewer`] shows recorded turns step by step.

pub mod answered;
mod case;
mod cause;
pub mod check;
mod damage;
pub mod difference;
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
pub mod selftest;
mod simulator;
pub mod summary;
mod trial;
mod unread;

pub use case::{Case, CaseError, actions_beside, find};
pub use finding::{CheckFinding, Rule};
pub use proven::{describe_versions, proven_versions};
pub use unread::{Unread, unread};

use aetheel_model::agent::Input;

/// Returns the JSON of an input, short enough for a line of text.
#[must_use]
pub fn brief(input: &Input) -> String {
    shortened(&serde_json::to_string(input).unwrap_or_default(), 200)
}

/// Returns the beginning of a text, on one line.
#[must_use]
pub fn shortened(text: &str, most: usize) -> String {
    let text = aetheel_model::plain::clean_text(text).replace('\n', "⏎").replace('\t', " ");
    aetheel_model::plain::cut(&text, most).into_owned()
}
