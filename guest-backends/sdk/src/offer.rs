use crate::wit::{Ask, AskKind, AskOption, FileDiff, TurnRef};

/// The companions of a question's subject: what "always" means, the agent's own answers, what would
/// be changed. A label for "always", or none, is one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offer {
    /// The meaning of "always"; none: not offered.
    pub always: Option<String>,
    /// The agent's own answers.
    pub options: Vec<AskOption>,
    /// The changes that would be made.
    pub diffs: Vec<FileDiff>,
    /// Whether the agent takes another input.
    pub changeable: bool,
}

impl From<Option<String>> for Offer {
    fn from(always: Option<String>) -> Self {
        Self { always, ..Self::default() }
    }
}

impl Offer {
    pub(crate) fn ask(self, ask: u32, turn: TurnRef, title: String, kind: AskKind) -> Ask {
        let TurnRef { session, turn } = turn;
        let Self { always, options, diffs, changeable } = self;
        Ask { ask, session, turn, title, kind, always_label: always, options, diffs, changeable }
    }
}
