//! The options of the Discord adapter, and its time limits.

use std::time::Duration;

use secrecy::SecretString;

use super::StartError;
use super::clock::Clock;
use super::rest::Timeouts;
use aetheel_model::config::{AllowLists, Config, FooterPart};
use aetheel_model::lease::Lease;
use aetheel_model::redact::Redactor;

/// The settings the adapter works with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The bot's token, without `Bot `.
    pub token: SecretString,
    /// Discord's address, without a trailing slash.
    pub api_base: String,
    /// Second name of `/ask` and, with `-reset`, of `/reset`.
    pub command_alias: Option<String>,
    /// Whether there is a dashboard, and a command that lets people in.
    pub dashboard: bool,
    /// Where what nobody asked for goes.
    pub output_channel: Option<u64>,
    /// Characters above which an answer becomes a file; none: never.
    pub long_answer: Option<usize>,
    /// Requests in a second, at most; 0: no limit of our own.
    pub requests_per_second: usize,
    /// How many shards the bot has; none: as many as Discord recommends.
    pub shards: Option<u32>,
    /// The parts of the line below an answer.
    pub footer: Vec<FooterPart>,
    /// Users with the rights of the application's owner.
    pub owners: Vec<u64>,
    /// The people and places that may use the bot.
    pub allowed: AllowLists,
    /// Applied to prompts and notices that are shown; the dispatcher applies it to answers.
    pub redactor: Redactor,
    /// Time limits of requests, logins and retries.
    pub windows: Windows,
    /// Until when anything is sent.
    pub lease: Lease,
}

impl Options {
    /// Takes what the operator configured.
    ///
    /// # Errors
    /// [`StartError::NoToken`].
    pub fn from_config(config: &Config, redactor: Redactor) -> Result<Self, StartError> {
        Ok(Self {
            token: config.discord_bot_token.clone().ok_or(StartError::NoToken)?,
            api_base: config.discord_api_base.clone(),
            command_alias: config.command_alias.clone(),
            dashboard: config.dashboard_address.is_some(),
            output_channel: config.output_channel,
            long_answer: config.long_answer,
            requests_per_second: config.discord_requests_per_second,
            shards: config.shards,
            footer: config.footer.clone(),
            owners: config.owners.clone(),
            allowed: config.allowed.clone(),
            redactor,
            windows: Windows::default(),
            lease: Lease::endless(),
        })
    }
}

/// Time limits; the defaults are right outside tests.
#[derive(Clone, Debug)]
pub struct Windows {
    /// For a request that matters: one attempt, and all of them.
    pub(super) send: Timeouts,
    /// After which a login that is not connected is replaced.
    pub(super) reconnect: Duration,
    /// Between two logins of shards, as Discord wants it.
    pub(super) identify: Duration,
    /// For which an interaction's token is used.
    pub(super) interaction: Duration,
    /// Between two tries of an answer that is held up: at first, and at most.
    pub(super) again: (Duration, Duration),
    /// The clock the limits go by.
    clock: Clock,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            send: Timeouts::new(Duration::from_secs(30), Duration::from_secs(60)),
            reconnect: Duration::from_secs(20),
            identify: Duration::from_secs(5),
            interaction: Duration::from_secs(14 * 60),
            again: (Duration::from_secs(5), Duration::from_secs(600)),
            clock: Clock::default(),
        }
    }
}

impl Windows {
    /// Sets how long a request is repeated: one attempt, and all of them together.
    #[must_use]
    pub fn send(mut self, attempt: Duration, total: Duration) -> Self {
        self.send = Timeouts::new(attempt, total);
        self
    }

    /// Sets after how long a login that is not connected is replaced.
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

    /// Sets how long an answer that is held up waits before it is tried again, unless something
    /// happens: at first, and at most.
    #[must_use]
    pub fn again(mut self, first: Duration, most: Duration) -> Self {
        self.again = (first, most);
        self
    }

    /// Returns the clock the limits go by.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }
}
