//! Refusals because of a usage limit, with the headers and bodies that the providers send.
//!
//! They follow the programs that read them: Claude Code 2.1.197, Codex 0.169.0, Gemini CLI 0.61.0,
//! and the documentation of the providers for requests with a key.

use std::time::SystemTime;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::Api;

/// The allowance that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// That of a subscription, for five hours.
    Plan,
    /// The requests that a key may send.
    Key,
}

#[derive(Clone, Copy)]
pub(super) struct UsageLimit {
    pub(super) allowance: Allowance,
    pub(super) until: SystemTime,
}

impl UsageLimit {
    pub(super) fn refusal(&self, api: Api) -> Response {
        let seconds = self.until.duration_since(SystemTime::now()).map_or(0, |left| left.as_secs());
        let (headers, body) = match (api, self.allowance) {
            (Api::Messages, Allowance::Plan) => self.claude_plan(seconds),
            (Api::Responses, Allowance::Plan) => self.codex_plan(seconds),
            (Api::Gemini, allowance) => (vec![], gemini(seconds, allowance)),
            (Api::Messages, Allowance::Key) => (after(seconds), messages_key()),
            (Api::Responses | Api::Chat, _) => (after(seconds), openai_key(seconds)),
        };
        let mut response = Response::builder()
            .status(StatusCode::TOO_MANY_REQUESTS)
            .header("content-type", "application/json");
        for (name, value) in headers {
            response = response.header(name, value);
        }
        response.body(Body::from(body.to_string())).expect("status and headers are valid")
    }

    /// Returns the time in seconds since 1970.
    fn epoch(&self) -> u64 {
        self.until.duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970").as_secs()
    }

    fn claude_plan(&self, seconds: u64) -> (Headers, Value) {
        let mut headers = after(seconds);
        let until = self.epoch().to_string();
        for (name, value) in [
            ("anthropic-ratelimit-unified-status", "rejected"),
            ("anthropic-ratelimit-unified-reset", &until),
            ("anthropic-ratelimit-unified-representative-claim", "five_hour"),
            ("anthropic-ratelimit-unified-5h-status", "rejected"),
            ("anthropic-ratelimit-unified-5h-reset", &until),
            ("anthropic-ratelimit-unified-5h-utilization", "1.0"),
            ("anthropic-ratelimit-unified-overage-status", "rejected"),
            ("anthropic-ratelimit-unified-overage-disabled-reason", "org_level_disabled"),
        ] {
            headers.push((name, value.to_owned()));
        }
        let message =
            "This request would exceed your account's rate limit. Please try again later.";
        let error = json!({"type": "rate_limit_error", "message": message});
        (headers, json!({"type": "error", "error": error, "request_id": "req_scripted"}))
    }

    fn codex_plan(&self, seconds: u64) -> (Headers, Value) {
        let until = self.epoch();
        let next_week = (until + 500_000).to_string();
        let headers = [
            ("x-codex-plan-type", "plus"),
            ("x-codex-primary-used-percent", "100"),
            ("x-codex-primary-window-minutes", "300"),
            ("x-codex-primary-reset-at", &until.to_string()),
            ("x-codex-secondary-used-percent", "40"),
            ("x-codex-secondary-window-minutes", "10080"),
            ("x-codex-secondary-reset-at", &next_week),
        ];
        let error = json!({"type": "usage_limit_reached", "message": "The usage limit has been reached",
            "plan_type": "plus", "resets_at": until, "resets_in_seconds": seconds});
        let headers = headers.map(|(name, value)| (name, value.to_owned()));
        (headers.into(), json!({ "error": error }))
    }
}

type Headers = Vec<(&'static str, String)>;

fn after(seconds: u64) -> Headers {
    vec![("retry-after", seconds.to_string())]
}

fn messages_key() -> Value {
    let message =
        "This request would exceed the rate limit for your organization of 50 requests per minute.";
    let error = json!({"type": "rate_limit_error", "message": message});
    json!({"type": "error", "error": error, "request_id": "req_scripted"})
}

fn openai_key(seconds: u64) -> Value {
    let message = format!(
        "Rate limit reached for the model in organization org-scripted on requests per day (RPD): \
         Limit 200, Used 200, Requested 1. Please try again in {seconds}s."
    );
    let code = "rate_limit_exceeded";
    json!({"error": {"message": message, "type": "requests", "param": null, "code": code}})
}

/// A plan is that of a Google account (Code Assist), whose service names the reason.
fn gemini(seconds: u64, allowance: Allowance) -> Value {
    let google = |kind: &str| format!("type.googleapis.com/google.rpc.{kind}");
    let retry = json!({"@type": google("RetryInfo"), "retryDelay": format!("{seconds}s")});
    let (message, why) = match allowance {
        Allowance::Plan => (
            format!(
                "You have exhausted your capacity on this model. Your quota will reset after {seconds}s."
            ),
            json!({"@type": google("ErrorInfo"), "reason": "QUOTA_EXHAUSTED",
                "domain": "cloudcode-pa.googleapis.com", "metadata": {"model": "gemini-2.5-flash"}}),
        ),
        Allowance::Key => (
            format!(
                "You exceeded your current quota, please check your plan and billing details.\n\
                 * Quota exceeded for metric: generate_content_free_tier_requests, limit: 20\n\
                 Please retry in {seconds}.123456789s."
            ),
            json!({"@type": google("QuotaFailure"), "violations": [{
                "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
                "quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "quotaValue": "20"}]}),
        ),
    };
    json!({"error": {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED",
        "details": [why, retry]}})
}
