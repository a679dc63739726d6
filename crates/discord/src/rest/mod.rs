//! Requests to Discord's HTTP interface: time limits, retries, rate limits.
//!
//! Replaces serenity's client, which has no time limits, never retries a 5xx or a cut connection,
//! and reports a 429 without its waiting time when it is used through a base address. The meaning
//! of the requests is in `api`. Bodies are never logged, because they contain people's prompts and
//! answers.

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
use reqwest::multipart::{Form, Part};
use reqwest::{Method, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use tracing::{debug, warn};

pub use self::failure::RestError;
use aetheel_runtime::figures;
use aetheel_runtime::lease::Lease;
use clock::OffsetClock;
use rate_limits::{Bucket, RateHeaders, RateLimits};
use rate_share::{Rank, RateShare};

const USER_AGENT: &str =
    concat!("DiscordBot (", env!("CARGO_PKG_REPOSITORY"), ", ", env!("CARGO_PKG_VERSION"), ")");
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between the first two attempts of a request. Each later pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONG_WAIT: Duration = Duration::from_secs(5);
/// Part of rustls's message about a certificate that it does not accept. Its error type is not
/// accessible here.
const UNTRUSTED: &str = "invalid peer certificate";

/// The time limits and the rank of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// Maximum time of one attempt.
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

/// A file to upload.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

fn form(body: &Value, files: &[Upload]) -> Form {
    let form = Form::new().text("payload_json", body.to_string());
    files.iter().enumerate().fold(form, |form, (number, file)| {
        let part = Part::bytes(file.bytes.clone()).file_name(file.name.clone());
        form.part(format!("files[{number}]"), part)
    })
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
    /// The value of [`Rest::clock_ahead`].
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
        most: usize,
        clock: OffsetClock,
        lease: Lease,
    ) -> Result<Self, reqwest::Error> {
        let shared = RestState {
            base: format!("{}/api/v10", base.trim_end_matches('/')),
            token,
            clock,
            limits: Mutex::default(),
            rate_share: Mutex::new(RateShare::new(most)),
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

    /// Limits the requests per second from now on. `most` must not be 0.
    pub(super) fn set_rate(&self, most: usize) {
        self.shared.rate_share.lock().set_limit(most);
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

    /// Sends a request with files, like [`Rest::send`].
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
            let taken = flow().take(timeouts.rank, now);
            match taken {
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

    async fn attempt(&self, call: &RestRequest, files: &[Upload], limit: Duration) -> Attempt {
        let mut request = self
            .http
            .request(call.method.clone(), format!("{}{}", self.shared.base, call.path))
            .timeout(limit)
            .header(header::AUTHORIZATION, format!("Bot {}", self.shared.token.expose_secret()));
        match &call.body {
            Some(body) if files.is_empty() => request = request.json(body),
            Some(body) => request = request.multipart(form(body, files)),
            None => {}
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => {
                figures::discord_answered(None);
                self.shared.away.store(true, Ordering::Relaxed);
                let why = describe(&error);
                let untrusted =
                    why.contains(UNTRUSTED) && !self.shared.answered.load(Ordering::Relaxed);
                return if untrusted {
                    Attempt::Failed(RestError::Untrusted(why))
                } else {
                    Attempt::Again(why)
                };
            }
        };
        self.shared.answered.store(true, Ordering::Relaxed);
        let status = response.status();
        figures::discord_answered(Some(status.as_u16()));
        let headers = response.headers().clone();
        if let Some(ahead) = clock_difference(&headers, jiff::Timestamp::now()) {
            *self.shared.clock_ahead.lock() = Some(ahead);
        }
        let body = match response.bytes().await {
            Ok(body) => body,
            Err(error) => return Attempt::Again(describe(&error)),
        };
        if status.is_server_error() {
            self.shared.away.store(true, Ordering::Relaxed);
        } else if self.shared.away.load(Ordering::Relaxed)
            && self.shared.away.swap(false, Ordering::Relaxed)
        {
            self.note_recovery();
        }
        let now = self.shared.clock.now();
        self.limits().learn(call.bucket, &rate_headers(&headers), now);
        if status.is_success() {
            if body.is_empty() {
                return Attempt::Done(Value::Null);
            }
            return match serde_json::from_slice(&body) {
                Ok(value) => Attempt::Done(value),
                Err(_) => Attempt::Again(format!("{status} with a body that is not JSON")),
            };
        }
        if status.is_server_error() {
            return Attempt::Again(status.to_string());
        }
        let fault: ErrorBody = serde_json::from_slice(&body).unwrap_or_default();
        let shared_scope = headers.get("x-ratelimit-scope").is_some_and(|scope| scope == "shared");
        if matches!(status.as_u16(), 401 | 403)
            || (status == StatusCode::TOO_MANY_REQUESTS && !shared_scope)
        {
            let lately = self.limits().invalid(now);
            if lately.is_multiple_of(1_000) {
                warn!(
                    count = lately,
                    "many requests refused by discord in ten minutes; it bans addresses above 10000"
                );
            }
        }
        match status {
            StatusCode::TOO_MANY_REQUESTS => {
                let seconds =
                    fault.retry_after.or_else(|| number(&headers, "retry-after")).unwrap_or(1.0);
                let global = fault.global || headers.contains_key("x-ratelimit-global");
                let wait = Duration::try_from_secs_f64(seconds)
                    .unwrap_or(LONG_WAIT)
                    .max(Duration::from_millis(50));
                // Without a bucket, the limit has to apply to all requests.
                self.limits().refused(call.bucket, global || call.bucket.is_none(), wait, now);
                Attempt::Limited
            }
            StatusCode::UNAUTHORIZED if !call.by_interaction => {
                self.shared.token_refused.send_replace(true);
                Attempt::Failed(RestError::TokenRefused)
            }
            _ => Attempt::Failed(RestError::Refused {
                status: status.as_u16(),
                code: fault.code,
                message: fault.message,
            }),
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

enum Attempt {
    Done(Value),
    Failed(RestError),
    /// Discord reported a rate limit. Wait for it and try again.
    Limited,
    /// Discord gave no usable answer.
    Again(String),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    code: u64,
    message: String,
    retry_after: Option<f64>,
    global: bool,
}

fn rate_headers(headers: &header::HeaderMap) -> RateHeaders {
    RateHeaders {
        name: headers
            .get("x-ratelimit-bucket")
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned),
        remaining: number(headers, "x-ratelimit-remaining").map(|remaining| remaining as u32),
        reset_after: number(headers, "x-ratelimit-reset-after")
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
    }
}

/// Returns by how many seconds `now` is ahead of the `Date` of an answer.
fn clock_difference(headers: &header::HeaderMap, now: jiff::Timestamp) -> Option<i64> {
    let date = headers.get(header::DATE)?.to_str().ok()?;
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    Some(now.as_second() - date.as_second())
}

fn number(headers: &header::HeaderMap, name: &str) -> Option<f64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

/// Describes an error without the address, which may contain an interaction's token.
fn describe(error: &reqwest::Error) -> String {
    let kind = if error.is_timeout() {
        "timed out"
    } else if error.is_connect() {
        "cannot connect"
    } else {
        "connection cut"
    };
    let mut cause = std::error::Error::source(error);
    while let Some(deeper) = cause.and_then(std::error::Error::source) {
        cause = Some(deeper);
    }
    cause.map_or_else(|| kind.to_owned(), |cause| format!("{kind}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_of_an_answer_gives_the_clock_difference() {
        let now: jiff::Timestamp = "2026-08-06T12:00:40Z".parse().unwrap();
        let headers = |date: &'static str| {
            header::HeaderMap::from_iter([(header::DATE, header::HeaderValue::from_static(date))])
        };
        assert_eq!(clock_difference(&headers("Thu, 06 Aug 2026 12:00:00 GMT"), now), Some(40));
        assert_eq!(clock_difference(&headers("Thu, 06 Aug 2026 12:01:00 GMT"), now), Some(-20));
        assert_eq!(clock_difference(&headers("yesterday"), now), None);
    }
}
