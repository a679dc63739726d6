//! The host invariants of one turn: whatever a guest does or forgets, people see one ordered story with one end.
//!
//! Pure. Pinned by the tests below.

use crate::agent::{AgentEvent, EventKind, SessionReady, ToolEnd, ToolStatus, TurnDone, TurnRef};
use crate::fold::Transcript;
use crate::workspace::SessionId;

/// Watches over one turn.
#[derive(Debug)]
pub struct Guard {
    turn: TurnRef,
    transcript: Transcript,
    session: Option<SessionReady>,
    done: Option<TurnDone>,
    rounds: u32,
}

/// Why a report of the guest is dropped; worth a log line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Dropped {
    /// It names a turn that is not open.
    #[error("it names turn {} of session {}, which is not open", .0.turn, .0.session)]
    OtherTurn(TurnRef),
    /// The turn has ended.
    #[error("the turn has ended")]
    AfterEnd,
    /// Not fit to be passed to an agent again.
    #[error("{0:?} is not a session id")]
    SessionId(String),
}

impl Guard {
    /// Begins watching.
    #[must_use]
    pub fn new(turn: TurnRef) -> Self {
        Self { turn, transcript: Transcript::default(), session: None, done: None, rounds: 0 }
    }

    /// Takes an agent-event in and returns it, to be shown.
    ///
    /// # Errors
    /// [`Dropped`] for an event outside the turn.
    pub fn event(&mut self, event: AgentEvent) -> Result<EventKind, Dropped> {
        self.open(TurnRef { session: event.session, turn: event.turn })?;
        if matches!(&event.kind, EventKind::ToolStart(start) if start.parent.is_none()) {
            let known = self.transcript.tools().len();
            self.transcript.apply(&event.kind);
            self.rounds += u32::from(self.transcript.tools().len() > known);
        } else {
            self.transcript.apply(&event.kind);
        }
        Ok(event.kind)
    }

    /// Takes note of the agent's session.
    ///
    /// # Errors
    /// [`Dropped`] for another session or an id that could be taken for a flag or a path.
    pub fn session(&mut self, ready: SessionReady) -> Result<(), Dropped> {
        if ready.session != self.turn.session {
            return Err(Dropped::OtherTurn(TurnRef { session: ready.session, turn: self.turn.turn }));
        }
        if SessionId::new(&ready.native_id).is_err() {
            return Err(Dropped::SessionId(ready.native_id));
        }
        self.session = Some(ready);
        Ok(())
    }

    /// Ends the turn; returns the ends of tools the agent left open.
    ///
    /// # Errors
    /// [`Dropped`] for a second end or another turn's.
    pub fn done(&mut self, done: TurnDone) -> Result<Vec<EventKind>, Dropped> {
        self.open(TurnRef { session: done.session, turn: done.turn })?;
        self.done = Some(done);
        Ok(self.close_tools())
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

    fn open(&self, turn: TurnRef) -> Result<(), Dropped> {
        if turn != self.turn {
            Err(Dropped::OtherTurn(turn))
        } else if self.done.is_some() {
            Err(Dropped::AfterEnd)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Outcome, Text, ToolStart};

    const TURN: TurnRef = TurnRef { session: 1, turn: 1 };

    fn text(turn: u32, text: &str) -> AgentEvent {
        AgentEvent { session: 1, turn, kind: EventKind::Text(Text { part: 0, text: text.into(), replace: false }) }
    }

    fn done(turn: u32) -> TurnDone {
        TurnDone { session: 1, turn, outcome: Outcome::Completed, text: None, usage: None }
    }

    fn tool(id: &str, parent: Option<&str>) -> AgentEvent {
        let start = ToolStart {
            id: id.into(),
            parent: parent.map(str::to_owned),
            kind: "bash".into(),
            native_name: "Bash".into(),
            title: String::new(),
            target: None,
            input: "{}".into(),
        };
        AgentEvent { session: 1, turn: 1, kind: EventKind::ToolStart(start) }
    }

    #[test]
    fn a_turn_ends_once_and_nothing_follows() {
        let mut guard = Guard::new(TURN);
        assert!(guard.event(text(1, "a")).is_ok());
        assert_eq!(guard.event(text(2, "b")), Err(Dropped::OtherTurn(TurnRef { session: 1, turn: 2 })));
        assert!(guard.done(done(1)).is_ok());
        assert_eq!(guard.done(done(1)), Err(Dropped::AfterEnd));
        assert_eq!(guard.event(text(1, "c")), Err(Dropped::AfterEnd));
        assert_eq!(guard.transcript().text(), "a");
    }

    #[test]
    fn tools_left_open_are_cancelled_at_the_end() {
        let mut guard = Guard::new(TURN);
        guard.event(tool("t", None)).expect("open");
        let ends = guard.done(done(1)).expect("first");
        assert!(matches!(&ends[..], [EventKind::ToolEnd(end)] if end.id == "t" && end.status == ToolStatus::Cancelled));
        assert_eq!(guard.transcript().open_tools().count(), 0);
    }

    #[test]
    fn rounds_count_the_agents_own_tools_once() {
        let mut guard = Guard::new(TURN);
        for event in [tool("a", None), tool("a", None), tool("b", Some("a")), tool("c", None)] {
            guard.event(event).expect("open");
        }
        assert_eq!(guard.rounds(), 2);
    }

    #[test]
    fn a_session_id_that_could_be_a_flag_is_not_kept() {
        let mut guard = Guard::new(TURN);
        let ready = |id: &str| SessionReady { session: 1, native_id: id.into(), model: None, title: None };
        for bad in ["", "-x", "--help", "a b", "a/b", "é", ".x", &"x".repeat(129)] {
            assert!(matches!(guard.session(ready(bad)), Err(Dropped::SessionId(_))), "{bad:?}");
        }
        guard.session(ready("c3870c18-e052")).expect("fine");
        assert_eq!(guard.into_parts().1.expect("kept").native_id, "c3870c18-e052");
    }
}
