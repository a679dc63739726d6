//! Classifies failures: Droid's reasons, and the errors of model providers.

use aetheel_backend_sdk::wit::{Failure, FailureKind};
use aetheel_backend_sdk::{failure, json};

/// Converts an error of a model provider into a failure. Droid reports it for example as `429
/// {"type":"error","error":{"message":"…"}}` or `Connection error.`
pub(crate) fn of_model(said: &str) -> Failure {
    let (status, rest) = match said.split_once(' ') {
        Some((status, rest)) if status.len() == 3 => (status.parse::<u32>().ok(), rest),
        _ => (None, said),
    };
    let message = json::parse(rest).ok().and_then(|body| {
        let error = body.get("error")?;
        Some(error.text("message").or_else(|| error.as_str())?.to_owned())
    });
    let message = match (status, message) {
        (Some(status), Some(message)) => format!("{message} ({status})"),
        _ => said.to_owned(),
    };
    failure(kind(status, &message), message)
}

fn kind(status: Option<u32>, message: &str) -> FailureKind {
    let words = message.to_lowercase();
    let has = |any: &[&str]| any.iter().any(|word| words.contains(word));
    match status {
        Some(400 | 413)
            if has(&["too long", "context length", "context window", "maximum context"]) =>
        {
            FailureKind::ContextFull
        }
        Some(401 | 403) => FailureKind::Authentication,
        Some(404) => FailureKind::ModelNotFound,
        Some(429) => FailureKind::RateLimited,
        Some(400..=499) => FailureKind::BadRequest,
        Some(500..) => FailureKind::Overloaded,
        // For an unknown model, Droid lists all models. The message may be cut to the end of the
        // list.
        _ if has(&["invalid model", "unknown model", "model not ", "available custom models"]) => {
            FailureKind::ModelNotFound
        }
        _ if has(&["content moderation", "insufficient permission"]) => FailureKind::Refused,
        _ if has(&["api key", "api_key", "authenticat", "not logged in", "log in"]) => {
            FailureKind::Authentication
        }
        _ if has(&["connection error"]) => FailureKind::Network,
        _ if has(&["timed out", "overloaded"]) => FailureKind::Overloaded,
        _ if has(&["unknown tool", "unknown option", "invalid flags"]) => FailureKind::BadRequest,
        _ => FailureKind::Other,
    }
}

/// The reason for the end of a turn (`reason` in `agent_turn_completed`, Droid 0.225.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Completed,
    Cancelled,
    /// Droid's stdin was closed. The turn may be complete nevertheless.
    ProcessExit,
    Failed(FailureKind),
    Unknown,
}

impl Reason {
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "completed" | "spec_handoff" => Self::Completed,
            "cancelled" => Self::Cancelled,
            "process_exit" => Self::ProcessExit,
            "permission_rejected" | "no_approver_available" | "prompt_rejected" => {
                Self::Failed(FailureKind::Refused)
            }
            "model_authentication_failed" => Self::Failed(FailureKind::Authentication),
            "model_rate_limited" => Self::Failed(FailureKind::RateLimited),
            "model_usage_exhausted" => Self::Failed(FailureKind::Quota),
            "model_provider_unreachable" => Self::Failed(FailureKind::Network),
            "model_provider_unavailable" => Self::Failed(FailureKind::Overloaded),
            "model_request_rejected" => Self::Failed(FailureKind::BadRequest),
            "error"
            | "completion_persistence_failed"
            | "structured_output_missing"
            | "structured_output_invalid"
            | "structured_output_schema_invalid" => Self::Failed(FailureKind::Other),
            _ => Self::Unknown,
        }
    }
}

/// Returns the failure for a reason and the last error in the turn.
pub(crate) fn of_reason(kind: FailureKind, word: &str, error: Option<&str>) -> Failure {
    let Some(error) = error else {
        return failure(kind, format!("Droid ended the turn: {}", word.replace('_', " ")));
    };
    let reported = of_model(error);
    // The error is usually more precise than a reason such as "rejected" or "error".
    let kind = if reported.kind == FailureKind::Other
        || !matches!(kind, FailureKind::BadRequest | FailureKind::Other)
    {
        kind
    } else {
        reported.kind
    };
    Failure { kind, ..reported }
}

/// Returns the kind for a reason in `llm_retry`.
pub(crate) fn of_retry(reason: &str) -> FailureKind {
    match reason {
        "overloaded" => FailureKind::Overloaded,
        "network" => FailureKind::Network,
        "rate_limited" => FailureKind::RateLimited,
        "timeout" => FailureKind::TimedOut,
        _ => FailureKind::Other,
    }
}
