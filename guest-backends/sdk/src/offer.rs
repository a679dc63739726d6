use crate::wit::{Ask, AskKind, AskOption, FileDiff, TurnRef};

/// The details of a question in addition to its subject, such as the label for "always" and the
/// agent's own answers. Converts from an optional label.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offer {
    /// The label of the answer "always", or `None` if it is not offered.
    pub always: Option<String>,
    /// The agent's own answers.
    pub options: Vec<AskOption>,
    /// The changes that would be made to files.
    pub diffs: Vec<FileDiff>,
    /// Whether the agent accepts another input instead of its own.
    pub changeable: bool,
    /// The id of the tool use whose sub-agent asks, or `None` if the agent itself asks.
    pub parent: Option<String>,
    /// Milliseconds after which the agent stops waiting, or `None` if it waits as long as the host.
    pub deadline_ms: Option<u32>,
}

impl From<Option<String>> for Offer {
    fn from(always: Option<String>) -> Self {
        Self { always, ..Self::default() }
    }
}

impl Offer {
    pub(crate) fn ask(self, ask: u32, turn: TurnRef, title: String, kind: AskKind) -> Ask {
        let TurnRef { session, turn } = turn;
        let Self { always, options, diffs, changeable, parent, deadline_ms } = self;
        Ask {
            ask,
            session,
            turn,
            title,
            kind,
            always_label: always,
            options,
            diffs,
            changeable,
            parent,
            deadline_ms,
        }
    }
}
