//! The reason why a line that a person typed has no effect.

use crate::files::AttachError;
use crate::folded::NoSuchPart;
use aetheel_dispatch::{AnswerRefusal, CommandError, LaneRequestError, PromptRefusal};

/// Length of a line in bytes at which a terminal in line mode drops the rest.
pub(crate) const TERMINAL_LINE_BYTES: usize = 4095;

/// The reason why a line that a person typed has no effect. The texts are for that person.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    /// The command does not exist.
    #[error("{0} is not a command; /help lists all, a leading blank makes it a prompt")]
    UnknownCommand(String),
    /// `/settings` names no setting.
    #[error("name one of backend, model, thinking, safety and mode, as in `/settings model opus`")]
    UnknownSetting,
    /// `/steer` has no text.
    #[error("write the message for the agent after /steer")]
    NoMessage,
    /// The line is as long as the longest one that a terminal passes on.
    #[error(
        "the terminal cuts lines at {TERMINAL_LINE_BYTES} bytes; send it through a pipe, or as a file (/file)"
    )]
    Cut,
    /// The prompt was not accepted.
    #[error(transparent)]
    Prompt(#[from] PromptRefusal),
    /// The answer was not accepted.
    #[error(transparent)]
    Answer(#[from] AnswerRefusal),
    /// The line is not an answer to the open question. Contains the expected form.
    #[error("{0}")]
    Unclear(String),
    /// The question was closed while the line was read.
    #[error("the question is no longer open")]
    NoQuestion,
    /// The conversation cannot be forgotten.
    #[error(transparent)]
    Request(#[from] LaneRequestError),
    /// The command was refused.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The file cannot be attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The turn has no such part.
    #[error(transparent)]
    Part(#[from] NoSuchPart),
}
