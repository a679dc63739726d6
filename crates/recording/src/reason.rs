//! Extracts the reason of an agent's end from its stderr, as a text for people, without the noise
//! that programs always print.
//!
//! Backends pass on the end of stderr unchanged, so that they behave the same in every language.
//! Only this module removes lines that are never the reason, just before people see them: those that
//! runtimes print for any agent, and those that the component lists in its descriptor. Recordings
//! keep all lines. Pure. `tests/reasons.rs` checks the recordings of all backends.

use std::borrow::Cow;

use aetheel_model::agent::descriptor::StderrNoise;
use aetheel_model::plain::clean_text;

/// Maximum number of lines and bytes of a reason.
const MAX_REASON_LINES: usize = 5;
const MAX_REASON_BYTES: usize = 1024;

/// Parts of lines that are never the reason, whatever the agent: warnings of its runtime.
const RUNTIME_NOISE: [&str; 3] =
    ["(Use `node --trace-", "DeprecationWarning:", "ExperimentalWarning:"];

/// Beginnings of lines that are never the reason, whatever the agent: notices of Node.js and npm.
const RUNTIME_NOISE_PREFIXES: [&str; 6] =
    ["npm notice", "npm warn", "npm WARN", "Node.js v", "node:internal/", "throw err"];

/// Returns the reason in the end of stderr, or an empty text if all of it is noise. `noise` is what
/// the component lists.
#[must_use]
pub fn reason(stderr: &str, noise: &StderrNoise) -> String {
    let stderr = clean_text(stderr);
    let useful: Vec<&str> =
        stderr.lines().map(str::trim).filter(|line| !is_noise(line, noise)).collect();
    last_lines(&useful)
}

/// Returns the message of a failure as a text for people. If the message contains the end of
/// `stderr`, as backends add it, the reason replaces it. Otherwise, noise is removed.
#[must_use]
pub fn readable_message(message: &str, stderr: &str, noise: &StderrNoise) -> String {
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let tail = last_lines(&lines);
    let message: Cow<'_, str> = match message.rsplit_once(tail.as_str()) {
        Some((before, behind)) if !tail.is_empty() => {
            Cow::Owned(format!("{before}{}{behind}", reason(stderr, noise)))
        }
        _ => Cow::Borrowed(message),
    };
    let message = clean_text(&message);
    let useful: Vec<&str> = message
        .lines()
        .map(|line| without_noise(line, noise))
        .filter(|line| !line.is_empty())
        .collect();
    useful.join("\n").trim_end_matches([':', ' ']).to_owned()
}

/// Returns the last lines, cut in the same way as every backend of this repository cuts them.
fn last_lines(lines: &[&str]) -> String {
    let end = lines[lines.len().saturating_sub(MAX_REASON_LINES)..].join("\n");
    end[end.ceil_char_boundary(end.len().saturating_sub(MAX_REASON_BYTES))..].to_owned()
}

/// Returns a line of a message without noise. If noise follows words of the backend (`the agent
/// ended: …`), returns these words.
fn without_noise<'a>(line: &'a str, noise: &StderrNoise) -> &'a str {
    match line.trim_end().split_once(": ") {
        Some((head, rest)) if head.contains(" ended") && is_noise(rest.trim(), noise) => head,
        _ if is_noise(line.trim(), noise) => "",
        _ => line.trim_end(),
    }
}

fn is_noise(line: &str, listed: &StderrNoise) -> bool {
    line.is_empty()
        || listed.matches(line)
        || RUNTIME_NOISE.iter().any(|noise| line.contains(noise))
        || RUNTIME_NOISE_PREFIXES.iter().any(|opening| line.starts_with(opening))
        || (line.starts_with("(node:") && line.contains("Warning: "))
        || line.chars().all(|c| matches!(c, '^' | '~' | ' '))
        || is_frame(line)
        || is_position(line)
}

/// Returns whether a line is a frame of a Node.js stack trace: `at name (file:1:2)` or `at
/// file:1:2`.
fn is_frame(line: &str) -> bool {
    let Some(at) = line.strip_prefix("at ") else { return false };
    let at = at.trim_end_matches([' ', '{']);
    at.ends_with("(<anonymous>)")
        || is_position(at.trim_end_matches(')').rsplit(['(', ' ']).next().unwrap_or_default())
}

