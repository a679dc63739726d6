//! Submits the scheduled events: heartbeats and cron jobs.
//!
//! This module reads the clock and sleeps. [`aetheel_model::schedule`] decides which ticks run, and the
//! dispatcher runs their events. It depends on no other adapter.

mod later_turns;
mod plan;
mod schedules;

pub use later_turns::submit_later_turns;
pub use plan::{SchedulePlan, plan};
pub use schedules::{RunningSchedules, Scheduler};
