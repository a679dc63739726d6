//! The purpose for which a start is prepared.

/// Decides which parts are checked, and whether anything may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To serve Discord, which needs a token.
    Serve,
    /// To serve the terminal, or to answer one prompt.
    Console,
    /// Only to check everything, including the faulty entries and files that a start ignores.
    Check,
    /// The same as [`Purpose::Check`], while a gateway runs.
    Rehearse,
}

impl Purpose {
    /// Returns whether everything is only checked, and nothing is changed or started.
    #[must_use]
    pub fn only_checks(self) -> bool {
        matches!(self, Self::Check | Self::Rehearse)
    }
}
