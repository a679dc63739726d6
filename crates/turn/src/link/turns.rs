//! The turns of a link and their questions.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc;

use super::LinkReport;
use super::action_error::ActionError;
use super::sessions::{LinkSession, LinkSessions};
use aetheel_model::agent::{Ask, AskDecision, AskKey, AskKind, SessionKey, TurnKey, TurnRef};
use aetheel_recording::conservation::Examination;

pub(super) struct OpenTurn {
    pub(super) turn: TurnRef,
    /// The correlation id.
    pub(super) id: String,
    pub(super) event: u64,
    pub(super) reports: mpsc::UnboundedSender<LinkReport>,
    /// Whether the guest has ended the turn.
    pub(super) done: bool,
}

struct OpenAsk {
    turn: TurnKey,
    /// The ids of its questions whose answers are secret.
    secrets: Vec<String>,
}

#[derive(Default)]
pub(super) struct LinkTurns {
    open: BTreeMap<TurnKey, OpenTurn>,
    pub(super) sessions: LinkSessions,
    asks: BTreeMap<AskKey, OpenAsk>,
}

impl LinkTurns {
    pub(super) fn begin(&mut self, open: OpenTurn, session: LinkSession) {
        self.sessions.turn_begins(open.turn, session);
        self.open.insert(open.turn.turn, open);
    }

    /// Ends a turn and its open questions.
    pub(super) fn end(&mut self, turn: TurnKey) -> Option<OpenTurn> {
        let open = self.open.remove(&turn)?;
        self.asks.retain(|_, ask| ask.turn != turn);
        Some(open)
    }

    /// Removes a turn before its end.
    pub(super) fn give_up(&mut self, turn: TurnKey) -> Option<OpenTurn> {
        self.open.remove(&turn)
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

    pub(super) fn any_running(&self) -> bool {
        self.open.values().any(|open| !open.done)
    }

    /// Returns the open turn and its session, if exactly one turn is open.
    pub(super) fn only(&self) -> Option<(&OpenTurn, &LinkSession)> {
        let only = self.open.values().next().filter(|_| self.open.len() == 1)?;
        Some((only, self.sessions.get(only.turn.session)?))
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

    /// Sends a report to all open turns.
    pub(super) fn report_all(&self, report: impl Fn() -> LinkReport) {
        for open in self.open.values() {
            // Fails if the driver has already finished.
            let _ = open.reports.send(report());
        }
    }

    /// Examines the output of all turns that the guest has not ended, and reports the results.
    pub(super) fn report_examined(&self, examine: impl Fn(TurnKey) -> Examination) {
        for open in self.open.values().filter(|open| !open.done) {
            let _ = open.reports.send(LinkReport::Examined(examine(open.turn.turn)));
        }
    }

    /// Sends a report to a turn.
    ///
    /// # Errors
    /// Returns an error if the turn is not open.
    pub(super) fn report(&self, turn: TurnRef, report: LinkReport) -> Result<(), ActionError> {
        match self.open.get(&turn.turn) {
            Some(open) if open.turn == turn && !open.done => {
                let _ = open.reports.send(report);
                Ok(())
            }
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
        if !self.open.contains_key(&ask.turn) || self.asks.contains_key(&ask.ask) {
            return false;
        }
        let secrets = match &ask.kind {
            AskKind::Questions(questions) => questions
                .iter()
                .filter(|question| question.secret)
                .map(|question| question.id.clone())
                .collect(),
            _ => Vec::new(),
        };
        self.asks.insert(ask.ask, OpenAsk { turn: ask.turn, secrets });
        true
    }

    /// Adds the key of a call that the audience carries out. Returns false if its turn is not open
    /// or the key is in use.
    pub(super) fn delegate(&mut self, turn: TurnRef, key: AskKey) -> bool {
        if !self.open.contains_key(&turn.turn) || self.asks.contains_key(&key) {
            return false;
        }
        self.asks.insert(key, OpenAsk { turn: turn.turn, secrets: Vec::new() });
        true
    }

    /// Closes an answered question. Returns the ids of its parts whose answers are secret, or
    /// `None` if the question is not open.
    pub(super) fn close_ask(&mut self, ask: AskKey) -> Option<Vec<String>> {
        self.asks.remove(&ask).map(|ask| ask.secrets)
    }

    /// Closes a question that was answered before a restart of the gateway, and reports that to its
    /// turn.
    pub(super) fn close_ask_as_recorded(&mut self, ask: AskKey, decision: AskDecision) {
        let asked_in = self.asks.remove(&ask).and_then(|ask| self.open.get(&ask.turn));
        if let Some(open) = asked_in {
            let _ = open.reports.send(LinkReport::Answered(ask, decision));
        }
    }

    /// Reports to a continued turn that all of its earlier reports have been sent.
    pub(super) fn caught_up(&self, turn: TurnKey, spent: Duration, elapsed: Duration) {
        if let Some(open) = self.open.get(&turn) {
            let _ = open.reports.send(LinkReport::CaughtUp { spent, elapsed });
        }
    }

    /// Returns the key of the open turn with a correlation id.
    pub(super) fn by_id(&self, id: &str) -> Option<TurnKey> {
        self.open.values().find(|open| open.id == id).map(|open| open.turn.turn)
    }

    /// Closes a question that the agent withdrew, and reports that to its turn.
    pub(super) fn withdraw(&mut self, ask: AskKey) {
        let asked_in = self.asks.remove(&ask).and_then(|ask| self.open.get(&ask.turn));
        if let Some(open) = asked_in {
            let _ = open.reports.send(LinkReport::Withdrawn(ask));
        }
    }

    /// Closes all questions as withdrawn.
    pub(super) fn withdraw_all(&mut self) {
        let asks: Vec<AskKey> = self.asks.keys().copied().collect();
        asks.into_iter().for_each(|ask| self.withdraw(ask));
    }

    pub(super) fn has_asks(&self) -> bool {
        !self.asks.is_empty()
    }
}
