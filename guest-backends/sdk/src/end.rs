//! How turns end: results, failures, and the last words of a process.

use crate::text;
use crate::wit::{Exit, Exited, Failure, FailureKind, Outcome, Usage};

/// The end of a turn as the agent told it.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnResult {
    /// Completed, interrupted, failed, lost, or stopped by a limit of the agent's.
    pub outcome: Outcome,
    /// The whole answer where the agent tells it; none: the text parts in order.
    pub text: Option<String>,
    /// Tokens and money of the turn.
    pub usage: Option<Usage>,
}

impl TurnResult {
    /// The agent did what was asked; the text parts are its answer.
    #[must_use]
    pub fn completed(usage: Option<Usage>) -> Self {
        Self { outcome: Outcome::Completed, text: None, usage }
    }

    /// A failure of a kind with the agent's own words.
    #[must_use]
    pub fn failed(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { outcome: Outcome::Failed(failure(kind, message)), text: None, usage: None }
    }

    /// The result of a run whose process exited without one, see [`without_result`].
    #[must_use]
    pub fn without(exited: &Exited, why: impl FnOnce(&str) -> Failure) -> Self {
        Self { outcome: without_result(exited, why), text: None, usage: None }
    }
}

/// A failure in words; nothing is known of when to try again.
#[must_use]
pub fn failure(kind: FailureKind, message: impl Into<String>) -> Failure {
    Failure { kind, message: message.into(), retry_after_ms: None }
}

/// The kind an agent calls by the contract's own name for it, as `rate-limited`; `other` for all
/// else.
#[must_use]
pub fn failure_kind(word: &str) -> FailureKind {
    match word {
        "not-found" => FailureKind::NotFound,
        "authentication" => FailureKind::Authentication,
        "rate-limited" => FailureKind::RateLimited,
        "overloaded" => FailureKind::Overloaded,
        "bad-request" => FailureKind::BadRequest,
        "model-not-found" => FailureKind::ModelNotFound,
        "context-full" => FailureKind::ContextFull,
        "session-unknown" => FailureKind::SessionUnknown,
        "timed-out" => FailureKind::TimedOut,
        "refused" => FailureKind::Refused,
        "unsupported" => FailureKind::Unsupported,
        _ => FailureKind::Other,
    }
}

/// Tokens of which nothing else is told.
#[must_use]
pub fn tokens(input: u32, output: u32) -> Usage {
    Usage { input, output, ..Usage::default() }
}

/// Returns what is known of the end of a process that was not to end: how it ended, and the end of
/// its stderr.
#[must_use]
pub fn last_words(name: &str, exited: &Exited) -> String {
    let how = match exited.how {
        Exit::Code(code) => format!("{name} ended (exit code {code})"),
        Exit::Signal(signal) => format!("{name} was ended by signal {signal}"),
        Exit::Unknown => format!("{name} ended"),
    };
    match text::stderr_end(&exited.stderr_tail, 5) {
        said if said.is_empty() => how,
        said => format!("{how}: {said}"),
    }
}

/// Returns how a turn ended whose process exited without a result. `failure` says why a run with a
/// non-zero exit code failed, given a summary of the end of stderr, which may be empty.
pub fn without_result(exited: &Exited, failure: impl FnOnce(&str) -> Failure) -> Outcome {
    let lost = |kind, how: String, said: &str| {
        let message = if said.is_empty() { how } else { format!("{how}: {said}") };
        Outcome::Lost(Failure { kind, message, retry_after_ms: None })
    };
    let said = text::stderr_end(&exited.stderr_tail, 5);
    match exited.how {
        Exit::Signal(signal) => {
            lost(FailureKind::Crashed, format!("the agent was ended by signal {signal}"), &said)
        }
        // Shells and agents tell a signal they died of as 128 and its number.
        Exit::Code(code @ 129..=159) => lost(
            FailureKind::Crashed,
            format!("the agent was ended by signal {}", code - 128),
            &said,
        ),
        Exit::Code(code) if code != 0 => {
            let failure = failure(&said);
            if failure.message.is_empty() {
                lost(
                    FailureKind::Protocol,
                    format!("the agent ended without a result (exit code {code})"),
                    "",
                )
            } else {
                Outcome::Failed(failure)
            }
        }
        Exit::Code(_) | Exit::Unknown => {
            lost(FailureKind::Protocol, "the agent ended without a result".to_owned(), &said)
        }
    }
}
