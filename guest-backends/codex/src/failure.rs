//! Classifies failures by Codex's error code (`codexErrorInfo`, only in `app-server`), the error of
//! the model provider, or the text.

use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::text::head;
use aetheel_backend_sdk::wit::{Failure, FailureKind, Outcome};

/// Maximum length of a message, in bytes. Codex answers an unknown method with a list of all
/// methods, which has 8 KB.
const MESSAGE_BYTES: usize = 2000;

/// Returns the failure that a message describes.
pub(crate) fn failure(message: &str, info: &Value) -> Failure {
    let body = json::parse(message).unwrap_or_default();
    let inner = &body["error"];
    let text = inner.text("message").filter(|text| !text.is_empty()).unwrap_or(message);
    let kind = by_info(info).or_else(|| by_type(inner)).unwrap_or_else(|| by_text(text));
    Failure { kind, message: head(text.trim(), MESSAGE_BYTES).to_owned(), retry_after_ms: None }
}

/// Returns the outcome of a turn that Codex reports as failed.
pub(crate) fn outcome(message: &str, info: &Value) -> Outcome {
    let failure = failure(message, info);
    if failure.message.contains("max_output_tokens") {
        Outcome::Limit(failure.message)
    } else {
        Outcome::Failed(failure)
    }
}

/// Returns the kind of failure in a message about a retry: `Reconnecting... 2/5 (why)`.
pub(crate) fn retry(message: &str) -> Option<FailureKind> {
    let why = message.strip_prefix("Reconnecting...")?;
    Some(match by_text(why) {
        FailureKind::Other => FailureKind::Overloaded,
        kind => kind,
    })
}

fn by_info(info: &Value) -> Option<FailureKind> {
    let word = match info {
        Value::String(word) => word.as_ref(),
        // {"responseStreamDisconnected": {"httpStatusCode": 503}}
        Value::Object(fields) => {
            let status = fields.values().find_map(|value| value.count("httpStatusCode"));
            // {"httpConnectionFailed": {"httpStatusCode": null}}
            let connects = !fields.fields().any(|(name, _)| name.ends_with("ConnectionFailed"));
            let silent = if connects { FailureKind::Overloaded } else { FailureKind::Network };
            return Some(status.and_then(by_status).unwrap_or(silent))
                .filter(|_| !fields.is_empty());
        }
        _ => return None,
    };
    Some(match word {
        "contextWindowExceeded" => FailureKind::ContextFull,
        "usageLimitExceeded" | "sessionBudgetExceeded" => FailureKind::Quota,
        "rateLimitExceeded" => FailureKind::RateLimited,
        "serverOverloaded"
        | "internalServerError"
        | "flexUnavailable"
        | "policyCapacityUnavailable" => FailureKind::Overloaded,
        "modelNotFound" => FailureKind::ModelNotFound,
        "cyberPolicy" | "misalignmentPolicyViolation" | "inferenceHookDenied" => {
            FailureKind::Refused
        }
        "unauthorized" => FailureKind::Authentication,
        "badRequest" => FailureKind::BadRequest,
        _ => return None,
    })
}

fn by_type(error: &Value) -> Option<FailureKind> {
    match (error.text("code"), error.text("type")?) {
        (Some("context_length_exceeded"), _) => Some(FailureKind::ContextFull),
        (Some("model_not_found"), _) => Some(FailureKind::ModelNotFound),
        (_, "invalid_request_error") => Some(FailureKind::BadRequest),
        (_, "authentication_error" | "permission_error") => Some(FailureKind::Authentication),
        (_, "insufficient_quota") => Some(FailureKind::Quota),
        (_, "rate_limit_error") => Some(FailureKind::RateLimited),
        (_, "server_error" | "overloaded_error") => Some(FailureKind::Overloaded),
        _ => None,
    }
}

fn by_text(text: &str) -> FailureKind {
    // "unexpected status 401 Unauthorized: …", "exceeded retry limit, last status: 429 Too Many
    // Requests"
    let status = text.split_once("status").and_then(|(_, rest)| {
        rest.trim_start_matches([':', ' '])
            .split(|letter: char| !letter.is_ascii_digit())
            .next()?
            .parse()
            .ok()
            .and_then(by_status)
    });
    status.unwrap_or_else(|| {
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if has(&["no rollout found", "invalid session id", "thread not found", "Thread not found"])
        {
            FailureKind::SessionUnknown
        } else if has(&[
            "Missing environment variable",
            "Not logged in",
            "not logged in",
            "refresh token",
        ]) {
            FailureKind::Authentication
        } else if has(&["Connection failed"]) {
            FailureKind::Network
        } else if has(&["high demand", "stream disconnected"]) {
            FailureKind::Overloaded
        } else if has(&["usage limit"]) {
            FailureKind::Quota
        } else if has(&["context window"]) {
            FailureKind::ContextFull
        } else {
            FailureKind::Other
        }
    })
}

fn by_status(status: u32) -> Option<FailureKind> {
    Some(match status {
        401 | 403 => FailureKind::Authentication,
        404 => FailureKind::ModelNotFound,
        429 => FailureKind::RateLimited,
        400..500 => FailureKind::BadRequest,
        500..600 => FailureKind::Overloaded,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_classified_by_their_text() {
        for (message, kind, text) in [
            (
                "unexpected status 401 Unauthorized: mock: invalid credentials",
                FailureKind::Authentication,
                None,
            ),
            (
                "exceeded retry limit, last status: 429 Too Many Requests",
                FailureKind::RateLimited,
                None,
            ),
            (
                "We’re currently experiencing high demand, which may cause temporary errors.",
                FailureKind::Overloaded,
                None,
            ),
            (
                r#"{"error":{"message":"mock: scripted error 400","type":"invalid_request_error","code":"invalid_value"}}"#,
                FailureKind::BadRequest,
                Some("mock: scripted error 400"),
            ),
            ("Missing environment variable: `MOCK_API_KEY`.", FailureKind::Authentication, None),
            ("no rollout found for thread id 0", FailureKind::SessionUnknown, None),
            ("You've hit your usage limit.", FailureKind::Quota, None),
            ("Connection failed: refused", FailureKind::Network, None),
            ("something else", FailureKind::Other, None),
        ] {
            let failure = failure(message, &Value::Null);
            assert_eq!((failure.kind, failure.message.as_str()), (kind, text.unwrap_or(message)));
        }
    }

    #[test]
    fn the_error_code_takes_precedence() {
        for (info, kind) in [
            (r#""contextWindowExceeded""#, FailureKind::ContextFull),
            (r#""modelNotFound""#, FailureKind::ModelNotFound),
            (r#""somethingNew""#, FailureKind::RateLimited),
            (r#"{"httpConnectionFailed":{"httpStatusCode":401}}"#, FailureKind::Authentication),
            (r#"{"responseStreamDisconnected":{"httpStatusCode":null}}"#, FailureKind::Overloaded),
            (r#"{"httpConnectionFailed":{"httpStatusCode":null}}"#, FailureKind::Network),
            (r#""usageLimitExceeded""#, FailureKind::Quota),
        ] {
            assert_eq!(
                failure("last status: 429", &json::parse(info).expect("JSON")).kind,
                kind,
                "{info}"
            );
        }
    }

    #[test]
    fn reaching_the_output_limit_is_a_limit() {
        let message = "Incomplete response returned, reason: max_output_tokens";
        assert_eq!(outcome(message, &Value::Null), Outcome::Limit(message.to_owned()));
    }
}
