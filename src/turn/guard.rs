//! The host invariants of one turn: whatever a guest does or forgets, people see one ordered story with one end.
//!
//! Pure. Pinned by the tests below.

use crate::agent::{EventKind, SessionReady, ToolEnd, ToolStatus, TurnDone};
use crate::fold::Transcript;
use crate::workspace::{BindingsError, SessionId};

/// Watches over one turn. What does not belong to the turn is dropped by its link.
#[derive(Debug, Default)]
pub struct Guard {
    transcript: Transcript,
    session: Option<SessionReady>,
    done: Option<TurnDone>,
    rounds: u32,
}

impl Guard {
    /// Takes an agent-event in and returns it, to be shown.
    pub fn event(&mut self, event: EventKind) -> EventKind {
        if matches!(&event, EventKind::ToolStart(start) if start.parent.is_none()) {
            let known = self.transcript.tools().len();
            self.transcript.apply(&event);
            self.rounds += u32::from(self.transcript.tools().len() > known);
        } else {
            self.transcript.apply(&event);
        }
        event
    }

    /// Takes note of the agent's session and returns its id.
    ///
    /// # Errors
    /// [`BindingsError::InvalidSession`] for an id that could be taken for a flag or a path.
    pub fn session(&mut self, ready: SessionReady) -> Result<&str, BindingsError> {
        SessionId::new(&ready.native_id)?;
        Ok(&self.session.insert(ready).native_id)
    }

    /// Ends the turn; returns the ends of tools the agent left open.
    pub fn done(&mut self, done: TurnDone) -> Vec<EventKind> {
        self.done = Some(done);
        self.close_tools()
    }

    /// Ends the tools still open, as cancelled.
    pub fn close_tools(&mut self) -> Vec<EventKind> {
        let ends: Vec<EventKind> = self
            .transcript
            .open_tools()
            .map(|id| {
                let id = id.to_owned();
                EventKind::ToolEnd(ToolEnd { id, status: ToolStatus::Cancelled, output: None, exit_code: None, diffs: Vec::new() })
            })
            .collect();
        ends.iter().for_each(|end| self.transcript.apply(end));
        ends
    }

    /// Whether the guest has ended the turn.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done.is_some()
    }

    /// Tool uses the agent began itself, sub-agents' not counted.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// The turn as told so far.
    #[must_use]
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Everything known at the end.
    #[must_use]
    pub fn into_parts(self) -> (Transcript, Option<SessionReady>, Option<TurnDone>) {
        (self.transcript, self.session, self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Outcome, ToolStart};

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
        let ends = guard.done(TurnDone { session: 1, turn: 1, outcome: Outcome::Completed, text: None, usage: None });
        assert!(matches!(&ends[..], [EventKind::ToolEnd(end)] if end.id == "t" && end.status == ToolStatus::Cancelled));
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
    fn a_session_id_that_could_be_a_flag_is_not_kept() {
        let mut guard = Guard::default();
        let ready = |id: &str| SessionReady { session: 1, native_id: id.into(), model: None, title: None };
        for bad in ["", "-x", "--help", "a b", "a/b", "é", ".x", &"x".repeat(129)] {
            assert!(guard.session(ready(bad)).is_err(), "{bad:?}");
        }
        assert_eq!(guard.session(ready("c3870c18-e052")).expect("fine"), "c3870c18-e052");
        assert_eq!(guard.into_parts().1.expect("kept").native_id, "c3870c18-e052");
    }
}
