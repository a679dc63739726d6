//! Purposes of preparing a start.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Discord, which needs a token.
    Serve,
    /// The terminal, or one question.
    Talk,
    /// Only to look, also at what the others go on without.
    Look,
    /// As [`Purpose::Look`], beside a gateway that runs.
    Rehearse,
}

impl Purpose {
    /// Whether everything is looked at, and nothing started.
    #[must_use]
    pub fn looks(self) -> bool {
        matches!(self, Self::Look | Self::Rehearse)
    }
}
