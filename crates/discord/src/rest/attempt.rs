//! One attempt of a request, and the meaning of Discord's answer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use reqwest::multipart::{Form, Part};
use reqwest::{StatusCode, header};
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde_json::Value;
use tracing::warn;

use super::failure::RestError;
use super::rate_limits::RateHeaders;
use super::{LONG_WAIT, Rest, RestRequest, Upload};
use aetheel_runtime::figures;

/// Part of rustls's message about a certificate that it does not accept. Its error type is not
/// accessible here.
const UNTRUSTED: &str = "invalid peer certificate";

impl Rest {
    pub(super) async fn attempt(
        &self,
        call: &RestRequest,
        files: &[Upload],
        limit: Duration,
    ) -> Attempt {
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
}

pub(super) enum Attempt {
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

fn form(body: &Value, files: &[Upload]) -> Form {
    let form = Form::new().text("payload_json", body.to_string());
    files.iter().enumerate().fold(form, |form, (number, file)| {
        let part = Part::bytes(file.bytes.clone()).file_name(file.name.clone());
        form.part(format!("files[{number}]"), part)
    })
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
