//! What people are told: short, the kind named, a correlation id, no internals.

use std::time::Duration;

use crate::agent::{Failure, FailureKind};
use crate::queue::Rejection;
use crate::turn::Ending;

/// Why a prompt was not accepted, in words for the person who wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// All slots are taken.
    #[error("I am busy with {slots} other conversations. Please try again in a moment. (busy)")]
    Busy {
        /// How many there are.
        slots: usize,
    },
    /// Too much is waiting.
    #[error("Too many requests are waiting ({depth}). Please try again later. (queue full)")]
    Full {
        /// Events waiting.
        depth: usize,
    },
    /// The gateway is stopping.
    #[error("I am restarting. Please try again in a minute. (shutting down)")]
    ShuttingDown,
    /// An event with the same key was taken before.
    #[error("I have this already. (duplicate)")]
    Known,
    /// It could not be kept safe, so it was not taken.
    #[error("This could not be saved, so it was not taken. Please try again later. (storage)")]
    NotSaved,
    /// More files than are taken.
    #[error("{}", if *limit == 0 { "Files are not taken here. (files)".to_owned() } else { format!("That is {count} files, at most {limit} are taken. (too many files)") })]
    TooManyFiles {
        /// With the prompt.
        count: usize,
        /// `ATTACHMENTS_MAX`.
        limit: usize,
    },
    /// A file is larger than is taken.
    #[error("{name} is too large: {bytes} bytes, at most {limit} are taken. (file too large)")]
    FileTooLarge {
        /// For people, in quotes.
        name: String,
        /// Announced.
        bytes: u64,
        /// `ATTACHMENT_LIMIT_BYTES`.
        limit: u64,
    },
    /// Its author asks faster than `USER_PROMPTS_PER_MINUTE`.
    #[error("You are asking faster than I may answer you. Please try again in {seconds} s. (rate limit)")]
    TooFast {
        /// Until the next prompt is taken.
        seconds: u64,
    },
    /// The prompt is too long.
    #[error("That is too long: {bytes} bytes, at most {limit} are taken. (prompt too long)")]
    TooLong {
        /// Of the prompt.
        bytes: usize,
        /// `PROMPT_LIMIT_BYTES`.
        limit: usize,
    },
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Busy { slots } => Self::Busy { slots },
            Rejection::Full { depth } => Self::Full { depth },
            Rejection::ShuttingDown => Self::ShuttingDown,
        }
    }
}

/// What a person is told about a turn that did not go well; `None` for one that did. `timeout` is the turn's budget,
/// `retry` the failure the agent was retrying after.
#[must_use]
pub fn failure(ending: &Ending, timeout: Duration, retry: Option<&str>, id: &str) -> Option<String> {
    let (sentence, kind) = match ending {
        Ending::Completed => return None,
        Ending::Interrupted => ("Stopped.".to_owned(), "stopped"),
        Ending::ShutDown => ("I am restarting and had to stop here. Please ask again in a minute.".to_owned(), "shutting down"),
        Ending::TimedOut if retry.is_some() => {
            (format!("Query timed out after {}; the agent's service kept failing.", seconds(timeout)), "timeout")
        }
        Ending::TimedOut => (format!("Query timed out after {}.", seconds(timeout)), "timeout"),
        Ending::Silent => ("The agent fell silent and was stopped.".to_owned(), "idle timeout"),
        Ending::Limit(limit) => (format!("The agent was stopped at a limit: {}.", first_line(limit)), "limit"),
        Ending::Agent(failure) => agent(failure),
        Ending::Backend(failure) => (
            "The backend could not read the agent's answer. It was recorded and can be looked into.".to_owned(),
            match failure.kind() {
                "refused" => "backend refused",
                "trapped" => "backend crashed",
                _ => "backend cut off",
            },
        ),
        Ending::Unread(_) => ("The agent answered, but in a form this version of its backend cannot read.".to_owned(), "unread"),
    };
    Some(format!("{sentence} ({kind}, {id})"))
}

/// More about it, for the operator at the terminal.
#[must_use]
pub fn detail(ending: &Ending) -> Option<String> {
    match ending {
        Ending::Agent(failure) => Some(failure.message.clone()),
        Ending::Backend(failure) => Some(failure.to_string()),
        Ending::Unread(unknown) => Some(unknown.clone()),
        _ => None,
    }
}

fn agent(failure: &Failure) -> (String, &'static str) {
    let later =
        failure.retry_after_ms.map_or_else(String::new, |ms| format!(" Try again in {}.", seconds(Duration::from_millis(ms.into()))));
    let (sentence, kind) = match failure.kind {
        FailureKind::NotFound => ("The agent's program is not installed on this machine.", "agent not found"),
        FailureKind::Authentication => ("The agent is not signed in, or its key was refused.", "authentication"),
        FailureKind::RateLimited => ("The agent's service is limiting requests.", "rate limited"),
        FailureKind::Overloaded => ("The agent's service is overloaded or failing.", "overloaded"),
        FailureKind::BadRequest => ("The agent's service refused the request.", "bad request"),
        FailureKind::ModelNotFound => ("The chosen model does not exist or may not be used.", "model not found"),
        FailureKind::ContextFull => ("The conversation has become too long for the model. Start afresh with `/reset`.", "context full"),
        FailureKind::SessionUnknown => (
            "The agent no longer knows this conversation; it has been forgotten here as well. Please ask again to start a new one.",
            "session lost",
        ),
        FailureKind::Protocol => ("The agent said something that cannot be.", "protocol"),
        FailureKind::Crashed => ("The agent ended without a result.", "agent failure"),
        FailureKind::TimedOut => ("The agent gave up waiting.", "agent timeout"),
        FailureKind::Refused => ("The agent declined.", "refused"),
        FailureKind::Unsupported => ("That is not supported.", "unsupported"),
        FailureKind::Other => ("The agent failed.", "agent failure"),
    };
    (format!("{sentence}{later}"), kind)
}

fn seconds(time: Duration) -> String {
    if time.subsec_millis() == 0 { format!("{} s", time.as_secs()) } else { format!("{:.1} s", time.as_secs_f64()) }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::GuestFailure;

    #[test]
    fn people_learn_the_kind_and_the_id_and_nothing_inside() {
        let secret = "/home/operator/.claude: sk-123 at line 7";
        let failure_of = |kind| Ending::Agent(Failure { kind, message: secret.into(), retry_after_ms: Some(1500) });
        let endings = [
            failure_of(FailureKind::Crashed),
            failure_of(FailureKind::SessionUnknown),
            failure_of(FailureKind::Authentication),
            Ending::Backend(GuestFailure::Trapped(secret.into())),
            Ending::TimedOut,
            Ending::Interrupted,
        ];
        for ending in endings {
            let text = failure(&ending, Duration::from_secs(120), None, "ab12").expect("a failure");
            assert!(text.ends_with(", ab12)"), "{text}");
            assert!(!text.contains("/home") && !text.contains("line 7"), "{text}");
        }
        assert!(failure(&Ending::TimedOut, Duration::from_secs(120), None, "x").expect("one").starts_with("Query timed out after 120 s."));
        assert!(failure(&failure_of(FailureKind::RateLimited), Duration::ZERO, None, "x").expect("one").contains("Try again in 1.5 s."));
        assert_eq!(failure(&Ending::Completed, Duration::ZERO, None, "x"), None);
    }
}
