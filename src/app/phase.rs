//! The phase of the program, published by [`crate::app`] and watched by the status pages and the
//! service manager.

/// A stretch of the program's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not ready yet: Discord or the agent is being looked for.
    #[default]
    Starting,
    /// The database of the cluster is waited for.
    Joining,
    /// Prompts are taken.
    Ready,
    /// On the way out: nothing new is taken.
    Draining,
}
