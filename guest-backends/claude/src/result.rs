//! The outcome of a turn, and the kind of a failure.

use aetheel_backend_sdk::TurnResult;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{Failure, FailureKind, Outcome, Usage};

use crate::answer::Answer;

/// Returns the result of the turn from a `result` line. `code` is the last error code that Claude
/// Code printed.
///
/// `is_error` decides: API failures have the subtype `success`, and an interrupted run may exit
/// with 0.
pub(crate) fn turn_result(
    result: &Value,
    code: Option<&str>,
    answer: &mut Answer,
    usage: Option<Usage>,
) -> TurnResult {
    let text = result.text("result").unwrap_or_default();
    let whole = answer.finish(text);
    let subtype = result.text("subtype").unwrap_or_default();
    if !is_error(result, subtype) {
        return TurnResult { outcome: Outcome::Completed, text: whole, usage };
    }
    let message = match text {
        "" => errors(result).unwrap_or_else(|| subtype.to_owned()),
        text => text.to_owned(),
    };
    let outcome = match subtype {
        "error_max_turns" | "error_max_budget_usd" => Outcome::Limit(message),
        _ if result.text("terminal_reason").is_some_and(|reason| reason.starts_with("aborted")) => {
            Outcome::Interrupted
        }
        _ => {
            let refused = result.text("stop_reason") == Some("refusal");
            let kind = if refused {
                FailureKind::Refused
            } else {
                kind(result.count("api_error_status"), code, &message)
            };
            Outcome::Failed(Failure { kind, message, retry_after_ms: None })
        }
    };
    TurnResult { outcome, text: None, usage }
}

fn is_error(result: &Value, subtype: &str) -> bool {
    match result.get("is_error").and_then(Value::as_bool) {
        Some(is_error) => is_error,
        None => subtype != "success",
    }
}

/// Returns the errors for users.
fn errors(result: &Value) -> Option<String> {
    let errors: Vec<&str> = result
        .list("errors")
        .iter()
        .filter_map(Value::as_str)
        .filter(|error| !error.starts_with("[ede_diagnostic]"))
        .collect();
    (!errors.is_empty()).then(|| errors.join("; "))
}

/// Returns the kind of a failure from the HTTP status, Claude Code's error code, and the message
/// for users.
pub(crate) fn kind(status: Option<u32>, code: Option<&str>, text: &str) -> FailureKind {
    let text = text.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if says(&["no conversation found with session id"]) {
        FailureKind::SessionUnknown
    } else if says(&["prompt is too long", "context window", "context limit"]) {
        FailureKind::ContextFull
    } else if says(&["cannot be used with root"]) {
        FailureKind::Unsupported
    } else if matches!(status, Some(401 | 403))
        || code == Some("authentication_failed")
        || says(&["not logged in", "please run /login", "invalid api key"])
    {
        FailureKind::Authentication
    } else if matches!(status, Some(402))
        || code == Some("billing_error")
        || says(&["usage limit reached", "hit your limit", "credit balance"])
    {
        FailureKind::Quota
    } else if status == Some(429) || code == Some("rate_limit") {
        FailureKind::RateLimited
    } else if says(&["unable to connect to api", "connection error"]) {
        FailureKind::Network
    } else if matches!(status, Some(404))
        || code == Some("model_not_found")
        || says(&["issue with the selected model"])
    {
        FailureKind::ModelNotFound
    } else if status.is_some_and(|status| status >= 500)
        || code == Some("server_error")
        || says(&["overloaded"])
    {
        FailureKind::Overloaded
    } else if status.is_some_and(|status| (400..500).contains(&status))
        || code == Some("invalid_request")
        || says(&["input must be provided"])
    {
        FailureKind::BadRequest
    } else {
        FailureKind::Other
    }
}
