//! The errors of requests, and how a caller may react to them.

use std::time::Duration;

/// The reason why a request failed after all attempts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestError {
    /// Discord rejects the bot's token; no further requests are sent.
    #[error("discord refused the bot token")]
    TokenRefused,
    /// Discord refused the request.
    #[error("discord refused the request: {status} {code} {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Discord's code of the error, or 0.
        code: u64,
        /// Discord's description of the error.
        message: String,
    },
    /// Discord's rate limit lasts longer than the request may take.
    #[error("discord's rate limit asks for {} s", .0.as_secs())]
    Limited(Duration),
    /// More important requests use up the requests per second, for at least this time.
    #[error("more important requests use up the rate limit")]
    Crowded(Duration),
    /// The server's certificate is not trusted. Returned only before Discord answered for the first
    /// time; later it counts as a failed attempt.
    #[error("{0}")]
    Untrusted(String),
    /// Discord gave no usable answer in time.
    #[error("discord was not reachable for {} s: {last}", .waited.as_secs())]
    Unreachable {
        /// The time in which all attempts failed.
        waited: Duration,
        /// The last failure.
        last: String,
    },
}

impl RestError {
    /// Returns whether the object of the request does not exist.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Returns whether the bot lacks a permission, or cannot see the channel.
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { status: 403 | 404, .. })
    }

    /// Returns whether the channel or thread does not exist any more.
    pub(crate) fn is_unknown_channel(&self) -> bool {
        matches!(self, Self::Refused { code: 10_003, .. })
    }

    /// Returns whether the bot may write in the channel, but not read the message that it replies
    /// to.
    pub(crate) fn forbids_replies(&self) -> bool {
        matches!(self, Self::Refused { code: 160_002, .. })
    }

    /// Returns whether the thread is archived or locked.
    pub(crate) fn is_archived(&self) -> bool {
        matches!(self, Self::Refused { code: 50_083 | 160_005, .. })
    }

    /// Returns whether a later attempt may succeed.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self, Self::Limited(_) | Self::Crowded(_) | Self::Unreachable { .. })
    }
}
