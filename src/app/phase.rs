//! The phase of the program, published by [`crate::app`] and watched by the status pages and the
//! service manager.

/// Phase of the program between its start and its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgramPhase {
    /// The program is starting, and not connected to Discord yet.
    #[default]
    Starting,
    /// The program waits for the database of the cluster.
    Joining,
    /// The program accepts prompts.
    Ready,
    /// The program is shutting down and accepts nothing new.
    Draining,
}
