//! Requests to Discord's HTTP interface: time limits, retries, rate limits.
//!
//! Replaces serenity's client, which has no time limits, never retries a 5xx or a cut connection,
//! and reports a 429 without its waiting time when it is used through a base address. The meaning
//! of the requests is in `api`. Bodies are never logged, because they contain people's prompts and
//! answers.

mod attempt;
pub(crate) mod clock;
mod failure;
pub(crate) mod files;
mod rate_limits;
pub(crate) mod rate_share;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reqwest::Method;
use secrecy::SecretString;
use serde_json::Value;
use tokio::sync::watch;
use tracing::{debug, warn};

pub use self::failure::RestError;
use aetheel_runtime::lease::Lease;
use attempt::Attempt;
use clock::OffsetClock;
use rate_limits::{Bucket, RateLimits};
use rate_share::{Rank, RateShare};

const USER_AGENT: &str =
    concat!("DiscordBot (", env!("CARGO_PKG_REPOSITORY"), ", ", env!("CARGO_PKG_VERSION"), ")");
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between the first two attempts of a request. Each later pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONG_WAIT: Duration = Duration::from_secs(5);

/// The time limits and the rank of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    pub(super) attempt: Duration,
    /// Maximum time of all attempts and the pauses between them.
    pub(super) total: Duration,
    /// The priority among the requests of the bot.
    pub(super) rank: Rank,
}

impl Timeouts {
    pub(super) const fn new(attempt: Duration, total: Duration) -> Self {
        Self { attempt, total, rank: Rank::Answer }
    }

    /// Returns the same limits for a request of another rank.
    pub(super) const fn with_rank(self, rank: Rank) -> Self {
        Self { rank, ..self }
    }
}

/// A request, which can be sent several times.
#[derive(Debug)]
pub(super) struct RestRequest {
    pub(super) method: Method,
    /// The part of the path after `/api/v10`.
    pub(super) path: String,
    /// The bucket of the request's rate limit. `None` if it has no limit of its own.
    pub(super) bucket: Option<Bucket>,
    pub(super) body: Option<Value>,
    /// Whether the path contains an interaction's token. Then a 401 is about that token, not about
    /// the bot's.
    pub(super) by_interaction: bool,
}

#[derive(Debug)]
pub(super) struct Upload {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

#[derive(Debug)]
struct RestState {
    base: String,
    token: SecretString,
    clock: OffsetClock,
    limits: Mutex<RateLimits>,
    rate_share: Mutex<RateShare>,
    bucket_locks: Mutex<HashMap<Bucket, Arc<tokio::sync::Mutex<()>>>>,
    token_refused: watch::Sender<bool>,
    /// Whether Discord has ever answered.
    answered: AtomicBool,
    /// Whether the last attempt got no usable answer.
    away: AtomicBool,
    /// Changes when Discord becomes reachable again.
    recoveries: watch::Sender<u64>,
    clock_ahead: Mutex<Option<i64>>,
}

/// The client. Clones share limits and connections.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    http: reqwest::Client,
    shared: Arc<RestState>,
    /// The lease of this node. Requests are sent while it is valid, and wait otherwise.
    lease: Lease,
}

impl Rest {
    /// Creates a client for `{base}/api/v10`, with a limit of requests per second.
    pub(super) fn new(
        base: &str,
        token: SecretString,
        per_second: usize,
        clock: OffsetClock,
        lease: Lease,
    ) -> Result<Self, reqwest::Error> {
        let shared = RestState {
            base: format!("{}/api/v10", base.trim_end_matches('/')),
            token,
            clock,
            limits: Mutex::default(),
            rate_share: Mutex::new(RateShare::new(per_second)),
            bucket_locks: Mutex::default(),
            token_refused: watch::channel(false).0,
            answered: AtomicBool::new(false),
            away: AtomicBool::new(false),
            recoveries: watch::channel(0).0,
            clock_ahead: Mutex::default(),
        };
        let http = http_client(Duration::from_secs(30))?;
        Ok(Self { http, shared: Arc::new(shared), lease })
    }

    /// Returns the same client with connections of its own, for use on another runtime: a
    /// connection ends with the runtime that opened it.
    pub(super) fn with_own_connections(&self) -> Result<Self, reqwest::Error> {
        Ok(Self { http: http_client(Duration::from_secs(30))?, ..self.clone() })
    }

    /// Returns the same client without a lease, for messages that every node may send.
    pub(super) fn unleased(&self) -> Self {
        Self { lease: Lease::endless(), ..self.clone() }
    }

    /// Returns whether requests are sent now. Otherwise they wait for the lease.
    pub(super) fn may_send(&self) -> bool {
        self.lease.is_valid()
    }

    /// Resolves when Discord rejects the token.
    pub(super) async fn token_refused(&self) {
        let mut refused = self.shared.token_refused.subscribe();
        // The sender is in `self`, so this cannot fail before the value is true.
        let _ = refused.wait_for(|refused| *refused).await;
    }

    /// Returns a counter that changes when Discord answers again after a failure.
    pub(super) fn recoveries(&self) -> watch::Receiver<u64> {
        self.shared.recoveries.subscribe()
    }

    /// Records that Discord is reachable, even if no request had failed.
    pub(super) fn note_recovery(&self) {
        self.shared.recoveries.send_modify(|count| *count += 1);
    }

