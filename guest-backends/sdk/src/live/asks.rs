use std::collections::BTreeMap;

use crate::Offer;
use crate::wit::{Action, AskKind, TurnRef};

/// The open questions to users. Each has a value of the backend (`W`), such as the agent's id of
/// the request or the meaning of its options.
#[derive(Clone, Debug)]
pub struct Asks<W> {
    last: u32,
    open: BTreeMap<u32, (u32, W)>,
}

impl<W> Default for Asks<W> {
    fn default() -> Self {
        Self { last: 0, open: BTreeMap::new() }
    }
}

impl<W> Asks<W> {
    /// Continues after the last key that another instance used.
    #[must_use]
    pub fn counting_from(last: u32) -> Self {
        Self { last, ..Self::default() }
    }

    /// Returns the last key that was used.
    #[must_use]
    pub fn last(&self) -> u32 {
        self.last
    }

    /// Returns whether no question is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Asks the user a question in a turn.
    pub fn ask(
        &mut self,
        turn: TurnRef,
        title: impl Into<String>,
        kind: AskKind,
        offer: impl Into<Offer>,
        what: W,
        out: &mut Vec<Action>,
    ) {
        self.last += 1;
        self.open.insert(self.last, (turn.session, what));
        out.push(Action::Ask(offer.into().ask(self.last, turn, title.into(), kind)));
    }

    /// Closes a question that was decided. Returns `None` if it was withdrawn or its turn is over.
    pub fn take(&mut self, ask: u32) -> Option<W> {
        self.open.remove(&ask).map(|(_, what)| what)
    }

    /// Returns whether an open question fits.
    pub fn any(&self, fits: impl Fn(&W) -> bool) -> bool {
        self.open.values().any(|(_, what)| fits(what))
    }

    /// Withdraws the questions that fit, because the agent no longer needs an answer.
    pub fn withdraw(&mut self, mut fits: impl FnMut(&W) -> bool, out: &mut Vec<Action>) {
        self.open.retain(|ask, (_, what)| {
            let fits = fits(what);
            if fits {
                out.push(Action::AskWithdrawn(*ask));
            }
            !fits
        });
    }

    /// Closes all questions of a session whose turn is over, and returns them with their keys. The
    /// host withdraws them by itself.
    pub fn close(&mut self, session: u32) -> Vec<(u32, W)> {
        let (closed, open) =
            std::mem::take(&mut self.open).into_iter().partition(|(_, (of, _))| *of == session);
        self.open = open;
        let closed: BTreeMap<u32, (u32, W)> = closed;
        closed.into_iter().map(|(ask, (_, what))| (ask, what)).collect()
    }

    /// Closes all questions without an answer, because the agent is gone.
    pub fn clear(&mut self) {
        self.open.clear();
    }
}
