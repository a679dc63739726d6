//! The turns of a link and their questions.

mod unsolicited;

use std::collections::BTreeMap;

use self::unsolicited::UnsolicitedTurns;
use super::LinkReport;
use super::action_error::ActionError;
use super::effects::{LinkEffect, LinkEffects};
use super::sessions::{LinkSession, LinkSessions};
use aetheel_model::agent::{Ask, AskDecision, AskKey, AskKind, SessionKey, TurnKey, TurnRef};
use aetheel_model::event::Lane;

/// The names of a turn in the recording.
#[derive(Clone)]
pub(super) struct TurnNames {
    /// The correlation id.
    pub(super) id: String,
    /// The event's sequence number.
    pub(super) event: u64,
    pub(super) lane: Lane,
}

pub(super) struct OpenTurn {
    pub(super) turn: TurnRef,
    /// The correlation id.
    pub(super) id: String,
    pub(super) event: u64,
    /// Whether the guest has ended the turn.
    pub(super) done: bool,
}

/// An open question of the guest, or of a call of a host tool.
pub(super) struct OpenAsk {
    pub(super) turn: TurnKey,
    /// The ids of its parts whose answers are secret.
    pub(super) secrets: Vec<String>,
}

#[derive(Default)]
pub(super) struct LinkTurns {
    open: BTreeMap<TurnKey, OpenTurn>,
    pub(super) sessions: LinkSessions,
    /// The open questions.
    pub(super) asks: BTreeMap<AskKey, OpenAsk>,
    pub(super) unsolicited: UnsolicitedTurns,
    /// The effects of all entries of the recording, most of which are reports to these turns.
    pub(super) effects: LinkEffects,
    /// The names of the turn that begins next.
    pub(super) next: Option<TurnNames>,
}

impl LinkTurns {
    pub(super) fn begin(&mut self, open: OpenTurn, session: LinkSession) {
        self.sessions.turn_begins(open.turn, session);
        self.open.insert(open.turn.turn, open);
    }

    /// Ends the turn with a correlation id, and its open questions.
    pub(super) fn end(&mut self, id: &str) -> Option<OpenTurn> {
        let turn = self.open.values().find(|open| open.id == id)?.turn.turn;
        let open = self.open.remove(&turn)?;
        self.asks.retain(|_, ask| ask.turn != turn);
        Some(open)
    }

    /// Removes a turn before its end. Returns false if it is not open.
    pub(super) fn give_up(&mut self, turn: TurnKey) -> bool {
        self.open.remove(&turn).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn contains(&self, turn: TurnRef) -> bool {
        self.open.contains_key(&turn.turn)
    }

    /// Returns whether the turn is open and the guest has not ended it.
    pub(super) fn is_running(&self, turn: TurnRef) -> bool {
        self.open.get(&turn.turn).is_some_and(|open| !open.done)
    }

    /// Returns the number of turns, including the one that is about to begin.
    pub(super) fn count(&self) -> usize {
        self.open.len() + usize::from(self.next.is_some())
    }

    /// Returns the names of the turn that is open or about to begin, if it is the only one.
    pub(super) fn only(&self) -> Option<TurnNames> {
        if self.count() != 1 {
            return None;
        }
        let Some(open) = self.open.values().next() else { return self.next.clone() };
        let lane = self.sessions.get(open.turn.session)?.lane.clone();
        Some(TurnNames { id: open.id.clone(), event: open.event, lane })
    }

    /// Returns the correlation id of an open turn.
    pub(super) fn id(&self, turn: TurnKey) -> Option<String> {
        self.open.get(&turn).map(|open| open.id.clone())
    }

    pub(super) fn ids(&self) -> Vec<&str> {
        self.open.values().map(|open| open.id.as_str()).collect()
    }

    /// Marks a turn as ended by the guest.
    pub(super) fn set_done(&mut self, turn: TurnRef) {
        if let Some(open) = self.open.get_mut(&turn.turn).filter(|open| open.turn == turn) {
            open.done = true;
        }
    }

    /// Returns the keys of the turns that the guest has not ended.
    pub(super) fn running(&self) -> Vec<TurnKey> {
        self.open.values().filter(|open| !open.done).map(|open| open.turn.turn).collect()
    }

    /// Checks that the guest may report something to a turn.
    ///
    /// # Errors
    /// Returns an error if the turn is not open, or the guest has ended it.
    pub(super) fn check_running(&self, turn: TurnRef) -> Result<(), ActionError> {
        match self.open.get(&turn.turn) {
            Some(open) if open.turn == turn && !open.done => Ok(()),
            Some(_) => Err(ActionError::TurnEnded),
            None => Err(ActionError::TurnNotOpen(turn)),
        }
    }

    /// Returns the open turn of a session, if there is one.
    pub(super) fn of_session(&self, session: SessionKey) -> Option<&OpenTurn> {
        self.open.values().find(|open| open.turn.session == session)
    }

    /// Adds a question. Returns false if its turn is not open or its key is in use.
    pub(super) fn ask(&mut self, ask: &Ask) -> bool {
        let secrets = match &ask.kind {
            AskKind::Questions(questions) => questions
                .iter()
                .filter(|question| question.secret)
                .map(|question| question.id.clone())
                .collect(),
            _ => Vec::new(),
        };
        self.add_ask(ask.turn, ask.ask, secrets)
    }

    /// Adds a question, or a call that the audience carries out. Returns false if its turn is not
    /// open or the key is in use.
    pub(super) fn add_ask(&mut self, turn: TurnKey, key: AskKey, secrets: Vec<String>) -> bool {
        let is_free = self.open.contains_key(&turn) && !self.asks.contains_key(&key);
        if is_free {
            self.asks.insert(key, OpenAsk { turn, secrets });
        }
        is_free
    }

    /// Reports to all open turns.
    pub(super) fn report_all(&mut self, report: impl Fn() -> LinkReport) {
        self.open.keys().for_each(|turn| self.effects.report(*turn, report()));
    }

    /// Reports to a turn, or applies the report to a turn that the agent began by itself. `what` is
    /// the kind of the action that has no effect if the turn is not running.
    pub(super) fn report(&mut self, turn: TurnRef, what: &'static str, report: LinkReport) {
        if self.unsolicited.contains(turn) {
            self.report_to_unsolicited(turn, report);
        } else if let Err(error) = self.check_running(turn) {
            self.effects.dropped(what, error);
        } else {
            self.effects.report(turn.turn, report);
        }
    }

    /// Repeats the request of a driver to the next one, unless the guest has ended the turn.
    pub(super) fn repeat(&mut self, turn: TurnRef, report: LinkReport) {
        if self.check_running(turn).is_ok() {
            self.effects.push(LinkEffect::Repeat(turn.turn, report));
        }
    }

    /// Closes a question whose answer is recorded.
    pub(super) fn answered(&mut self, ask: AskKey, decision: AskDecision) {
        if let Some(open) = self.asks.remove(&ask) {
            let report = LinkReport::Answered(ask, decision);
            self.effects.push(LinkEffect::Repeat(open.turn, report));
        }
    }

    /// Closes a question that the agent does not need any more, and reports that to its turn.
    pub(super) fn withdraw(&mut self, ask: AskKey) {
        if let Some(open) = self.asks.remove(&ask) {
            self.effects.report(open.turn, LinkReport::Withdrawn(ask));
        }
    }
}
