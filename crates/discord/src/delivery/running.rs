//! The start times of a turn's running tools, so that a draft can show for how long a slow one has
//! been running. Pure.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use aetheel_model::agent::AgentEventKind;

/// How long a tool runs before its draft shows the time and the last lines of its output.
pub(crate) const LONG_TOOL: Duration = Duration::from_secs(3);

/// When each running tool began, by id: on the monotonic clock and on the wall clock.
#[derive(Debug, Default)]
pub(crate) struct RunningTools(HashMap<String, (Instant, Timestamp)>);

impl RunningTools {
    /// Applies an event. The time of a tool that a previous process of the gateway saw start counts
    /// from now.
    pub(crate) fn apply(&mut self, event: &AgentEventKind, now: (Instant, Timestamp)) {
        match event {
            AgentEventKind::ToolStart(start) => {
                self.0.entry(start.id.clone()).or_insert(now);
            }
            AgentEventKind::ToolEnd(end) => {
                self.0.remove(&end.id);
            }
            _ => {}
        }
    }

    /// Returns when a tool began if it has been running for [`LONG_TOOL`].
    pub(crate) fn long_since(&self, id: &str, now: Instant) -> Option<Timestamp> {
        let (began, clock) = self.0.get(id)?;
        (now.saturating_duration_since(*began) >= LONG_TOOL).then_some(*clock)
    }

    /// Returns the next time at which a tool will have been running for [`LONG_TOOL`].
    pub(crate) fn next_long(&self, now: Instant) -> Option<Instant> {
        self.0.values().map(|(began, _)| *began + LONG_TOOL).filter(|at| *at > now).min()
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
        let (mut tools, now) = (RunningTools::default(), Instant::now());
        let (later, clock) = (now + LONG_TOOL, Timestamp::UNIX_EPOCH);
        tools.apply(&start("a"), (now, clock));
        assert_eq!((tools.long_since("a", now), tools.next_long(now)), (None, Some(later)));
        // A better title for the same tool.
        tools.apply(&start("a"), (later, clock + LONG_TOOL));
        assert_eq!((tools.long_since("a", later), tools.next_long(later)), (Some(clock), None));
        let end = ToolEnd {
            id: "a".to_owned(),
            status: ToolStatus::Ok,
            output: None,
            exit_code: None,
            diffs: Vec::new(),
        };
        tools.apply(&AgentEventKind::ToolEnd(end), (later, clock));
        assert_eq!(tools.long_since("a", later), None);
    }
}
