//! How often the host's tools may be called.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use aetheel_model::event::Lane;

/// The time in which calls of a lane are counted.
pub(crate) const WINDOW: Duration = Duration::from_secs(3_600);
/// Number of lanes above which lanes without recent calls are removed from memory.
const LANES: usize = 1_000;

/// Maximum number of calls of the host's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolLimits {
    /// In one turn.
    pub per_turn: u32,
    /// In one lane and hour.
    pub per_hour: u32,
}

impl Default for ToolLimits {
    /// Returns the limits without any settings.
    fn default() -> Self {
        Self { per_turn: 30, per_hour: 120 }
    }
}

/// Counts the calls of each lane. A new process counts those that its recordings contain. Cheap to
/// clone; clones share the counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolRates(Arc<Mutex<HashMap<Lane, VecDeque<Instant>>>>);

impl ToolRates {
    /// Counts a call. Returns false, and does not count it, if the lane has had `per_hour` calls
    /// within an hour.
    pub(crate) fn count(&self, lane: &Lane, per_hour: u32, now: Instant) -> bool {
        let is_recent = |at: &Instant| now.duration_since(*at) < WINDOW;
        let mut lanes = self.0.lock();
        if lanes.len() >= LANES {
            lanes.retain(|_, calls| calls.back().is_some_and(is_recent));
        }
        let calls = lanes.entry(lane.clone()).or_default();
        while calls.front().is_some_and(|at| !is_recent(at)) {
            calls.pop_front();
        }
        let is_allowed = calls.len() < per_hour as usize;
        if is_allowed {
            calls.push_back(now);
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_has_its_calls_again_an_hour_later() {
        let (rates, start) = (ToolRates::default(), Instant::now());
        let (lane, other) = (Lane::Cron("a".to_owned()), Lane::Cron("b".to_owned()));
        let count =
            |lane: &Lane, seconds| rates.count(lane, 2, start + Duration::from_secs(seconds));
        assert!(count(&lane, 0) && count(&lane, 1_800));
        assert!(!count(&lane, 3_599), "the third call within an hour");
        assert!(count(&other, 3_599), "lanes are counted apart");
        assert!(count(&lane, 3_600), "the first call is an hour old");
        assert!(!count(&lane, 3_601));
    }
}
