//! The options of the Discord adapter, and its time limits.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::start_error::StartError;
use super::token::check_shape;
use crate::api::Api;
use crate::rest::clock::OffsetClock;
use crate::rest::{Rest, Timeouts};
use aetheel_model::discord::DiscordSettings;
use aetheel_model::redact::Redactor;
use aetheel_runtime::lease::Lease;

/// The operator's settings for the adapter, and what it needs besides them.
#[derive(Clone, Debug)]
pub struct DiscordOptions {
    /// The bot's token, without `Bot `.
    pub token: SecretString,
    /// The operator's settings.
    pub settings: DiscordSettings,
    /// Whether the dashboard, and the command for it, are enabled.
    pub dashboard: bool,
    /// Applied to prompts and notices that are shown. The dispatcher applies it to answers.
    pub redactor: Redactor,
    /// Time limits of requests, logins and retries.
    pub time_limits: TimeLimits,
    /// The lease of this node. Requests are sent only while it is valid.
    pub lease: Lease,
}

impl DiscordOptions {
    /// Creates a client for Discord's API. Makes no request.
    ///
    /// # Errors
    /// [`StartError`] if the configured text cannot be a token, or if there can be no client.
    pub(crate) fn api(&self) -> Result<Api, StartError> {
        check_shape(self.token.expose_secret())?;
        let rest = Rest::new(
            &self.settings.api_base,
            self.token.clone(),
            self.settings.requests_per_second,
            self.time_limits.clock(),
            self.lease.clone(),
        );
        rest.map(Api::new).map_err(|error| StartError::Unreachable {
            base: self.settings.api_base.clone(),
            why: error.to_string(),
        })
    }
}

/// Time limits. The defaults are right outside tests.
#[derive(Clone, Debug)]
pub struct TimeLimits {
    /// Time limits of an important request.
    pub(crate) send: Timeouts,
    /// Time after which a login that is not connected is replaced.
    pub(crate) reconnect: Duration,
    /// Pause between two logins of shards, which Discord requires.
    pub(crate) identify: Duration,
    /// How long an interaction's token is used.
    pub(crate) interaction: Duration,
    /// The first and the longest pause between two attempts to deliver an answer.
    pub(crate) retry: (Duration, Duration),
    /// How long an agent reports nothing before the draft of its answer shows that.
    pub(crate) silence: Duration,
    clock: OffsetClock,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self {
            send: Timeouts::new(Duration::from_secs(30), Duration::from_secs(60)),
            reconnect: Duration::from_secs(20),
            identify: Duration::from_secs(5),
            interaction: Duration::from_secs(14 * 60),
            retry: (Duration::from_secs(5), Duration::from_secs(600)),
            silence: Duration::from_secs(30),
            clock: OffsetClock::default(),
        }
    }
}

impl TimeLimits {
    /// Sets how long one attempt of a request, and all of them together, may take.
    #[must_use]
    pub fn send(mut self, attempt: Duration, total: Duration) -> Self {
        self.send = Timeouts::new(attempt, total);
        self
    }

    /// Sets the time after which a login that is not connected is replaced.
    #[must_use]
    pub fn reconnect(mut self, after: Duration) -> Self {
        self.reconnect = after;
        self
    }

    /// Sets the pause between two logins of shards.
    #[must_use]
    pub fn identify(mut self, interval: Duration) -> Self {
        self.identify = interval;
        self
    }

    /// Sets how long an interaction's token is used; Discord forgets it after 15 minutes.
    #[must_use]
    pub fn interaction(mut self, window: Duration) -> Self {
        self.interaction = window;
        self
    }

    /// Sets the first and the longest pause before another attempt to deliver an answer. Some
    /// events end the pause earlier.
    #[must_use]
    pub fn retry(mut self, first: Duration, max: Duration) -> Self {
        self.retry = (first, max);
        self
    }

    /// Sets how long an agent reports nothing before the draft of its answer shows that.
    #[must_use]
    pub fn silence(mut self, after: Duration) -> Self {
        self.silence = after;
        self
    }

    /// Returns the clock for the limits.
    #[must_use]
    pub fn clock(&self) -> OffsetClock {
        self.clock.clone()
    }
}
