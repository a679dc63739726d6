//! The reason why a recorded turn cannot be shown. The text is for owners.

use std::io;

use aetheel_recording::{MAX_READ_BYTES, ReadError};

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
