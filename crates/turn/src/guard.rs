//! The host invariants of one turn: whatever a guest does or forgets, people see one ordered story
//! with one end, and one of bounded length.
//!
//! Pure. Pinned by the tests below.

use aetheel_model::agent::{EventKind, SessionReady, ToolEnd, ToolStatus, TurnDone};
use aetheel_model::fold::Transcript;
use aetheel_store::workspace::{BindingsError, SessionId};

/// Tool uses of one turn, those of sub-agents included.
pub(super) const TOOLS: usize = 10_000;
/// Agent-events of one turn.
pub(super) const EVENTS: usize = 1_000_000;

/// Watches over one turn. What does not belong to the turn is dropped by its link.
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
    /// Takes an agent-event in and returns it, to be shown; none once the turn has more than a
    /// turn may: see [`Guard::excess`].
    pub(super) fn event(&mut self, event: EventKind) -> Option<EventKind> {
        if self.excess.is_some() {
            return None;
        }
        self.events += 1;
        let begins = match &event {
            EventKind::ToolStart(start) if self.transcript.tool(&start.id).is_none() => {
                Some(start.parent.is_none())
            }
            _ => None,
        };
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

    /// Which bound the turn broke; what came after that was not taken in.
    #[must_use]
    pub(super) fn excess(&self) -> Option<&str> {
        self.excess.as_deref()
    }

    /// Takes note of the agent's session and returns its id.
    ///
    /// # Errors
    /// [`BindingsError::InvalidSession`] for an id that could be taken for a flag or a path.
    pub(super) fn session(&mut self, ready: SessionReady) -> Result<&str, BindingsError> {
        SessionId::new(&ready.native_id)?;
        Ok(&self.session.insert(ready).native_id)
    }

    /// Ends the turn; returns the ends of tools the agent left open.
    pub(super) fn done(&mut self, done: TurnDone) -> Vec<EventKind> {
        self.done = Some(done);
        self.close_tools()
    }

    /// Ends the tools still open, as cancelled.
    pub(super) fn close_tools(&mut self) -> Vec<EventKind> {
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
        ends.into_iter().map(EventKind::ToolEnd).collect()
    }

    /// Whether the guest has ended the turn.
    #[must_use]
    pub(super) fn is_done(&self) -> bool {
        self.done.is_some()
    }

    /// Tool uses the agent began itself, sub-agents' not counted.
    #[must_use]
    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }

    /// The turn so far.
    #[must_use]
    pub(super) fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Everything known at the end.
    #[must_use]
    pub(super) fn into_parts(self) -> (Transcript, Option<SessionReady>, Option<TurnDone>) {
        (self.transcript, self.session, self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::{Outcome, ToolStart};

    fn tool(id: &str, parent: Option<&str>) -> EventKind {
        EventKind::ToolStart(ToolStart {
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
            outcome: Outcome::Completed,
            text: None,
            usage: None,
        });
        assert!(
            matches!(&ends[..], [EventKind::ToolEnd(end)] if end.id == "t" && end.status == ToolStatus::Cancelled)
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
    fn a_turn_tells_so_much_and_no_more() {
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

    /// Processor time of this thread alone, nanoseconds: other work on the machine does not count.
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
    fn the_work_of_a_turn_grows_with_what_it_tells_and_not_with_its_square() {
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
        // As many tools both times; the quickest of some, because only the shape counts.
        let cost = |turns: usize| {
            (0..3)
                .map(|_| busy(|| (0..turns).for_each(|_| turn(TOOLS * 4 / turns))))
                .min()
                .expect("three")
        };
        let (short, long) = (cost(64), cost(4));
        assert!(
            long < short * 6,
            "in 64 turns {short} ns, in 4 turns {long} ns; with the square it would be 16 times"
        );
    }

    #[test]
    fn a_session_id_that_could_be_a_flag_is_not_kept() {
        let mut guard = Guard::default();
        let ready =
            |id: &str| SessionReady { session: 1, native_id: id.into(), model: None, title: None };
        for bad in ["", "-x", "--help", "a b", "a/b", "é", ".x", &"x".repeat(129)] {
            assert!(guard.session(ready(bad)).is_err(), "{bad:?}");
        }
        assert_eq!(guard.session(ready("c3870c18-e052")).expect("fine"), "c3870c18-e052");
        assert_eq!(guard.into_parts().1.expect("kept").native_id, "c3870c18-e052");
    }
}
