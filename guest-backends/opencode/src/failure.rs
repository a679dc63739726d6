//! Classifies failures: the errors of OpenCode 1.18.33 (`{"name": …, "data": {"message": …}}`), and
//! its server's answers to requests.

use aetheel_backend_sdk::failure;
use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::text::one_line;
use aetheel_backend_sdk::wit::{Failure, FailureKind, HttpFailed};

/// Maximum length of a message, in bytes.
const MESSAGE: usize = 600;

/// The name of the error that an interrupted turn ends with.
pub(crate) const ABORTED: &str = "MessageAbortedError";

/// Converts an error object into a failure.
pub(crate) fn of_error(error: &Value) -> Failure {
    let name = error.text("name").or_else(|| error.text("_tag")).unwrap_or_default();
    let data = if error["data"].is_null() { error } else { &error["data"] };
    let message = data.text("message").unwrap_or(name);
    let kind = match name {
        "ProviderAuthError" => FailureKind::Authentication,
        "ContextOverflowError" => FailureKind::ContextFull,
        "ContentFilterError" => FailureKind::Refused,
        "NotFoundError" | "SessionNotFoundError" => FailureKind::SessionUnknown,
        "BadRequest" => FailureKind::BadRequest,
        _ => said(message).unwrap_or_else(|| match data.count("statusCode") {
            Some(status) => of_status(status),
            None => match data["metadata"].text("code") {
                // The connection existed and was closed.
                Some("ECONNRESET") => FailureKind::Overloaded,
                Some(_) => FailureKind::Network,
                None if data.is_true("isRetryable") => FailureKind::Overloaded,
                None => FailureKind::Other,
            },
        }),
    };
    let wait = Some(data).filter(|_| matches!(kind, FailureKind::RateLimited | FailureKind::Quota));
    Failure {
        retry_after_ms: wait.and_then(|data| retry_after_ms(&data["responseHeaders"])),
        ..failure(kind, one_line(message, MESSAGE))
    }
}

/// Returns the wait in the headers of the provider's answer. `retry-after` is in seconds; its other
/// form, a date, needs a clock.
fn retry_after_ms(headers: &Value) -> Option<u32> {
    let number = |name: &str| headers.text(name)?.trim().parse::<f64>().ok();
    let wait = number("retry-after-ms").or_else(|| Some(number("retry-after")? * 1_000.0))?;
    (0.0..=f64::from(u32::MAX)).contains(&wait).then_some(wait as u32)
}

/// Returns the failure for an answer that the provider's content filter ended.
pub(crate) fn filtered() -> Failure {
    failure(FailureKind::Refused, "the provider's content filter ended the answer")
}

/// Converts a message without an error object into a failure.
pub(crate) fn of_words(text: &str) -> Failure {
    failure(said(text).unwrap_or(FailureKind::Other), one_line(text, MESSAGE))
}

/// Converts an answer of the server with an error status into a failure. `what` names the request.
pub(crate) fn of_answer(what: &str, status: u32, body: &str) -> Failure {
    let error = json::parse(body).unwrap_or_default();
    let said = of_error(&error);
    let kind = match status {
        401 | 403 => FailureKind::Authentication,
        404 => FailureKind::SessionUnknown,
        400 => FailureKind::BadRequest,
        _ => said.kind,
    };
    let why = if said.message.is_empty() { format!("status {status}") } else { said.message };
    failure(kind, format!("{what}: {why}"))
}

/// Returns the failure for a request without an answer.
pub(crate) fn of_silence(what: &str, failed: &HttpFailed) -> Failure {
    let kind = if failed.timed_out { FailureKind::TimedOut } else { FailureKind::Protocol };
    failure(kind, format!("{what}: {}", one_line(&failed.message, MESSAGE)))
}

fn of_status(status: u32) -> FailureKind {
    match status {
        401 | 403 => FailureKind::Authentication,
        404 => FailureKind::ModelNotFound,
        408 => FailureKind::TimedOut,
        413 => FailureKind::ContextFull,
        402 => FailureKind::Quota,
        429 => FailureKind::RateLimited,
        400..500 => FailureKind::BadRequest,
        _ => FailureKind::Overloaded,
    }
}

