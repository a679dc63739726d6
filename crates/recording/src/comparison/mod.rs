//! Compares two readings of a recording: the only place that decides whether two lists of actions
//! are the same.
//!
//! * [`first_difference`] compares lists of actions by a [`Projection`]: as they are, by meaning, or
//!   only their effects. [`golden_difference`] adds the input that caused the difference (`cause`),
//!   and [`by_line`] compares two replays input by input.
//! * [`ExpectedActions`] compares the actions of a guest with the recorded ones while they arrive.
//! * [`compare`] and [`compare_recorded`] decide which differences between two versions of a backend
//!   are harmful for a turn.

mod actions;
mod cause;
mod expected;
mod golden;
mod lines;
mod turn;

pub use actions::{ActionDifference, Projection, first_difference};
pub use cause::{field_name, pointers};
pub use expected::{ExpectedActions, RebuildError, open_guest, replay_entries, replay_tail};
pub use golden::{GoldenDifference, golden_difference, to_jsonl};
pub use lines::{LineDifference, by_line};
pub use turn::{
    CompareError, MAX_COMPARED_BYTES, RecordedComparison, TurnDifference, compare,
    compare_recorded, compare_turn,
};
