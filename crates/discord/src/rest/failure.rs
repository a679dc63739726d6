//! Why a request failed, and what that means for whoever sent it.

use std::time::Duration;

/// Why a request failed for good.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum RestError {
    /// Discord does not take the bot's token; nothing is sent any more.
    #[error("discord refused the bot token")]
    TokenRefused,
    /// Discord refused the request.
    #[error("discord refused the request: {status} {code} {message}")]
    Refused { status: u16, code: u64, message: String },
    /// Discord asks for a longer wait than the request has.
    #[error("discord's rate limit asks for {} s", .0.as_secs())]
    Limited(Duration),
    /// There are more important requests, for so long at least.
    #[error("there is no room beside more important requests")]
    Crowded(Duration),
    /// The certificate of whoever answers is not trusted. Only before anything was ever answered:
    /// later it may pass.
    #[error("{0}")]
    Untrusted(String),
    /// No usable answer in time.
    #[error("discord was not reachable for {} s: {last}", .waited.as_secs())]
    Unreachable { waited: Duration, last: String },
}

impl RestError {
    /// The thing the request was about does not exist.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// The bot may not do this here, or cannot see the place.
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { status: 403 | 404, .. })
    }

    /// The channel or thread does not exist any more.
    pub(crate) fn is_without_channel(&self) -> bool {
        matches!(self, Self::Refused { code: 10_003, .. })
    }

    /// The bot may write there, but not read what it replies to.
    pub(crate) fn forbids_replies(&self) -> bool {
        matches!(self, Self::Refused { code: 160_002, .. })
    }

    /// The thread is archived or locked.
    pub(crate) fn is_archived(&self) -> bool {
        matches!(self, Self::Refused { code: 50_083 | 160_005, .. })
    }

    /// Asking again later could help.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Limited(_) | Self::Crowded(_) | Self::Unreachable { .. })
    }
}
