//! Usage limits of the shipped backends' agents, with the real program. The agents print what the
//! real ones print, recorded with a model service that refused a request. Only the end of the limit
//! was changed, and added if the service did not name it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord};
use crate::support::program::{Installation, built};

/// Returns what an agent printed on stdout in a recorded run.
pub(super) fn printed(backend: &str, recording: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(backend)
        .join(recording)
        .with_extension("jsonl");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let entries = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines = entries.filter_map(|entry| {
        let line = entry.pointer("/in/line")?;
        (line["pipe"] == "stdout").then(|| format!("{}\n", line["text"].as_str().unwrap()))
    });
    lines.collect()
}

/// Installs an agent whose first run prints `limit`, and whose later runs print `answer`.
pub(super) fn with_agent(
    installation: Installation,
    (name, wait): (&str, u32),
    limit: &str,
    answer: &str,
) -> Installation {
    let bin = installation.path("bin");
    fs::create_dir_all(&bin).unwrap();
    let runs = installation.path("workspace/runs");
    fs::create_dir_all(&runs).unwrap();
    fs::write(runs.join("limit"), limit).unwrap();
    fs::write(runs.join("answer"), answer).unwrap();
    let script = format!(
        "#!/bin/sh\ncd {}\ncase $1 in --version) echo 9.9.9; exit;; esac\n\
         if mkdir first 2>/dev/null; then sed -e \"s/@SOON@/$(($(date +%s) + {wait}))/\" -e \"s/@CLOCK@/$(date +'%I:%M %p')/\" -e \"s/@TIME@/$(date -u +'%-I:%M%P')/\" limit; exit 1; fi\n\
         echo again >> later; cat answer\n",
        runs.display()
    );
    fs::write(bin.join(name), script).unwrap();
    fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(installation.backend(name), built(name)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    installation
        .with("PATH", &path)
        .with("BACKEND_RUN", "one-shot")
        .with("PERMISSION_MODE", "default")
        .with("ANTHROPIC_API_KEY", "key-1")
        .with("CODEX_API_KEY", "key-1")
        .with("GEMINI_API_KEY", "key-1")
        .with("FACTORY_API_KEY", "key-1")
}

/// A backend, its recordings of a refused request and of an answer, and a text of the first that is
/// replaced.
pub(super) type Limited = (&'static str, &'static str, &'static str, &'static str, &'static str);

pub(super) const LIMITS: [Limited; 7] = [
    ("claude", "limit-plan", "stream-plain", r#""resetsAt":1795762857"#, r#""resetsAt":@SOON@"#),
    // In the minute in which the limit ends.
    ("codex", "limit-plan", "plain", "try again at 7:05 AM", "try again at @CLOCK@"),
    (
        "codex",
        "error-429",
        "plain",
        "exceeded retry limit, last status: 429 Too Many Requests",
        "You've hit your usage limit. Try again in 2 seconds.",
    ),
    (
        "claude",
        "error-429",
        "stream-plain",
        "API Error: Request rejected (429) · mock: scripted error 429",
        // In the minute in which the limit ends.
        "You've hit your limit · resets @TIME@ (UTC)",
    ),
    (
        "gemini",
        "error-429",
        "plain",
        "mock: scripted error 429",
        "You have exhausted your capacity on this model. Your quota will reset after 2s.",
    ),
    ("opencode", "run-error-429", "run-plain", r#""content-length":"116""#, r#""retry-after":"2""#),
    ("droid", "error-429", "plain", "mock: scripted error 429", "Please retry in 2s."),
];

#[tokio::test]
async fn a_conversation_waits_for_the_end_of_the_limit_of_each_agent() {
    for (backend, limit, answer, text, replacement) in LIMITS {
        let refused = printed(backend, limit);
        assert!(refused.contains(text), "{backend}: {text} is missing in {refused}");
        let refused = refused.replace(text, replacement);
        let answer = printed(backend, answer);
        // The console's log leaves out warnings about turns.
        let installation = Installation::new().with("LOG_LEVEL", "warn");
        let installation = with_agent(installation, (backend, 2), &refused, &answer);
        let ended = installation.run(&["console", "--backend", backend], "hello\n").await;
        let (said, log) = (&ended.stdout, &ended.stderr);
        assert_eq!(ended.code, 0, "{backend}: {said} {log}");
        assert!(
            log.contains("the agent reached a usage limit; the lane waits"),
            "{backend}: {log}"
        );
        let later = fs::read_to_string(installation.path("workspace/runs/later"));
        assert_eq!(later.unwrap_or_default(), "again\n", "{backend}: {said} {log}");
        assert!(!log.contains('✗') && !said.is_empty(), "{backend}: {said} {log}");
    }
}

#[tokio::test]
async fn a_button_in_discord_ends_the_wait_and_names_the_person() {
    let (backend, limit, answer, text, replacement) = LIMITS[0];
    let refused = printed(backend, limit).replace(text, replacement);
    let local = LocalDiscord::start().await;
    let answer = printed(backend, answer);
    let installation = with_agent(installed(&local), (backend, 10_800), &refused, &answer)
        .with("AGENT_BACKEND", backend);
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    let waits =
        |text: &str| text.contains("Claude Code has reached a usage limit (Claude, 5 hours).");
    let notice = local.wait_for_message(CHANNEL, waits).await;
    assert!(notice.content.contains("Your message waits"), "{}", notice.content);
    let buttons = local.buttons(notice.id);
    assert!(buttons.ends_with(&["Try now".to_owned(), "Cancel".to_owned()]), "{buttons:?}");
    local.press(notice.id, ANN, "Try now");
    let ended = |text: &str| waits(text) && text.contains("▶️ Tried again at once for ");
    let notice = local.wait_for_message(CHANNEL, ended).await;
    assert_eq!(local.buttons(notice.id), Vec::<String>::new());
    bot.logs("turn ended").await;
    let later = || fs::read_to_string(installation.path("workspace/runs/later")).ok();
    assert_eq!(local.wait_for("the second run", |_| later()).await, "again\n");
}