fn said(message: &str) -> Option<FailureKind> {
    let message = message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&["session not found"]) {
        Some(FailureKind::SessionUnknown)
    } else if says(&["model not found", "providermodelnotfounderror"]) {
        Some(FailureKind::ModelNotFound)
    } else if says(&["prompt is too long", "context window", "context length"]) {
        Some(FailureKind::ContextFull)
    } else if says(&["you must provide a message", "agent not found"]) {
        Some(FailureKind::BadRequest)
    } else if says(&["unable to connect", "econnrefused"]) {
        Some(FailureKind::Network)
    } else if says(&["credit balance", "insufficient quota", "insufficient_quota"]) {
        Some(FailureKind::Quota)
    } else if says(&["api key is missing", "invalid api key", "unauthorized"]) {
        Some(FailureKind::Authentication)
    } else if says(&["rate limit", "too many requests"]) {
        Some(FailureKind::RateLimited)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_has_the_wait_of_its_headers() {
        let wait = |status: u32, headers: &str| {
            let text = format!(
                r#"{{"name":"APIError","data":{{"message":"no","statusCode":{status},"responseHeaders":{headers}}}}}"#
            );
            of_error(&json::parse(&text).expect("JSON")).retry_after_ms
        };
        assert_eq!(wait(429, r#"{"retry-after":"7"}"#), Some(7_000));
        assert_eq!(wait(429, r#"{"retry-after":"7","retry-after-ms":"1500"}"#), Some(1_500));
        assert_eq!(wait(429, r#"{"retry-after":"Sat, 21 Nov 2026 21:30:14 GMT"}"#), None);
        assert_eq!(wait(429, r#"{"retry-after":"-1"}"#), None);
        assert_eq!(wait(429, "{}"), None);
        assert_eq!(wait(503, r#"{"retry-after":"7"}"#), None);
    }

    #[test]
    fn errors_are_classified_by_name_status_and_message() {
        for (error, kind) in [
            (
                r#"{"name":"APIError","data":{"message":"no","statusCode":401}}"#,
                FailureKind::Authentication,
            ),
            (
                r#"{"name":"APIError","data":{"message":"no","statusCode":429}}"#,
                FailureKind::RateLimited,
            ),
            (
                r#"{"name":"APIError","data":{"message":"no","statusCode":400}}"#,
                FailureKind::BadRequest,
            ),
            (
                r#"{"name":"APIError","data":{"message":"no","statusCode":503}}"#,
                FailureKind::Overloaded,
            ),
            (
                r#"{"name":"APIError","data":{"message":"no","isRetryable":true}}"#,
                FailureKind::Overloaded,
            ),
            (
                r#"{"name":"ContextOverflowError","data":{"message":"long"}}"#,
                FailureKind::ContextFull,
            ),
            (
                r#"{"name":"UnknownError","data":{"message":"Model not found: a/b."}}"#,
                FailureKind::ModelNotFound,
            ),
            (
                r#"{"name":"UnknownError","data":{"message":"Agent not found: \"x\""}}"#,
                FailureKind::BadRequest,
            ),
            (
                r#"{"name":"UnknownError","data":{"message":"Unexpected server error."}}"#,
                FailureKind::Other,
            ),
        ] {
            assert_eq!(of_error(&json::parse(error).expect("JSON")).kind, kind, "{error}");
        }
    }

    #[test]
    fn failures_name_the_request() {
        let body = r#"{"name":"NotFoundError","data":{"message":"Session not found: ses_x"}}"#;
        let failure = of_answer("resuming the session", 404, body);
        assert_eq!(
            (failure.kind, &*failure.message),
            (FailureKind::SessionUnknown, "resuming the session: Session not found: ses_x")
        );
        assert_eq!(of_answer("the prompt", 500, "<html>").message, "the prompt: status 500");
    }
}
