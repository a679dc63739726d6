//! Classifies JSON-RPC errors.

use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::wit::{Failure, FailureKind};

/// ACP's error code for "authentication required".
const AUTH_REQUIRED: f64 = -32000.0;
/// ACP's error code for a missing resource.
const NOT_FOUND: f64 = -32002.0;

/// Returns whether an error requires authentication.
pub(crate) fn wants_sign_in(error: &Value) -> bool {
    error.number("code") == Some(AUTH_REQUIRED)
        && kind_of(&message(error)) != FailureKind::SessionUnknown
}

/// Converts an error answer into a failure.
pub(crate) fn failure(error: &Value) -> Failure {
    let message = message(error);
    let kind = match error.number("code") {
        Some(AUTH_REQUIRED) => FailureKind::Authentication,
        // Gemini CLI 0.61.0 has the HTTP status here.
        Some(_) => match error.count("code").filter(|code| (400..600).contains(code)) {
            Some(status) => kind_of_status(status),
            None => kind_of(&message),
        },
        None => kind_of(&message),
    };
    Failure { kind, message, retry_after_ms: None }
}

/// Converts the error of a request that opens an existing session into a failure.
pub(crate) fn open_failure(error: &Value) -> Failure {
    let mut failure = failure(error);
    let code = error.number("code");
    let text = failure.message.to_ascii_lowercase();
    let gone = [
        "not found",
        "no rollout found",
        "thread not loaded",
        "unknown session",
        "invalid session identifier",
        "no previous sessions",
        "does not exist",
    ];
    // OpenCode 1.18.33 reports an internal error for an id that it did not create.
    let opencode = error["data"].text("service") == Some("session")
        && error["data"].text("errorName").is_none();
    if code == Some(NOT_FOUND) || opencode || gone.iter().any(|words| text.contains(words)) {
        failure.kind = FailureKind::SessionUnknown;
    }
    failure
}

/// Returns the error message for users. Agents put it into `message`, `data`, or JSON within either
/// of them.
pub(crate) fn message(error: &Value) -> String {
    let said = error.text("message").unwrap_or_default();
    let data = &error["data"];
    let detail = data.as_str().or_else(|| data.text("details")).or_else(|| data.text("message"));
    match detail {
        Some(detail) if said.is_empty() || said.starts_with("Internal error") => words(detail),
        Some(detail) if !said.contains(detail) => format!("{}: {}", words(said), words(detail)),
        _ if said.is_empty() => "the agent reported an error without a message".to_owned(),
        _ => words(said.strip_prefix("Internal error: ").unwrap_or(said)),
    }
}

/// Extracts the message from texts such as `400 {"error":{"message":"…"}}`. Returns other texts
/// unchanged.
#[must_use]
pub fn words(text: &str) -> String {
    let text = text.trim();
    let Some(at) = text.find('{') else { return text.to_owned() };
    let Ok(value) = json::parse(&text[at..]) else { return text.to_owned() };
    match value["error"].text("message").or_else(|| value.text("message")) {
        Some(message) => format!("{}{message}", &text[..at]),
        None => text.to_owned(),
    }
}

/// Returns the kind of a failure for the HTTP status of the model provider.
#[must_use]
pub fn kind_of_status(status: u32) -> FailureKind {
    match status {
        401 | 403 => FailureKind::Authentication,
        404 => FailureKind::ModelNotFound,
        429 => FailureKind::RateLimited,
        400..=499 => FailureKind::BadRequest,
        500..=599 => FailureKind::Overloaded,
        _ => FailureKind::Other,
    }
}

/// Returns the kind of a failure from its message.
#[must_use]
pub fn kind_of(text: &str) -> FailureKind {
    let lower = text.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if says(&[
        "context window",
        "context length",
        "context limit",
        "prompt is too long",
        "token count exceeds",
    ]) {
        FailureKind::ContextFull
    } else if let Some(status) = status(text) {
        kind_of_status(status)
    } else if says(&[
        "unauthorized",
        "not logged in",
        "please sign in",
        "please log in",
        "api key",
        "authentication",
    ]) {
        FailureKind::Authentication
    } else if says(&["quota", "usage limit", "credit balance"])
        // claude-agent-acp 0.49.0: "You've hit your session limit · resets 6:50am (UTC)"
        || (says(&["hit your"]) && says(&["limit"]))
    {
        FailureKind::Quota
    } else if says(&["rate limit", "rate_limit", "too many requests"]) {
        FailureKind::RateLimited
    } else if says(&["overloaded", "unavailable", "internal server error", "stream disconnected"]) {
        FailureKind::Overloaded
    } else if says(&["fetch failed", "connection", "econnrefused", "enotfound"]) {
        FailureKind::Network
    } else if says(&["model not found", "unknown model", "model_not_found"]) {
        FailureKind::ModelNotFound
    } else if says(&["invalid_request_error", "bad request"]) {
        FailureKind::BadRequest
    } else {
        FailureKind::Other
    }
}

