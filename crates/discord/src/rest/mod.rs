//! Requests to Discord's HTTP interface: time limits, retries, rate limits.
//!
//! Replaces serenity's client, which has no time limits, never retries a 5xx or a cut connection,
//! and reports a 429 without its waiting time when it is used through a base address. Knows nothing
//! of what the requests mean (`api.rs` does). Never logs a body: prompts and answers are people's.

mod failure;

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

pub(super) use self::failure::RestError;
use super::clock::Clock;
use super::flow::{Flow, Rank};
use super::limits::{Bucket, Limits, RateHeaders};
use aetheel_model::figures;
use aetheel_model::lease::Lease;

const USER_AGENT: &str =
    concat!("DiscordBot (", env!("CARGO_PKG_REPOSITORY"), ", ", env!("CARGO_PKG_VERSION"), ")");
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Between the first two attempts of a request; each later pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONG_WAIT: Duration = Duration::from_secs(5);
/// The words of rustls about a certificate it does not take; its error type is not ours to name.
const UNTRUSTED: &str = "invalid peer certificate";

/// How long a request may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// Longest time of a single attempt.
    pub(super) attempt: Duration,
    /// All attempts and the waits between them.
    pub(super) total: Duration,
    /// Its rank beside other requests.
    pub(super) rank: Rank,
}

impl Timeouts {
    pub(super) const fn new(attempt: Duration, total: Duration) -> Self {
        Self { attempt, total, rank: Rank::Answer }
    }

    /// The same for a request of this rank.
    pub(super) const fn of(self, rank: Rank) -> Self {
        Self { rank, ..self }
    }
}

/// A request, to be repeated as it is.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    /// From `/` on, behind `/api/v10`.
    pub(super) path: String,
    /// Where its rate limit is kept; none for requests that are never repeated.
    pub(super) bucket: Option<Bucket>,
    pub(super) body: Option<Value>,
    /// The path holds an interaction's token: a 401 is about that, not about the bot.
    pub(super) by_interaction: bool,
}

/// A file that goes with a request.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

impl Upload {
    fn form(&self, body: &Value) -> Form {
        let file = Part::bytes(self.bytes.clone()).file_name(self.name.clone());
        Form::new().text("payload_json", body.to_string()).part("files[0]", file)
    }
}

#[derive(Debug)]
struct Shared {
    base: String,
    token: SecretString,
    clock: Clock,
    limits: Mutex<Limits>,
    flow: Mutex<Flow>,
    lanes: Mutex<HashMap<Bucket, Arc<tokio::sync::Mutex<()>>>>,
    refused: watch::Sender<bool>,
    /// Whether there was any answer yet.
    answered: AtomicBool,
    /// Whether the last attempt got no usable answer, and how often one did after that.
    away: AtomicBool,
    back: watch::Sender<u64>,
    /// The seconds of [`Rest::clock_ahead`]; none: not known yet.
    ahead: Mutex<Option<i64>>,
}

/// The client. Clones share limits and connections.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    http: reqwest::Client,
    shared: Arc<Shared>,
    /// Until when requests are sent; they wait while it has run out.
    lease: Lease,
}

impl Rest {
    /// Makes a client for `{base}/api/v10` that sends at most so many requests in a second.
    pub(super) fn new(
        base: &str,
        token: SecretString,
        most: usize,
        clock: Clock,
        lease: Lease,
    ) -> Result<Self, reqwest::Error> {
        let shared = Shared {
            base: format!("{}/api/v10", base.trim_end_matches('/')),
            token,
            clock,
            limits: Mutex::default(),
            flow: Mutex::new(Flow::new(most)),
            lanes: Mutex::default(),
            refused: watch::channel(false).0,
            answered: AtomicBool::new(false),
            away: AtomicBool::new(false),
            back: watch::channel(0).0,
            ahead: Mutex::default(),
        };
        let http = http_client(Duration::from_secs(30))?;
        Ok(Self { http, shared: Arc::new(shared), lease })
    }

    /// The same client with connections of its own, for use on another runtime: a connection lives
    /// and dies with the runtime that opened it.
    pub(super) fn with_own_connections(&self) -> Result<Self, reqwest::Error> {
        Ok(Self { http: http_client(Duration::from_secs(30))?, ..self.clone() })
    }

    /// The same client without a lease, for what every node may say.
    pub(super) fn unleased(&self) -> Self {
        Self { lease: Lease::endless(), ..self.clone() }
    }

    /// Whether requests are sent at this moment, or wait for the lease.
    pub(super) fn may_send(&self) -> bool {
        self.lease.lasts()
    }

    /// Resolves when Discord refused the token.
    pub(super) async fn token_refused(&self) {
        let mut refused = self.shared.refused.subscribe();
        // The sender lives in `self`, so this cannot fail before it is true.
        let _ = refused.wait_for(|refused| *refused).await;
    }

    /// Changes whenever Discord answers after it did not.
    pub(super) fn back(&self) -> watch::Receiver<u64> {
        self.shared.back.subscribe()
    }

    /// Discord was heard of, after it was away or not.
    pub(super) fn heard_of(&self) {
        self.shared.back.send_modify(|count| *count += 1);
    }

