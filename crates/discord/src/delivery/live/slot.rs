//! One message of an answer, and its buttons.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotButtons {
    /// The buttons are not known, for example because a previous process set them.
    Unknown,
    Nothing,
    /// A disabled button that says that the rest follows.
    More,
    /// The button that stops the turn.
    Stop,
}

#[derive(Debug)]
pub(super) struct AnswerSlot {
    pub(super) nonce: String,
    /// The id of the message. `None` if it does not exist, or is not known to exist.
    pub(super) id: Option<u64>,
    pub(super) shown: String,
    pub(super) buttons: SlotButtons,
    /// Whether the message was sent through a command, because the bot may not post. Such a message
    /// is never edited.
    pub(super) fixed: bool,
}

impl AnswerSlot {
    /// Returns whether the message already shows this text and these buttons.
    pub(super) fn shows(&self, piece: &str, below: SlotButtons) -> bool {
        self.fixed || (self.shown == piece && self.buttons == below)
    }
}
