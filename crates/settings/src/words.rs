//! Settings that are words and concern only the program.

/// Whether an agent mends a backend that lost replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MendMode {
    /// No agent is started.
    Off,
    /// An agent makes a change, and an owner decides about it.
    Ask,
    /// An agent makes a change, and it is installed if it passes all tests.
    Auto,
}

impl MendMode {
    pub(super) const WORDS: [(&str, Self); 3] =
        [("off", Self::Off), ("ask", Self::Ask), ("auto", Self::Auto)];
}

/// Whether agents outlive the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderMode {
    /// Agents outlive the gateway if a holder (the process that keeps them while it restarts) is
    /// available.
    Auto,
    /// Agents must outlive the gateway. It does not start without a holder.
    Require,
    /// Agents end with the gateway.
    Off,
}

impl HolderMode {
    pub(super) const WORDS: [(&str, Self); 3] =
        [("auto", Self::Auto), ("require", Self::Require), ("off", Self::Off)];
}
