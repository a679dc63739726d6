//! How a turn ended, as the host sees it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::{Generation, GuestFailure, StopReason};
use crate::agent::{Failure, FailureKind, Outcome, SessionReady, Usage};
use crate::fold::Transcript;

/// How a turn ended. Exactly one a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// The agent is done.
    Completed,
    /// A person stopped it.
    Interrupted,
    /// The gateway's shutdown stopped it.
    ShutDown,
    /// `QUERY_TIMEOUT_MS` is over.
    TimedOut,
    /// `IDLE_TIMEOUT_MS` without output is over.
    Silent,
    /// A limit of the agent or the host stopped it; which one.
    Limit(String),
    /// The agent failed, in its own words or those of its stderr.
    Agent(Failure),
    /// The backend failed.
    Backend(GuestFailure),
    /// The agent said something, but the backend found no answer in it; what it did not know.
    Unread(String),
}

impl Ending {
    /// Decides among what the guest said, what became of the guest, what the host did and what happened to the process.
    ///
    /// The agent's success stands whatever came after; otherwise the host's own reason explains best, then the guest's
    /// failure, then the agent's.
    #[must_use]
    pub fn of(outcome: Option<Outcome>, guest: Option<GuestFailure>, stopped: Option<Self>, trouble: Option<Failure>) -> Self {
        match (outcome, stopped, guest) {
            (Some(Outcome::Completed), _, _) => Self::Completed,
            (_, Some(stopped), _) => stopped,
            (None, None, Some(guest)) => Self::Backend(guest),
            (Some(Outcome::Interrupted), None, _) => Self::Interrupted,
            (Some(Outcome::Limit(limit)), None, _) => Self::Limit(limit),
            // A crash's own last words say more than the guest's "it ended without a result".
            (Some(Outcome::Failed(failure) | Outcome::Lost(failure)), None, _) => Self::Agent(failure),
            (None, None, None) => Self::Agent(trouble.unwrap_or_else(|| Failure {
                kind: FailureKind::Protocol,
                message: "the backend neither started the agent nor ended the turn".to_owned(),
                retry_after_ms: None,
            })),
        }
    }

    /// Whether the answer could not be read, so that a newer backend may find it in the recording.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        match self {
            Self::Unread(_) | Self::Backend(_) => true,
            Self::Agent(failure) => failure.kind == FailureKind::Protocol,
            _ => false,
        }
    }

    /// One word for logs and metrics.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Interrupted => "interrupted",
            Self::ShutDown => "shut-down",
            Self::TimedOut => "timed-out",
            Self::Silent => "silent",
            Self::Limit(_) => "limit",
            Self::Agent(_) => "agent-failure",
            Self::Backend(_) => "backend-failure",
            Self::Unread(_) => "unread",
        }
    }
}

impl From<StopReason> for Ending {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::User => Self::Interrupted,
            StopReason::Shutdown => Self::ShutDown,
        }
    }
}

/// The word and, where there is one, the reason: what recordings say.
impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word();
        match self {
            Self::Limit(reason) | Self::Unread(reason) => write!(f, "{word}: {reason}"),
            Self::Agent(failure) => write!(f, "{word}: {}", failure.message),
            Self::Backend(failure) => write!(f, "{word}: {failure}"),
            _ => f.write_str(word),
        }
    }
}

/// What a turn came to.
#[derive(Clone, Debug)]
pub struct TurnResult {
    /// Id of the link it ran on: the name of its recording.
    pub link: String,
    /// Where that is written.
    pub recording: PathBuf,
    /// Which generation it ran on.
    pub generation: Generation,
    /// Whether the agent said anything in it, understood or not.
    pub heard: bool,
    /// How it ended.
    pub ending: Ending,
    /// The agent's answer, or what there was of it.
    pub text: String,
    /// The agent's session, if it told one.
    pub session: Option<SessionReady>,
    /// Tokens and money.
    pub usage: Option<Usage>,
    /// The whole turn as told.
    pub transcript: Transcript,
    /// From its start to its end.
    pub took: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(message: &str) -> Failure {
        Failure { kind: FailureKind::Other, message: message.into(), retry_after_ms: None }
    }

    #[test]
    fn success_stands_and_otherwise_the_best_reason_is_told() {
        let trap = || Some(GuestFailure::Trapped("x".into()));
        let cases = [
            (Some(Outcome::Completed), trap(), Some(Ending::TimedOut), Ending::Completed),
            (Some(Outcome::Interrupted), None, Some(Ending::TimedOut), Ending::TimedOut),
            (Some(Outcome::Failed(failure("a"))), None, Some(Ending::Interrupted), Ending::Interrupted),
            (Some(Outcome::Failed(failure("a"))), None, None, Ending::Agent(failure("a"))),
            (None, trap(), None, Ending::Backend(GuestFailure::Trapped("x".into()))),
            (None, None, None, Ending::Agent(failure("died"))),
        ];
        for (outcome, guest, stopped, expected) in cases {
            assert_eq!(Ending::of(outcome, guest, stopped, Some(failure("died"))), expected);
        }
        assert!(matches!(Ending::of(None, None, None, None), Ending::Agent(failure) if failure.kind == FailureKind::Protocol));
    }
}