    /// From now on sends at most so many requests in a second; not 0.
    pub(super) fn allow(&self, most: usize) {
        self.shared.flow.lock().allow(most);
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// By how many seconds our clock is ahead of Discord's, as its last answer said.
    pub(super) fn clock_ahead(&self) -> Option<i64> {
        *self.shared.ahead.lock()
    }

    /// Answers of 401, 403 and 429 in the last ten minutes.
    pub(super) fn invalid_requests(&self) -> usize {
        self.limits().invalid_lately(self.shared.clock.now())
    }

    /// Sends a request until it succeeds, is refused, or `timeouts` has passed. Requests of one
    /// bucket are sent one after the other, in the order of the calls. Dropping the future may leave
    /// the request done or undone.
    pub(super) async fn send(&self, call: &Call, timeouts: Timeouts) -> Result<Value, RestError> {
        self.send_with(call, None, timeouts).await
    }

    /// Sends a request with a file, like [`Rest::send`].
    pub(super) async fn send_file(
        &self,
        call: &Call,
        file: &Upload,
        timeouts: Timeouts,
    ) -> Result<Value, RestError> {
        self.send_with(call, Some(file), timeouts).await
    }

    async fn send_with(
        &self,
        call: &Call,
        file: Option<&Upload>,
        timeouts: Timeouts,
    ) -> Result<Value, RestError> {
        let lane = call.bucket.map(|bucket| self.lane(bucket));
        let _turn = match &lane {
            Some(lane) => Some(lane.lock().await),
            None => None,
        };
        let clock = &self.shared.clock;
        let mut began = clock.now();
        let mut pause = FIRST_PAUSE;
        loop {
            self.wait_for_limits(call, began, timeouts).await?;
            if !self.lease.lasts() {
                debug!(method = %call.method, "the lease has run out; a request waits for it");
                self.lease.lasting().await;
                began = clock.now();
                continue;
            }
            let last = match self.attempt(call, file, timeouts.attempt).await {
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

    /// Waits until Discord and our own limit let a request out.
    async fn wait_for_limits(
        &self,
        call: &Call,
        began: Instant,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let clock = &self.shared.clock;
        loop {
            if *self.shared.refused.borrow() {
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
        // What answers a command does not count (Discord's documentation, interactions).
        if call.by_interaction { Ok(()) } else { self.wait_for_room(began, timeouts).await }
    }

    async fn wait_for_room(&self, began: Instant, timeouts: Timeouts) -> Result<(), RestError> {
        let (clock, flow) = (&self.shared.clock, || self.shared.flow.lock());
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
            let gone = flow().go(ticket, clock.now());
            let Err(wait) = gone else { return Ok(()) };
            clock.sleep(wait).await;
        }
    }

    async fn attempt(&self, call: &Call, file: Option<&Upload>, limit: Duration) -> Attempt {
        let mut request = self
            .http
            .request(call.method.clone(), format!("{}{}", self.shared.base, call.path))
            .timeout(limit)
            .header(header::AUTHORIZATION, format!("Bot {}", self.shared.token.expose_secret()));
        match (&call.body, file) {
            (Some(body), Some(file)) => request = request.multipart(file.form(body)),
            (Some(body), None) => request = request.json(body),
            (None, _) => {}
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
        if let Some(ahead) = ahead(&headers, jiff::Timestamp::now()) {
            *self.shared.ahead.lock() = Some(ahead);
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
            self.heard_of();
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
        let fault: Fault = serde_json::from_slice(&body).unwrap_or_default();
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
                // Without a bucket nobody would wait: let everybody.
                self.limits().refused(call.bucket, global || call.bucket.is_none(), wait, now);
                Attempt::Limited
            }
            StatusCode::UNAUTHORIZED if !call.by_interaction => {
                self.shared.refused.send_replace(true);
                Attempt::Failed(RestError::TokenRefused)
            }
            _ => Attempt::Failed(RestError::Refused {
                status: status.as_u16(),
                code: fault.code,
                message: fault.message,
            }),
        }
    }

    fn lane(&self, bucket: Bucket) -> Arc<tokio::sync::Mutex<()>> {
        let mut lanes = self.shared.lanes.lock();
        if lanes.len() >= 512 {
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        Arc::clone(lanes.entry(bucket).or_default())
    }

    fn limits(&self) -> parking_lot::MutexGuard<'_, Limits> {
        self.shared.limits.lock()
    }
}

/// Makes an HTTP client as Discord wants it; serenity gets one too.
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
    /// A rate limit was learned; wait for it and try again.
    Limited,
    /// Nothing usable came back.
    Again(String),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fault {
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

/// The difference to the `Date` of an answer, seconds.
fn ahead(headers: &header::HeaderMap, now: jiff::Timestamp) -> Option<i64> {
    let date = headers.get(header::DATE)?.to_str().ok()?;
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    Some(now.as_second() - date.as_second())
}

fn number(headers: &header::HeaderMap, name: &str) -> Option<f64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

/// The address is left out: it may hold an interaction's token.
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
    fn the_date_of_an_answer_says_how_far_the_clock_is_off() {
        let now: jiff::Timestamp = "2026-08-06T12:00:40Z".parse().unwrap();
        let headers = |date: &'static str| {
            header::HeaderMap::from_iter([(header::DATE, header::HeaderValue::from_static(date))])
        };
        assert_eq!(ahead(&headers("Thu, 06 Aug 2026 12:00:00 GMT"), now), Some(40));
        assert_eq!(ahead(&headers("Thu, 06 Aug 2026 12:01:00 GMT"), now), Some(-20));
        assert_eq!(ahead(&headers("yesterday"), now), None);
    }
}
