//! Limits the number of log lines of each kind per minute.
//!
//! Only warnings are limited, so that lines about events and errors are always complete. The caller
//! passes the current time.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Most lines of one kind in each [`COUNT_INTERVAL`].
const MAX_LINES: u32 = 200;
const COUNT_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineDecision {
    Show,
    /// Show the line, with a note that similar lines are omitted from now on.
    Last,
    LeaveOut,
}

/// Counts the lines of each kind. Kinds are never removed, so their number must be bounded.
#[derive(Debug)]
pub(super) struct Flood<K> {
    windows: HashMap<K, (Instant, u32)>,
}

impl<K> Default for Flood<K> {
    fn default() -> Self {
        Self { windows: HashMap::new() }
    }
}

impl<K: Eq + Hash> Flood<K> {
    /// Counts a line of a kind and decides whether to show it.
    pub(super) fn admit(&mut self, kind: K, now: Instant) -> LineDecision {
        let (began, count) = self.windows.entry(kind).or_insert((now, 0));
        if now.duration_since(*began) >= COUNT_INTERVAL {
            (*began, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        match *count {
            ..MAX_LINES => LineDecision::Show,
            MAX_LINES => LineDecision::Last,
            _ => LineDecision::LeaveOut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_flooding_kind_is_limited_for_a_minute() {
        let (mut flood, start) = (Flood::default(), Instant::now());
        let shown = (0..1_000).filter(|_| flood.admit("busy", start) == LineDecision::Show).count();
        assert_eq!(shown, 199);
        assert_eq!(flood.admit("busy", start + Duration::from_secs(59)), LineDecision::LeaveOut);
        assert_eq!(flood.admit("other", start), LineDecision::Show);
        assert_eq!(flood.admit("busy", start + COUNT_INTERVAL), LineDecision::Show);
    }

    #[test]
    fn exactly_one_line_is_the_last_before_the_limit() {
        let (mut flood, start) = (Flood::default(), Instant::now());
        let verdicts: Vec<LineDecision> = (0..300).map(|_| flood.admit((), start)).collect();
        assert_eq!(verdicts.iter().filter(|verdict| **verdict == LineDecision::Last).count(), 1);
        assert_eq!(verdicts[199], LineDecision::Last);
    }
}
