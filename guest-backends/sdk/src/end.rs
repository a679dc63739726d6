//! How turns end: results, failures, and messages about processes that exited.

use crate::text;
use crate::wit::{Exit, Exited, Failure, FailureKind, Outcome, Usage};

/// The result of a turn as the agent reported it.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnResult {
    /// How the turn ended.
    pub outcome: Outcome,
    /// The whole answer if the agent reports it, or `None` if the answer consists of the text parts
    /// in order.
    pub text: Option<String>,
    /// The token usage and cost of the turn.
    pub usage: Option<Usage>,
}

impl TurnResult {
    /// Creates the result of a successful turn whose answer is its text parts.
    #[must_use]
    pub fn completed(usage: Option<Usage>) -> Self {
        Self { outcome: Outcome::Completed, text: None, usage }
    }

    /// Creates the result of a failed turn with the agent's message.
    #[must_use]
    pub fn failed(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { outcome: Outcome::Failed(failure(kind, message)), text: None, usage: None }
    }

    /// Creates the result of a turn whose process exited without one, see [`without_result`].
    #[must_use]
    pub fn without(exited: &Exited, why: impl FnOnce(&str) -> Failure) -> Self {
        Self { outcome: without_result(exited, why), text: None, usage: None }
    }
}

/// Creates a failure without a retry delay.
#[must_use]
pub fn failure(kind: FailureKind, message: impl Into<String>) -> Failure {
    Failure { kind, message: message.into(), retry_after_ms: None }
}

/// Returns the kind for its name in the contract, such as `rate-limited`, and `Other` for other
/// names.
#[must_use]
pub fn failure_kind(word: &str) -> FailureKind {
    match word {
        "not-found" => FailureKind::NotFound,
        "authentication" => FailureKind::Authentication,
        "rate-limited" => FailureKind::RateLimited,
        "quota" => FailureKind::Quota,
        "overloaded" => FailureKind::Overloaded,
        "network" => FailureKind::Network,
        "configuration" => FailureKind::Configuration,
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

/// Creates a usage that counts only input and output tokens.
#[must_use]
pub fn tokens(input: u32, output: u32) -> Usage {
    Usage { input, output, ..Usage::default() }
}

/// Describes how a process ended unexpectedly: exit code or signal, and the end of its stderr.
#[must_use]
pub fn last_words(name: &str, exited: &Exited) -> String {
    let how = match exited.how {
        Exit::Code(code) => format!("{name} ended (exit code {code})"),
        Exit::Signal(signal) => format!("{name} was ended by signal {signal}"),
        Exit::Unknown => format!("{name} ended"),
    };
    match text::stderr_end(&exited.stderr_tail, 5) {
        stderr if stderr.is_empty() => how,
        stderr => format!("{how}: {stderr}"),
    }
}

/// Returns the outcome of a turn whose process exited without a result. For a non-zero exit code,
/// `failure` returns the reason, given the end of stderr (which may be empty).
pub fn without_result(exited: &Exited, failure: impl FnOnce(&str) -> Failure) -> Outcome {
    let lost = |kind, how: String, stderr: &str| {
        let message = if stderr.is_empty() { how } else { format!("{how}: {stderr}") };
        Outcome::Lost(Failure { kind, message, retry_after_ms: None })
    };
    let stderr = text::stderr_end(&exited.stderr_tail, 5);
    match exited.how {
        Exit::Signal(signal) => {
            lost(FailureKind::Crashed, format!("the agent was ended by signal {signal}"), &stderr)
        }
        // Shells and agents report that a signal ended them as exit code 128 plus its number.
        Exit::Code(code @ 129..=159) => lost(
            FailureKind::Crashed,
            format!("the agent was ended by signal {}", code - 128),
            &stderr,
        ),
        Exit::Code(code) if code != 0 => {
            let failure = failure(&stderr);
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
            lost(FailureKind::Protocol, "the agent ended without a result".to_owned(), &stderr)
        }
    }
}
