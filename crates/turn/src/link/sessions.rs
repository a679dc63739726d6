//! The sessions of a link.

use std::collections::BTreeMap;

use aetheel_model::agent::{Safety, SessionKey, StartTurn, TurnKey, TurnRef};
use aetheel_model::event::Lane;

/// A session, with the settings of its last turn.
#[derive(Clone)]
pub(crate) struct LinkSession {
    pub(crate) lane: Lane,
    pub(crate) cwd: String,
    pub(super) safety: Safety,
    /// The agent's id of the session, once it is known.
    pub(crate) native: Option<String>,
}

impl LinkSession {
    /// Returns the session of a turn.
    pub(super) fn of(lane: Lane, start: &StartTurn) -> Self {
        let (cwd, safety) = (start.cwd.clone(), start.settings.safety);
        Self { lane, cwd, safety, native: start.native_id.clone() }
    }
}

/// The open sessions of a link.
#[derive(Default)]
pub(super) struct LinkSessions {
    open: BTreeMap<SessionKey, LinkSession>,
    /// The highest key of a turn so far.
    last_turn: TurnKey,
}

impl LinkSessions {
    /// Opens the session of a turn, or updates it.
    pub(super) fn turn_begins(&mut self, turn: TurnRef, mut session: LinkSession) {
        let known = self.open.remove(&turn.session).and_then(|known| known.native);
        session.native = known.or(session.native);
        self.open.insert(turn.session, session);
        self.last_turn = self.last_turn.max(turn.turn);
    }

    /// Restores the sessions of a link that is rebuilt, and the highest key of a turn.
    pub(super) fn restore(
        &mut self,
        sessions: BTreeMap<SessionKey, LinkSession>,
        last_turn: TurnKey,
    ) {
        self.open = sessions;
        self.last_turn = last_turn;
    }

    /// Returns the highest key of a turn so far.
    pub(super) fn last_turn(&self) -> TurnKey {
        self.last_turn
    }

    /// Returns the open sessions in the order of their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SessionKey, &LinkSession)> {
        self.open.iter().map(|(key, session)| (*key, session))
    }

    pub(super) fn get(&self, session: SessionKey) -> Option<&LinkSession> {
        self.open.get(&session)
    }

    /// Sets the agent's id of a session.
    pub(super) fn set_native(&mut self, session: SessionKey, native: &str) {
        if let Some(session) = self.open.get_mut(&session) {
            session.native = Some(native.to_owned());
        }
    }

    /// Removes a session. Returns false if it is not known.
    pub(super) fn close(&mut self, session: SessionKey) -> bool {
        self.open.remove(&session).is_some()
    }
}
