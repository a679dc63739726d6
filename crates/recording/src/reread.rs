//! Reads recordings again with a newer parser, to find answers that an older parser lost.
//!
//! Owns the rules for which output counts as an answer. `store` lists the lost turns,
//! `recorder::retention` decides how long their recordings are kept, and the dispatcher handles
//! the result. `tests/dispatch/lost.rs` and `tests/gateway/recovery.rs` test this module.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::replay::{Batches, endings, replay};
use crate::{Backend, Ending, GuestFailure};
use crate::{EntryKind, MAX_READ_BYTES, ParsedRecording, ReadError, RecordingEntry};
use aetheel_model::agent::descriptor::LinkSharing;
use aetheel_model::agent::{SessionReady, TurnOutcome, Usage};
use aetheel_runtime::ordinary::read_ordinary;

/// Maximum time for reading one turn again.
const REREAD_TIMEOUT: Duration = Duration::from_secs(20);
/// Number of inputs that the guest gets in one call.
const BATCH: usize = 256;

/// The answer that a newer parser found in a recorded turn.
#[derive(Clone, Debug, PartialEq)]
pub struct RereadAnswer {
    /// The agent's text; empty if the agent only used tools.
    pub text: String,
    /// Whether the agent did not reach the end of its answer, so that the text is incomplete.
    pub cut: bool,
    /// The agent's session.
    pub session: Option<SessionReady>,
    /// Tokens and costs.
    pub usage: Option<Usage>,
    /// The agent's working directory.
    pub cwd: Option<String>,
    /// The time from the start of the turn to its end.
    pub took: Duration,
}

/// The reason why there is no answer in a recording. The texts are for operators.
#[derive(Debug, thiserror::Error)]
pub enum RereadError {
    /// The file cannot be read, or is larger than [`MAX_READ_BYTES`].
    #[error("the recording cannot be read: {0}")]
    Open(io::Error),
    /// The file is not a recording.
    #[error(transparent)]
    Format(#[from] ReadError),
    /// The thread that reads the file panicked or was stopped.
    #[error(transparent)]
    Reader(#[from] tokio::task::JoinError),
    /// The time limit was reached.
    #[error("reading it takes longer than {} s", REREAD_TIMEOUT.as_secs())]
    Timeout,
    /// The backend failed to read the recording before.
    #[error("the backend is still the one that could not read it")]
    SameBackend,
    /// The turn is not in the recording.
    #[error("the recording does not contain this turn")]
    NoTurn,
    /// The recording ends before the turn, for this reason.
    #[error("the recording was cut before the end of the turn: {0}")]
    Cut(String),
    /// Lines of the recording were lost.
    #[error("the recording has gaps: the disk was too slow for it")]
    Gaps,
    /// The turn has no text.
    #[error("it finds the end of the turn, but no answer")]
    NoAnswer,
    /// The backend reports no end of the turn.
    #[error("it does not find the end of the turn")]
    NoEnd,
    /// The agent was interrupted or reached a limit.
    #[error("the agent was stopped before it answered")]
    Stopped,
    /// The agent failed, with this message.
    #[error("the agent failed: {0}")]
    AgentFailed(String),
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] GuestFailure),
}

/// Replays a recording to a backend, up to the end of a turn, and returns the answer that it finds.
/// Takes at most 20 s. Dropping the future leaves nothing behind.
///
/// # Errors
/// [`RereadError`] if the recording has no answer or cannot be read.
pub async fn reread(
    backend: &dyn Backend,
    recording: &Path,
    turn: &str,
) -> Result<RereadAnswer, RereadError> {
    let path = recording.to_owned();
    let read = tokio::task::spawn_blocking(move || read_recording(&path)).await??;
    reread_tape(backend, read, turn).await
}

