//! Trying a backend: everything the kit finds out about a component, without a terminal.
//!
//! Stands on the ports of the turn driver and on recordings; knows neither wasmtime nor how results
//! are shown. [`check`] plays a host that does everything a bad day could bring, [`golden`]
//! compares with what was agreed on, [`selftest`] is what a component brings along to be admitted
//! with, [`telling`] and [`difference`] are for people who read. Pinned by the tests below and by
//! `tests/kit` (real components, and guests that misbehave on purpose).

mod case;
mod cause;
pub mod check;
mod damage;
mod dice;
pub mod difference;
mod finding;
pub mod golden;
mod hostile;
mod script;
pub mod selftest;
mod stage;
pub mod telling;

pub use case::{Case, actions_beside, find};
pub use finding::{Finding, Rule};

use crate::agent::Input;

/// What an input says, short enough for a line of text.
#[must_use]
pub fn brief(input: &Input) -> String {
    shortened(&serde_json::to_string(input).unwrap_or_default(), 200)
}

/// The beginning of a text, on one line.
#[must_use]
pub fn shortened(text: &str, most: usize) -> String {
    let text = crate::plain::clean_text(text).replace('\n', "⏎").replace('\t', " ");
    crate::plain::cut(&text, most).into_owned()
}