    /// Limits the requests per second from now on. `per_second` must not be 0.
    pub(super) fn set_rate(&self, per_second: usize) {
        self.shared.rate_share.lock().set_limit(per_second);
    }

    pub(super) fn clock(&self) -> &OffsetClock {
        &self.shared.clock
    }

    /// Returns by how many seconds this clock was ahead of Discord's at its last answer.
    pub(super) fn clock_ahead(&self) -> Option<i64> {
        *self.shared.clock_ahead.lock()
    }

    /// Returns the number of answers with 401, 403 or 429 in the last ten minutes.
    pub(super) fn invalid_requests(&self) -> usize {
        self.limits().invalid_lately(self.shared.clock.now())
    }

    /// Sends a request until it succeeds, is refused, or `timeouts` has passed. Requests of one
    /// bucket are sent one after the other, in the order of the calls. If the future is dropped,
    /// the request may or may not have been carried out.
    pub(super) async fn send(
        &self,
        call: &RestRequest,
        timeouts: Timeouts,
    ) -> Result<Value, RestError> {
        self.send_with(call, &[], timeouts).await
    }

    pub(super) async fn send_files(
        &self,
        call: &RestRequest,
        files: &[Upload],
        timeouts: Timeouts,
    ) -> Result<Value, RestError> {
        self.send_with(call, files, timeouts).await
    }

    async fn send_with(
        &self,
        call: &RestRequest,
        files: &[Upload],
        timeouts: Timeouts,
    ) -> Result<Value, RestError> {
        let lane = call.bucket.map(|bucket| self.bucket_lock(bucket));
        let _turn = match &lane {
            Some(lane) => Some(lane.lock().await),
            None => None,
        };
        let clock = &self.shared.clock;
        let mut began = clock.now();
        let mut pause = FIRST_PAUSE;
        loop {
            self.wait_for_limits(call, began, timeouts).await?;
            if !self.lease.is_valid() {
                debug!(method = %call.method, "the lease has run out; a request waits for it");
                self.lease.wait_until_valid().await;
                began = clock.now();
                continue;
            }
            let last = match self.attempt(call, files, timeouts.attempt).await {
                Attempt::Done(value) => return Ok(value),
                Attempt::Failed(error) => return Err(error),
                Attempt::Limited => continue,
                Attempt::Again(last) => last,
            };
            let waited = clock.now() - began;
            if waited + pause > timeouts.total {
                return Err(RestError::Unreachable { waited, last });
            }
            if pause == FIRST_PAUSE && !self.shared.answered.load(Ordering::Relaxed) {
                let base = &self.shared.base;
                warn!(base, error = %last, "discord does not answer; trying again");
            } else {
                debug!(method = %call.method, error = %last, "discord request failed, trying again");
            }
            clock.sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(8));
        }
    }

    /// Waits until Discord's limits and the limit of requests per second permit a request.
    async fn wait_for_limits(
        &self,
        call: &RestRequest,
        began: Instant,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let clock = &self.shared.clock;
        loop {
            if *self.shared.token_refused.borrow() {
                return Err(RestError::TokenRefused);
            }
            let now = clock.now();
            let wait = {
                let mut limits = self.limits();
                match limits.penalty(now) {
                    Some(penalty) => penalty,
                    None => match limits.take(call.bucket, now) {
                        Ok(()) => break,
                        Err(wait) => wait,
                    },
                }
            };
            if now - began + wait > timeouts.total {
                return Err(RestError::Limited(wait));
            }
            if wait > LONG_WAIT {
                let route = call.bucket.map_or("", |bucket| bucket.0);
                warn!(route, seconds = wait.as_secs(), "waiting for discord's rate limit");
            }
            clock.sleep(wait).await;
        }
        // Responses to interactions do not count (Discord's documentation, interactions).
        if call.by_interaction { Ok(()) } else { self.wait_for_room(began, timeouts).await }
    }

    async fn wait_for_room(&self, began: Instant, timeouts: Timeouts) -> Result<(), RestError> {
        let (clock, flow) = (&self.shared.clock, || self.shared.rate_share.lock());
        let ticket = loop {
            let now = clock.now();
            let ticket = flow().take(timeouts.rank, now);
            match ticket {
                Ok(ticket) => break ticket,
                Err(wait)
                    if matches!(timeouts.rank, Rank::Draft | Rank::Hint)
                        || now - began + wait > timeouts.total =>
                {
                    return Err(RestError::Crowded(wait));
                }
                Err(wait) => clock.sleep(wait).await,
            }
        };
        let Some(ticket) = ticket else { return Ok(()) };
        loop {
            let gone = flow().start(ticket, clock.now());
            let Err(wait) = gone else { return Ok(()) };
            clock.sleep(wait).await;
        }
    }

    fn bucket_lock(&self, bucket: Bucket) -> Arc<tokio::sync::Mutex<()>> {
        let mut lanes = self.shared.bucket_locks.lock();
        if lanes.len() >= 512 {
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        Arc::clone(lanes.entry(bucket).or_default())
    }

    fn limits(&self) -> parking_lot::MutexGuard<'_, RateLimits> {
        self.shared.limits.lock()
    }
}

/// Creates an HTTP client with the user agent that Discord requires. serenity uses such a client
/// too.
pub(super) fn http_client(limit: Duration) -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(limit)
        .build()
}