/// Returns whether a word is a position in a program: `file:1` or `file:1:2`, without spaces.
fn is_position(word: &str) -> bool {
    let mut parts = word.rsplit(':');
    let number = |part: Option<&str>| {
        part.is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let path =
        word.starts_with(['/', '\\']) || word.starts_with("file:///") || word.starts_with("node:");
    path && number(parts.next()) && !word.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that runtimes print for any agent.
    const ANY_CASE: [&str; 16] = [
        "(node:4711) [DEP0040] DeprecationWarning: The `punycode` module is deprecated.",
        "(node:4711) Warning: Setting the NODE_TLS_REJECT_UNAUTHORIZED environment variable to '0' makes TLS connections insecure.",
        "(node:4711) ExperimentalWarning: SQLite is an experimental feature and might change at any time",
        "(Use `node --trace-deprecation ...` to show where the warning was created)",
        "npm notice New major version of npm available! 10.9.2 -> 11.0.0",
        "npm warn deprecated inflight@1.0.6: This module is not supported",
        "    at Module._compile (node:internal/modules/cjs/loader:1554:14)",
        "    at node:internal/main/run_main_module:36:49",
        "at async Turn.run (file:///opt/cli/bundle/chunk-JDPZ4CE3.js:333001:24) {",
        "at file:///opt/cli/bundle/chunk-JDPZ4CE3.js:267671:13",
        "    at new Promise (<anonymous>)",
        "node:internal/modules/cjs/loader:1228",
        "/usr/lib/node_modules/x/index.js:12",
        "    throw err;",
        "          ^",
        "Node.js v22.14.0",
    ];

    /// Lines that the component of an invented agent lists.
    const LISTED: [&str; 2] = [
        "\u{1b}[2m2026-11-22T22:27:30Z\u{1b}[0m \u{1b}[31mERROR\u{1b}[0m Sprocket runs without its grinder.",
        "[boot] took 3 ms",
    ];

    fn listed() -> StderrNoise {
        StderrNoise {
            contains: vec!["without its grinder".to_owned()],
            starts_with: vec!["[boot]".to_owned()],
        }
    }

    fn reason(stderr: &str) -> String {
        super::reason(stderr, &listed())
    }

    fn readable_message(message: &str, stderr: &str) -> String {
        super::readable_message(message, stderr, &listed())
    }

    #[test]
    fn lines_of_runtimes_and_those_that_the_component_lists_are_not_reasons() {
        for noise in ANY_CASE.into_iter().chain(LISTED) {
            assert_eq!(reason(noise), "", "{noise}");
            assert_eq!(
                reason(&format!("Error: no such model\n{noise}\n{noise}")),
                "Error: no such model"
            );
            for message in [
                format!("Sprocket ended (exit code 1): {noise}"),
                format!("Sprocket ended (exit code 1): {noise}\n{noise}"),
            ] {
                assert_eq!(
                    readable_message(&message, ""),
                    "Sprocket ended (exit code 1)",
                    "{noise}"
                );
            }
            assert_eq!(
                readable_message(&format!("Error: no such model\n{noise}"), ""),
                "Error: no such model"
            );
        }
    }

    #[test]
    fn without_a_list_in_the_descriptor_only_the_noise_of_runtimes_is_removed() {
        let none = StderrNoise::default();
        for noise in ANY_CASE {
            assert_eq!(super::reason(noise, &none), "", "{noise}");
        }
        for line in LISTED {
            let shown = super::readable_message(&format!("Sprocket ended: {line}"), line, &none);
            assert!(shown.len() > "Sprocket ended".len(), "{shown}");
        }
    }

    #[test]
    fn a_reason_before_much_noise_is_found() {
        let stderr = format!("TypeError: no such model\n{}", ANY_CASE.join("\n"));
        let lines: Vec<&str> = stderr.lines().map(str::trim).collect();
        let message = format!(
            "Sprocket ended (exit code 1): {}",
            lines[lines.len() - MAX_REASON_LINES..].join("\n")
        );
        assert_eq!(
            readable_message(&message, &stderr),
            "Sprocket ended (exit code 1): TypeError: no such model"
        );
        assert_eq!(
            readable_message("Sprocket ended (exit code 1)", &stderr),
            "Sprocket ended (exit code 1)",
            "its backend did not pass on stderr"
        );
    }

    #[test]
    fn possible_reasons_are_kept() {
        for reason in [
            "Invalid auth method selected.",
            "Error: connect ECONNREFUSED 127.0.0.1:8080",
            "look at https://example.org/a:1 for more",
            "fatal: at line 3 of /etc/x.toml",
            "at least one model is needed",
            "npm ERR! code ENOENT",
            "Unhandled Warning: disk full",
            "Attempt 10 failed: mock: scripted error 429. Max attempts reached",
        ] {
            assert_eq!(
                (super::reason(reason, &listed()).as_str(), readable_message(reason, "").as_str()),
                (reason, reason)
            );
        }
        assert_eq!(readable_message("the agent ended: a\n\nb", ""), "the agent ended: a\nb");
        assert_eq!(reason("warning\n\n  at x\nError: no\n\n"), "warning\nat x\nError: no");
        assert!(reason(&"é".repeat(2000)).len() <= MAX_REASON_BYTES);
    }
}
