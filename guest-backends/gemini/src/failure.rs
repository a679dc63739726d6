//! Classifies failures of Gemini CLI from its result or its stderr.

use aetheel_acp_client::{kind_of, words};
use aetheel_backend_sdk::renewal::wait_in_words;
use aetheel_backend_sdk::wit::{Failure, FailureKind};

/// The longest pause of Gemini CLI before it tries a refused request again, in milliseconds. After a
/// usage limit it waits until the limit ends, for hours, so the turn ends instead.
const MAX_PAUSE_MS: u32 = 60_000;

/// Prefixes of irrelevant lines on stderr (Gemini CLI 0.61.0).
const NOISE: [&str; 7] = [
    "Warning: 256-color support not detected",
    "YOLO mode is enabled",
    "Ripgrep is not available",
    "[STARTUP]",
    "Security Warning: Skipping system",
    "at ",
    "Loaded cached credentials",
];

/// Returns whether a line of stderr is irrelevant.
pub(crate) fn noise(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || NOISE.iter().any(|noise| line.starts_with(noise))
}

/// Returns the failure for a message of the model provider.
pub(crate) fn of_message(message: &str) -> Failure {
    let message = message.trim();
    // [API Error: {"error":{"code":400,"message":"…"}}], for some errors followed by advice
    let inner = message
        .strip_prefix("[API Error: ")
        .map(|rest| rest.rsplit_once(']').map_or(rest, |(inner, _)| inner));
    let kind = match kind_of(inner.unwrap_or(message)) {
        // A 429 without a number in its text can only be recognised by the advice.
        FailureKind::Other if message.contains("To increase your limits") => {
            FailureKind::RateLimited
        }
        kind => kind,
    };
    Failure { kind, message: words(inner.unwrap_or(message)), retry_after_ms: None }
}

/// Returns the failure in `Attempt 1 failed: Your quota will reset after 2h59m56s.. Retrying after
/// 10950819ms...` if the pause after a usage limit is too long to wait for.
pub(crate) fn of_long_pause(line: &str) -> Option<Failure> {
    let (what, rest) = line.split_once(". Retrying after ")?;
    let pause: f64 = rest.split_once("ms")?.0.parse().ok()?;
    let message = what.split_once(" failed: ").map_or(what, |(_, message)| message);
    let kind = match kind_of(message) {
        kind @ (FailureKind::Quota | FailureKind::RateLimited) => kind,
        _ => return None,
    };
    if pause <= f64::from(MAX_PAUSE_MS) {
        return None;
    }
    // The pause has a random part.
    let after = wait_in_words(message).or((pause <= f64::from(u32::MAX)).then_some(pause as u32));
    Some(Failure { kind, message: message.to_owned(), retry_after_ms: after })
}

/// Returns the failure of a process that exited without a result. The exit codes are 41 for
/// authentication, 42 for input or session, 52 and 53 for settings and limits, and 55 for an
/// untrusted folder.
pub(crate) fn at_exit(code: Option<u32>, stderr: &str) -> Failure {
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !noise(line)).collect();
    let message = if lines.is_empty() {
        code.map_or_else(
            || "the agent ended without a result".to_owned(),
            |code| format!("the agent ended (exit code {code})"),
        )
    } else {
        lines.join("\n")
    };
    let has = |words: &str| message.contains(words);
    let kind = if has("Invalid session identifier") || has("No previous sessions found") {
        FailureKind::SessionUnknown
    } else if code == Some(41) || has("auth method") || has("Auth method") {
        FailureKind::Authentication
    } else if code == Some(55) || has("not running in a trusted directory") {
        FailureKind::Unsupported
    } else if has("No input provided") {
        FailureKind::BadRequest
    } else {
        of_message(&message).kind
    };
    Failure { kind, message, retry_after_ms: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_pause_after_a_usage_limit_is_a_failure() {
        let limit = "Attempt 1 failed: You have exhausted your capacity on this model. Your quota will reset after 2h59m56s.. Retrying after 10950819ms...";
        let failure = of_long_pause(limit).expect("a failure");
        assert_eq!((failure.kind, failure.retry_after_ms), (FailureKind::Quota, Some(10_796_000)));
        assert!(failure.message.starts_with("You have exhausted"), "{failure:?}");
        let unknown = "Attempt 2 failed: rate limit. Retrying after 61000ms...";
        assert_eq!(of_long_pause(unknown).expect("a failure").retry_after_ms, Some(61_000));
        for line in [
            "Attempt 1 failed: rate limit. Retrying after 60000ms...",
            "Attempt 1 failed: overloaded. Retrying after 10950819ms...",
            "Attempt 1 failed: rate limit. Max attempts reached",
        ] {
            assert_eq!(of_long_pause(line), None, "{line}");
        }
    }

    #[test]
    fn the_failure_of_an_exit_excludes_irrelevant_lines() {
        let stderr = "YOLO mode is enabled. All tool calls will be automatically approved.\nInvalid auth method selected.\n";
        let failure = at_exit(Some(41), stderr);
        assert_eq!(
            (failure.kind, failure.message.as_str()),
            (FailureKind::Authentication, "Invalid auth method selected.")
        );
        let unknown = "Error resuming session: Invalid session identifier \"0000\".\n  Searched for sessions in /home/user/.gemini.";
        assert_eq!(at_exit(Some(42), unknown).kind, FailureKind::SessionUnknown);
        assert_eq!(
            at_exit(Some(55), "Gemini CLI is not running in a trusted directory.").kind,
            FailureKind::Unsupported
        );
        assert_eq!(at_exit(Some(7), "").message, "the agent ended (exit code 7)");
    }

    #[test]
    fn an_error_of_the_service_keeps_its_message() {
        for (message, kind, words) in [
            (
                r#"[API Error: {"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]"#,
                FailureKind::BadRequest,
                "bad",
            ),
            (
                r#"[API Error: {"error":{"code":401,"message":"no key"}}]"#,
                FailureKind::Authentication,
                "no key",
            ),
            (
                "[API Error: mock: scripted error 429]\nPlease wait and try again later.",
                FailureKind::RateLimited,
                "mock: scripted error 429",
            ),
            (
                "[API Error: slow down]\nPlease wait. To increase your limits, see /auth",
                FailureKind::RateLimited,
                "slow down",
            ),
            (
                r#"[API Error: {"error":{"code":500,"message":"broken"}}]"#,
                FailureKind::Overloaded,
                "broken",
            ),
            (
                "[API Error: exception TypeError: fetch failed sending request]",
                FailureKind::Network,
                "exception TypeError: fetch failed sending request",
            ),
        ] {
            let failure = of_message(message);
            assert_eq!((failure.kind, failure.message.as_str()), (kind, words), "{message}");
        }
    }
}
