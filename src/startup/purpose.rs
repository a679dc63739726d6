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
}
