//! Enforces the host's invariants of one turn: whatever a guest does or forgets, people see one
//! ordered answer of bounded length with exactly one end. Pure.

use aetheel_model::agent::{
    AgentEventKind, InvalidSessionId, SessionId, SessionReady, ToolEnd, ToolStatus, TurnDone,
};
use aetheel_model::fold::Transcript;

/// Maximum number of tool uses in one turn, including those of sub-agents.
pub(super) const TOOLS: usize = 10_000;
/// Maximum number of agent events in one turn.
pub(super) const EVENTS: usize = 1_000_000;

/// The state of one turn. The link has already dropped everything that does not belong to the turn.
#[derive(Debug, Default)]
pub(super) struct Guard {
    transcript: Transcript,
    session: Option<SessionReady>,
    done: Option<TurnDone>,
    rounds: u32,
    events: usize,
    excess: Option<String>,
}

impl Guard {
    /// Adds an agent event and returns it to be shown. Returns `None` once the turn exceeds a
    /// limit; see [`Guard::excess`].
    pub(super) fn event(&mut self, event: AgentEventKind) -> Option<AgentEventKind> {
        if self.excess.is_some() {
            return None;
        }
        self.events += 1;
        let start = event.tool_start().filter(|start| self.transcript.tool(&start.id).is_none());
        let begins = start.map(|start| start.parent.is_none());
        if self.events > EVENTS {
            self.excess = Some(format!("more than {EVENTS} events"));
        } else if begins.is_some() && self.transcript.tools().len() >= TOOLS {
            self.excess = Some(format!("more than {TOOLS} tool uses"));
        }
        if self.excess.is_some() {
            return None;
        }
        self.rounds += u32::from(begins == Some(true));
        self.transcript.apply(&event);
        Some(event)
    }

    /// Returns the limit that the turn exceeded. Everything after that was dropped.
    #[must_use]
    pub(super) fn excess(&self) -> Option<&str> {
        self.excess.as_deref()
    }

    /// Stores the agent's session and returns its id.
    ///
    /// # Errors
    /// [`InvalidSessionId`] for an id that could be taken for a flag or a path.
    pub(super) fn session(&mut self, ready: SessionReady) -> Result<&str, InvalidSessionId> {
        SessionId::new(&ready.native_id)?;
        Ok(&self.session.insert(ready).native_id)
    }

    /// Ends the turn. Returns the end events of tools that the agent left open.
    pub(super) fn done(&mut self, done: TurnDone) -> Vec<AgentEventKind> {
        self.done = Some(done);
        self.close_tools()
    }

    /// Ends the open tools as cancelled, and returns their end events.
    pub(super) fn close_tools(&mut self) -> Vec<AgentEventKind> {
        let cancelled = |id: &str| ToolEnd {
            id: id.to_owned(),
            status: ToolStatus::Cancelled,
            output: None,
            exit_code: None,
            diffs: Vec::new(),
        };
        let ends: Vec<ToolEnd> =
            self.transcript.open_tools().map(|tool| cancelled(&tool.start.id)).collect();
        ends.iter().for_each(|end| self.transcript.end_tool(end));
        ends.into_iter().map(AgentEventKind::ToolEnd).collect()
    }

    /// Returns whether the guest has ended the turn.
    #[must_use]
    pub(super) fn is_done(&self) -> bool {
        self.done.is_some()
    }

    /// Returns the number of tool uses of the agent itself, without those of sub-agents.
    #[must_use]
    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }

    #[must_use]
    pub(super) fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Returns the transcript, the session and the guest's end of the turn.
    #[must_use]
    pub(super) fn into_parts(self) -> (Transcript, Option<SessionReady>, Option<TurnDone>) {
        (self.transcript, self.session, self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::{ToolStart, TurnOutcome};

    fn tool(id: &str, parent: Option<&str>) -> AgentEventKind {
        AgentEventKind::ToolStart(ToolStart {
            id: id.into(),
            parent: parent.map(str::to_owned),
            kind: "bash".into(),
            native_name: "Bash".into(),
            title: String::new(),
            target: None,
            input: "{}".into(),
        })
    }

    #[test]
    fn tools_left_open_are_cancelled_at_the_end() {
        let mut guard = Guard::default();
        guard.event(tool("t", None));
        let ends = guard.done(TurnDone {
            session: 1,
            turn: 1,
            outcome: TurnOutcome::Completed,
            text: None,
            usage: None,
        });
        assert!(
            matches!(&ends[..], [AgentEventKind::ToolEnd(end)] if end.id == "t" && end.status == ToolStatus::Cancelled)
        );
        assert_eq!(guard.transcript().open_tools().count(), 0);
    }

    #[test]
    fn rounds_count_the_agents_own_tools_once() {
        let mut guard = Guard::default();
        for event in [tool("a", None), tool("a", None), tool("b", Some("a")), tool("c", None)] {
            guard.event(event);
        }
        assert_eq!(guard.rounds(), 2);
    }

    #[test]
    fn tool_uses_and_events_of_a_turn_are_limited() {
        let mut guard = Guard::default();
        let taken = (0..TOOLS + 500)
            .filter(|number| guard.event(tool(&number.to_string(), None)).is_some())
            .count();
        assert_eq!((taken, guard.transcript().tools().len()), (TOOLS, TOOLS));
        assert_eq!(guard.excess(), Some("more than 10000 tool uses"));
        let mut guard = Guard::default();
        let again = || tool("the same", None);
        let taken = (0..EVENTS + 500).filter(|_| guard.event(again()).is_some()).count();
        assert_eq!((taken, guard.excess()), (EVENTS, Some("more than 1000000 events")));
    }

    /// Returns the processor time of this thread in nanoseconds, so that other work on the machine
    /// does not count.
    fn busy(work: impl FnOnce()) -> u64 {
        let now = || {
            let stat =
                std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts");
            stat.split(' ')
                .next()
                .and_then(|spent| spent.parse::<u64>().ok())
                .expect("nanoseconds come first")
        };
        let before = now();
        work();
        now() - before
    }

    #[test]
    fn the_work_of_a_turn_grows_linearly_with_its_events() {
        let turn = |tools: usize| {
            let mut guard = Guard::default();
            for number in 0..tools {
                guard.event(tool(
                    &format!("a rather long id of a tool, as agents make them, number {number}"),
                    None,
                ));
            }
            assert_eq!(guard.close_tools().len(), tools);
        };
        // Both cases have the same number of tools. The fastest of three runs counts, because only
        // the growth matters.
        let cost = |turns: usize| {
            (0..3)
                .map(|_| busy(|| (0..turns).for_each(|_| turn(TOOLS * 4 / turns))))
                .min()
                .expect("three")
        };
        let (short, long) = (cost(64), cost(4));
        assert!(
            long < short * 6,
            "64 turns took {short} ns, 4 turns {long} ns; quadratic growth would be a factor of 16"
        );
    }

    #[test]
    fn a_session_id_that_could_be_a_flag_is_refused() {
        let mut guard = Guard::default();
        let ready = |id: &str| SessionReady {
            session: 1,
            native_id: id.into(),
            model: None,
            title: None,
            tools: vec![],
        };
        for bad in ["", "-x", "--help", "a b", "a/b", "é", ".x", &"x".repeat(129)] {
            assert!(guard.session(ready(bad)).is_err(), "{bad:?}");
        }
        assert_eq!(guard.session(ready("c3870c18-e052")).expect("fine"), "c3870c18-e052");
        assert_eq!(guard.into_parts().1.expect("kept").native_id, "c3870c18-e052");
    }
}
