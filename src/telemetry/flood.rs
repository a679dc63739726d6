//! Keeps one warning from filling the log: so many lines of each kind in a minute, and no more.
//!
//! Only warnings are counted: lines about the state of an event are wanted however many there are,
//! and errors too. Has no clock: callers say what time it is.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Lines of one kind …
const MOST: u32 = 200;
/// … within this time.
const COUNT_INTERVAL: Duration = Duration::from_secs(60);

/// The fate of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Show,
    /// The last one for now: it says that further ones are left out.
    Last,
    LeaveOut,
}

/// The lines written lately, by kind. Kinds are places in the code: there are only so many.
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
    /// Counts a line of a kind; says whether it is to be written.
    pub(super) fn admit(&mut self, kind: K, now: Instant) -> Verdict {
        let (began, count) = self.windows.entry(kind).or_insert((now, 0));
        if now.duration_since(*began) >= COUNT_INTERVAL {
            (*began, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        match *count {
            ..MOST => Verdict::Show,
            MOST => Verdict::Last,
            _ => Verdict::LeaveOut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_one_kind_is_cut_for_a_minute_and_other_kinds_go_on() {
        let (mut flood, start) = (Flood::default(), Instant::now());
        let shown = (0..1_000).filter(|_| flood.admit("busy", start) == Verdict::Show).count();
        assert_eq!(shown, 199);
        assert_eq!(flood.admit("busy", start + Duration::from_secs(59)), Verdict::LeaveOut);
        assert_eq!(flood.admit("other", start), Verdict::Show);
        assert_eq!(flood.admit("busy", start + COUNT_INTERVAL), Verdict::Show);
    }

    #[test]
    fn the_last_line_before_the_cut_is_known_as_such() {
        let (mut flood, start) = (Flood::default(), Instant::now());
        let verdicts: Vec<Verdict> = (0..300).map(|_| flood.admit((), start)).collect();
        assert_eq!(verdicts.iter().filter(|verdict| **verdict == Verdict::Last).count(), 1);
        assert_eq!(verdicts[199], Verdict::Last);
    }
}
