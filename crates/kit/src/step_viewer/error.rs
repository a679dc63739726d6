//! The reason why a recorded turn cannot be shown or replayed. The texts are for owners.

use std::io;

use aetheel_turn::recording::{MAX_READ_BYTES, ReadError};
use aetheel_turn::{GuestFailure, VersionError};

use super::REPLAY_TIMEOUT;

/// The reason why a recorded turn cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum StepViewerError {
    /// The turn's record names a path outside of the folder of recordings, or not a recording.
    #[error("the record of this turn names no recording")]
    NotARecording,
    /// The file does not exist.
    #[error(
        "the recording no longer exists: recordings are deleted by age and when they take too much space"
    )]
    Deleted,
    /// The file cannot be opened.
    #[error("the recording cannot be opened: {0}")]
    Open(#[source] io::Error),
    /// The file cannot be read while the steps are searched for.
    #[error("the recording cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The file was readable when the turn was opened, but is not now.
    #[error("the recording cannot be read any more: {0}")]
    Reread(#[source] io::Error),
    /// The file has this number of bytes, which is more than the limit.
    #[error(
        "the recording has {} MiB, and at most {} are read here; `aetheel backend replay` reads it",
        .0 >> 20,
        MAX_READ_BYTES >> 20
    )]
    TooLarge(u64),
    /// The file has no complete line, or its first line is not a header of a known format.
    #[error(transparent)]
    Header(#[from] ReadError),
    /// The turn was not found, and why the recording ends early, if it does.
    #[error(
        "the recording does not contain this turn{}",
        .0.as_ref().map(|fault| format!(" ({fault})")).unwrap_or_default()
    )]
    NoSuchTurn(Option<String>),
    /// The thread that read the recording was stopped.
    #[error("the gateway is shutting down")]
    ShuttingDown,
}

/// The reason why another component cannot replay a turn.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReplayError {
    /// The component does not exist or may not be used.
    #[error(transparent)]
    Component(#[from] VersionError),
    /// The first guest cannot be opened.
    #[error("no guest can be opened: {0}")]
    FirstGuest(#[source] GuestFailure),
    /// A guest that replaces another one cannot be opened.
    #[error("no further guest can be opened: {0}")]
    FurtherGuest(#[source] GuestFailure),
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] StepViewerError),
    /// The thread that reads the recording panicked or was stopped.
    #[error(transparent)]
    Reader(#[from] tokio::task::JoinError),
    /// The replay takes longer than the time limit.
    #[error("the replay took longer than {} s", REPLAY_TIMEOUT.as_secs())]
    Timeout,
}
