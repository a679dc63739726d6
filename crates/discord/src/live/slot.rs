//! One message of an answer, and what stands below it.

/// The line below a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Below {
    /// A line from an earlier life, whatever it says.
    Unknown,
    Nothing,
    /// That the rest follows.
    More,
    /// The button that stops the turn.
    Stop,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) nonce: String,
    /// None: not made, or not known to be.
    pub(super) id: Option<u64>,
    pub(super) shown: String,
    pub(super) below: Below,
    /// It was sent through a command where the bot may not post: it stays as it is.
    pub(super) fixed: bool,
}

impl Slot {
    /// Whether nothing is to be changed for it to show this.
    pub(super) fn is(&self, piece: &str, below: Below) -> bool {
        self.fixed || (self.shown == piece && self.below == below)
    }
}