/// Like [`reread`], for a recording that was read before.
///
/// # Errors
/// [`RereadError`] if the recording has no answer.
pub async fn reread_tape(
    backend: &dyn Backend,
    tape: ParsedRecording,
    turn: &str,
) -> Result<RereadAnswer, RereadError> {
    let read = tokio::time::timeout(REREAD_TIMEOUT, answer(backend, tape, turn)).await;
    read.unwrap_or(Err(RereadError::Timeout))
}

fn read_recording(path: &Path) -> Result<ParsedRecording, RereadError> {
    let bytes = read_ordinary(path, MAX_READ_BYTES).map_err(RereadError::Open)?;
    Ok(ParsedRecording::read_unfinished(&bytes)?)
}

async fn answer(
    backend: &dyn Backend,
    mut tape: ParsedRecording,
    turn: &str,
) -> Result<RereadAnswer, RereadError> {
    let cut = |tape: &ParsedRecording| tape.cut().map(|why| RereadError::Cut(why.to_owned()));
    let (key, began) =
        tape.beginning_of(turn).ok_or_else(|| cut(&tape).unwrap_or(RereadError::NoTurn))?;
    if let Some(end) = tape.entries.iter().position(|entry| entry.is_end_of(turn)) {
        tape.entries.truncate(end + 1);
    }
    if tape.entries.iter().any(|entry| matches!(entry.kind, EntryKind::Lost(_))) {
        return Err(RereadError::Gaps);
    }
    if let Some(cut) = cut(&tape) {
        return Err(cut);
    }
    let mut starts = tape.entries.iter().filter_map(RecordingEntry::turn_start);
    let cwd = starts.find(|start| start.turn == key).map(|start| start.cwd.clone());
    let last = tape.entries.last().map_or(0.0, |entry| entry.t);
    let took = Duration::try_from_secs_f64((last - began) / 1000.0).unwrap_or_default();
    let mut replayed = replay(backend, &tape.entries, Batches::Of(BATCH)).await?;
    let ending = endings(&tape.entries, &replayed).remove(&key);
    let failed = replayed.failure.take().map(|(_, failure)| failure);
    let replayed = replayed.turns.remove(&key).unwrap_or_default();
    if matches!(replayed.done.as_ref().map(|done| &done.outcome), Some(TurnOutcome::Completed))
        && matches!(ending, Some(Ending::Unread(_)))
    {
        return Err(RereadError::NoAnswer);
    }
    let text = replayed.text();
    let has_text = !text.trim().is_empty();
    let lasting = backend.descriptor().sharing != LinkSharing::Turn;
    let cut = match replayed.done.as_ref().map(|done| &done.outcome) {
        // Unreadable output after the last tool may be the answer.
        Some(TurnOutcome::Completed)
            if has_text
                || (!replayed.transcript.tools().is_empty()
                    && !replayed.transcript.ends_unknown()) =>
        {
            false
        }
        Some(TurnOutcome::Completed) => return Err(RereadError::NoAnswer),
        Some(TurnOutcome::Interrupted | TurnOutcome::Limit(_)) if has_text => true,
        Some(TurnOutcome::Interrupted | TurnOutcome::Limit(_)) => {
            return Err(RereadError::Stopped);
        }
        Some(TurnOutcome::Failed(failure) | TurnOutcome::Lost(failure)) => {
            return Err(RereadError::AgentFailed(failure.message.clone()));
        }
        None => match failed {
            Some(failure) => return Err(failure.into()),
            // A long-lived agent ends together with its guest, in the middle of a turn.
            None if lasting && has_text => true,
            None => return Err(RereadError::NoEnd),
        },
    };
    let usage = replayed
        .done
        .as_ref()
        .and_then(|done| done.usage.clone())
        .or_else(|| replayed.transcript.usage());
    Ok(RereadAnswer { text, cut, session: replayed.session, usage, cwd, took })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_beyond_the_limit_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(MAX_READ_BYTES + 1).unwrap();
        let error = read_recording(file.path()).unwrap_err().to_string();
        assert!(error.contains("more than the limit"), "{error}");
    }
}
