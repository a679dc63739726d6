//! The start times of a turn's running tools and the time of the agent's last report, so that a
//! draft can show for how long a slow tool has been running or the agent has been silent. Pure.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use aetheel_model::agent::AgentEventKind;

/// How long a tool runs before its draft shows the time and the last lines of its output.
pub(crate) const LONG_TOOL: Duration = Duration::from_secs(3);

/// A time on the monotonic clock and on the wall clock.
type Moment = (Instant, Timestamp);

/// When each running tool began, by id, and when the agent last reported something.
#[derive(Debug)]
pub(crate) struct Activity {
    tools: HashMap<String, Moment>,
    /// The last report, at first the start of the turn.
    last: Moment,
    /// How long the agent reports nothing before its draft shows that.
    silence: Duration,
}

impl Activity {
    /// Starts with a turn without reports.
    pub(crate) fn new(now: Moment, silence: Duration) -> Self {
        Self { tools: HashMap::new(), last: now, silence }
    }

    /// Applies an event. The time of a tool that a previous process of the gateway saw start counts
    /// from now.
    pub(crate) fn apply(&mut self, event: &AgentEventKind, now: Moment) {
        self.last = now;
        if let Some(start) = event.tool_start() {
            self.tools.entry(start.id.clone()).or_insert(now);
        } else if let Some(end) = event.tool_end() {
            self.tools.remove(&end.id);
        }
    }

    /// Returns when a tool began if it has been running for [`LONG_TOOL`].
    pub(crate) fn long_since(&self, id: &str, now: Instant) -> Option<Timestamp> {
        let (began, clock) = self.tools.get(id)?;
        (now.saturating_duration_since(*began) >= LONG_TOOL).then_some(*clock)
    }

    /// Returns the time of the last report if no tool runs and the agent has been silent for the
    /// limit, or for any time if `is_shown`.
    pub(crate) fn silent_since(&self, now: Instant, is_shown: bool) -> Option<Timestamp> {
        let (last, clock) = self.last;
        let is_silent = is_shown || now.saturating_duration_since(last) >= self.silence;
        (self.tools.is_empty() && is_silent).then_some(clock)
    }

    /// Returns the next time at which a tool will have been running for [`LONG_TOOL`], or the agent
    /// will have been silent for the limit.
    pub(crate) fn next_change(&self, now: Instant) -> Option<Instant> {
        let long = self.tools.values().map(|(began, _)| *began + LONG_TOOL);
        let silent = self.tools.is_empty().then_some(self.last.0 + self.silence);
        long.chain(silent).filter(|at| *at > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::{ToolEnd, ToolStart, ToolStatus};

    fn start(id: &str) -> AgentEventKind {
        AgentEventKind::ToolStart(ToolStart {
            id: id.to_owned(),
            parent: None,
            kind: "bash".to_owned(),
            native_name: "Bash".to_owned(),
            title: String::new(),
            target: None,
            input: String::new(),
        })
    }

    #[test]
    fn a_tool_is_long_from_its_first_report_until_its_end() {
        let now = Instant::now();
        let (later, clock) = (now + LONG_TOOL, Timestamp::UNIX_EPOCH);
        let mut tools = Activity::new((now, clock), LONG_TOOL);
        assert_eq!((tools.silent_since(now, false), tools.next_change(now)), (None, Some(later)));
        assert_eq!(tools.silent_since(later, false), Some(clock));
        tools.apply(&start("a"), (now, clock));
        assert_eq!((tools.long_since("a", now), tools.next_change(now)), (None, Some(later)));
        // A better title for the same tool.
        tools.apply(&start("a"), (later, clock + LONG_TOOL));
        assert_eq!((tools.long_since("a", later), tools.next_change(later)), (Some(clock), None));
        let end = ToolEnd {
            id: "a".to_owned(),
            status: ToolStatus::Ok,
            output: None,
            exit_code: None,
            diffs: Vec::new(),
        };
        tools.apply(&AgentEventKind::ToolEnd(end), (later, clock));
        assert_eq!(tools.long_since("a", later), None);
        assert_eq!(tools.silent_since(later, false), None);
        assert_eq!(tools.silent_since(later, true), Some(clock));
    }
}