/// Returns the HTTP status near the beginning of a message, as in `API Error: 429 slow down` and
/// `unexpected status 401 …`.
fn status(text: &str) -> Option<u32> {
    let mut words = text
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(6);
    words.find_map(|word| {
        word.parse().ok().filter(|status| word.len() == 3 && (400..600).contains(status))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(error: &str) -> (FailureKind, String) {
        let failure = failure(&json::parse(error).expect("JSON"));
        (failure.kind, failure.message)
    }

    #[test]
    fn the_error_message_is_found_in_the_format_of_every_agent() {
        // claude-agent-acp 0.49.0, codex-acp 0.16.0, Droid 0.225.2, Gemini CLI 0.61.0, OpenCode
        // 1.18.33
        let claude = r#"{"code":-32603,"message":"Internal error: API Error: 400 prompt is bad","data":{"errorKind":"unknown"}}"#;
        assert_eq!(
            parsed(claude),
            (FailureKind::BadRequest, "API Error: 400 prompt is bad".to_owned())
        );
        let zed = r#"{"code":-32603,"message":"Internal error","data":{"message":"{\"error\":{\"message\":\"slow down: rate limit\"}}"}}"#;
        assert_eq!(parsed(zed), (FailureKind::RateLimited, "slow down: rate limit".to_owned()));
        let droid = r#"{"code":-32603,"message":"Internal error: Agent error","data":"401 {\"error\":{\"message\":\"no such key\"}}"}"#;
        assert_eq!(parsed(droid), (FailureKind::Authentication, "401 no such key".to_owned()));
        let gemini =
            r#"{"code":429,"message":"{\"error\":{\"code\":429,\"message\":\"slow down\"}}"}"#;
        assert_eq!(parsed(gemini), (FailureKind::RateLimited, "slow down".to_owned()));
        let claude = r#"{"code":-32603,"message":"Internal error: You've hit your session limit · resets 6:50am (UTC)"}"#;
        let words = "You've hit your session limit · resets 6:50am (UTC)";
        assert_eq!(parsed(claude), (FailureKind::Quota, words.to_owned()));
        let opencode = r#"{"code":-32603,"message":"Internal error: prompt is bad","data":{"errorName":"APIError"}}"#;
        assert_eq!(parsed(opencode), (FailureKind::Other, "prompt is bad".to_owned()));
        assert_eq!(parsed("{}").1, "the agent reported an error without a message");
    }

    #[test]
    fn errors_of_missing_sessions_are_recognised_for_every_agent() {
        for error in [
            r#"{"code":-32603,"message":"thread not loaded: 0000"}"#,
            r#"{"code":-32002,"message":"Resource not found: 0000"}"#,
            r#"{"code":-32603,"message":"Internal error","data":{"details":"no rollout found for thread id 0000"}}"#,
            r#"{"code":-32602,"message":"Invalid params: Unknown session identifier","data":{"sessionId":"nope"}}"#,
            r#"{"code":-32603,"message":"Internal error","data":{"details":"Invalid session identifier \"0000\"."}}"#,
            r#"{"code":-32603,"message":"Internal error: OpenCode service failure","data":{"service":"session"}}"#,
        ] {
            assert_eq!(
                open_failure(&json::parse(error).expect("JSON")).kind,
                FailureKind::SessionUnknown,
                "{error}"
            );
        }
        let other = json::parse(
            r#"{"code":-32603,"message":"Internal error","data":{"details":"disk full"}}"#,
        )
        .expect("JSON");
        assert_eq!(open_failure(&other).kind, FailureKind::Other);
    }
}
