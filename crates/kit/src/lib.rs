//! Trying a backend: everything the kit finds out about a component, without a terminal.
//!
//! Stands on the ports of the turn driver and on recordings; knows neither wasmtime nor how results
//! are shown. [`check`] runs trials (`trial`) made by `hostile` and `damage` against a simulated
//! host (`simulator`), [`golden`] compares with what was agreed on and `cause` finds the input
//! behind a difference, [`unread()`] finds
//! answers that are shown nowhere, [`selftest`] reads the recordings a component brings along, [`summary`] and
//! [`difference`] are for people who read, [`machine`] goes through recorded turns step by step.
//! Pinned by the tests below and by `tests/kit` (real components, and guests that misbehave on
//! purpose).

mod case;
mod cause;
pub mod check;
mod damage;
pub mod difference;
mod finding;
pub mod golden;
mod hostile;
pub mod machine;
// Shared with the SDK, whose tests change recordings in the same way.
#[path = "../../../guest-backends/sdk/src/mutation/mod.rs"]
pub mod mutation;
mod seeded_rng;
pub mod selftest;
mod simulator;
pub mod summary;
mod trial;
mod unread;

pub use case::{Case, actions_beside, find};
pub use finding::{Finding, Rule};
pub use unread::{Unread, unread};

use aetheel_model::agent::Input;

/// Returns the JSON of an input, short enough for a line of text.
#[must_use]
pub fn brief(input: &Input) -> String {
    shortened(&serde_json::to_string(input).unwrap_or_default(), 200)
}

/// The beginning of a text, on one line.
#[must_use]
pub fn shortened(text: &str, most: usize) -> String {
    let text = aetheel_model::plain::clean_text(text).replace('\n', "⏎").replace('\t', " ");
    aetheel_model::plain::cut(&text, most).into_owned()
}
