//! The events that arise by themselves: heartbeats and cron jobs.
//!
//! Owns the clock and the sleep between two looks at it; which ticks run is decided in
//! [`crate::schedule`], what becomes of them by the dispatcher. Knows no other adapter.

mod plan;
mod schedules;

pub use plan::{Plan, plan};
pub use schedules::{Running, Schedules};
