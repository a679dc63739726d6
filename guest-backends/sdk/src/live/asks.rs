use std::collections::BTreeMap;

use crate::Offer;
use crate::wit::{Action, AskKind, TurnRef};

/// The open questions to people, each with what the backend wants to remember of it (`W`): the
/// agent's id of the request, what its options mean.
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
    /// Counts on from a key another link came to.
    #[must_use]
    pub fn counting_from(last: u32) -> Self {
        Self { last, ..Self::default() }
    }

    /// The last key that was used.
    #[must_use]
    pub fn last(&self) -> u32 {
        self.last
    }

    /// Whether nothing is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Asks people in a turn.
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

    /// Closes one that was decided; none: it was withdrawn, or its turn is over.
    pub fn take(&mut self, ask: u32) -> Option<W> {
        self.open.remove(&ask).map(|(_, what)| what)
    }

    /// Whether one that fits is open.
    pub fn any(&self, fits: impl Fn(&W) -> bool) -> bool {
        self.open.values().any(|(_, what)| fits(what))
    }

    /// Takes back those that fit: the agent no longer wants to know.
    pub fn withdraw(&mut self, fits: impl Fn(&W) -> bool, out: &mut Vec<Action>) {
        self.open.retain(|ask, (_, what)| {
            let fits = fits(what);
            if fits {
                out.push(Action::AskWithdrawn(*ask));
            }
            !fits
        });
    }

    /// Closes all of a session whose turn is over, and returns them with their keys; the host takes
    /// them back by itself.
    pub fn close(&mut self, session: u32) -> Vec<(u32, W)> {
        let (closed, open) =
            std::mem::take(&mut self.open).into_iter().partition(|(_, (of, _))| *of == session);
        self.open = open;
        let closed: BTreeMap<u32, (u32, W)> = closed;
        closed.into_iter().map(|(ask, (_, what))| (ask, what)).collect()
    }

    /// Closes all: there is nobody to tell.
    pub fn clear(&mut self) {
        self.open.clear();
    }
}
