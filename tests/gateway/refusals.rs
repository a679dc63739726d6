//! What keeps the program from starting: every reason at once, what to do, and the exit code.

use super::installed;
use crate::support::discord::{LocalDiscord, TOKEN};
use crate::support::program::Installation;

#[tokio::test]
async fn a_token_that_discord_refuses_is_77_and_says_what_to_do() {
    let local = LocalDiscord::start().await;
    local.faults().refuse_token(true);
    let ended = installed(&local).run(&["run"], "").await;
    assert_eq!(ended.code, 77, "{}", ended.stderr);
    let line = ended.stderr.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(line.contains("`DISCORD_BOT_TOKEN`"), "{}", ended.stderr);
    assert!(ended.stderr.contains("hint: ") && ended.stderr.contains("https://discord.com/developers"), "{}", ended.stderr);
    assert!(!ended.stderr.contains(TOKEN));
}

#[tokio::test]
async fn intents_that_discord_refuses_are_77() {
    let local = LocalDiscord::start().await;
    local.faults().close_logins_with(4014);
    let ended = installed(&local).run(&["run"], "").await;
    assert_eq!(ended.code, 77, "{}", ended.stderr);
    assert!(ended.stderr.contains("4014") && ended.stderr.contains("hint: "), "{}", ended.stderr);
}

#[tokio::test]
async fn a_missing_token_is_78_and_a_strange_one_too() {
    let ended = Installation::new().run(&["run"], "").await;
    assert_eq!(ended.code, 78, "{}", ended.stderr);
    assert!(ended.stderr.contains("error: DISCORD_BOT_TOKEN is not set"), "{}", ended.stderr);
    let ended = Installation::new().with("DISCORD_BOT_TOKEN", "Bot not-a-token").run(&["run"], "").await;
    assert_eq!(ended.code, 78, "{}", ended.stderr);
    assert!(ended.stderr.contains("does not look like a bot token") && !ended.stderr.contains("not-a-token"), "{}", ended.stderr);
}

#[tokio::test]
async fn an_unknown_backend_is_78_and_the_known_ones_are_listed() {
    let installation = Installation::new().with("AGENT_BACKEND", "clod").with("DISCORD_BOT_TOKEN", TOKEN);
    for command in ["run", "check", "console"] {
        let ended = installation.run(&[command], "").await;
        assert_eq!(ended.code, 78, "{}", ended.stderr);
        assert!(ended.stderr.contains("AGENT_BACKEND \"clod\" is not one of") && ended.stderr.contains(": demo"), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn all_bad_settings_are_told_at_once() {
    let installation = Installation::new()
        .with("PERMISSION_MODE", "yolo")
        .with("QUERY_TIMEOUT_MS", "soon")
        .with("ALLOWED_USERS", "bob")
        .with("AGENT_ENV", "DISCORD_BOT_TOKEN");
    for command in ["run", "check"] {
        let ended = installation.run(&[command], "").await;
        assert_eq!(ended.code, 78, "{}", ended.stderr);
        for name in ["PERMISSION_MODE", "QUERY_TIMEOUT_MS", "ALLOWED_USERS", "AGENT_ENV"] {
            assert!(ended.stderr.contains(&format!("error: {name}")), "{name} is missing in\n{}", ended.stderr);
        }
        assert!(ended.stderr.ends_with("nothing was started: 4 faults\n"), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn a_missing_agent_program_is_69() {
    let installation = Installation::new().with("DISCORD_BOT_TOKEN", TOKEN).with("BACKEND_CLI_PATH", "/nonexistent");
    let ended = installation.run(&["run"], "").await;
    assert_eq!(ended.code, 69, "{}", ended.stderr);
    assert!(ended.stderr.contains("/nonexistent") && ended.stderr.contains("BACKEND_CLI_PATH"), "{}", ended.stderr);
}

#[tokio::test]
async fn an_unusable_backend_file_is_told_with_its_reason() {
    let installation = Installation::new();
    std::fs::write(installation.backend("demo"), "not a component").unwrap();
    let ended = installation.run(&["check"], "").await;
    assert_eq!(ended.code, 78, "{}", ended.stderr);
    assert!(ended.stderr.contains("demo.wasm: "), "{}", ended.stderr);
}

#[tokio::test]
async fn check_tells_what_it_found_and_starts_nothing() {
    let installation = Installation::new();
    let ended = installation.run(&["check"], "").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for line in ["backends: demo", "answers: demo", "agent version: 0.1.0", "all is well"] {
        assert!(ended.stdout.lines().any(|told| told == line), "{line:?} is missing in\n{}", ended.stdout);
    }
    assert!(ended.stdout.contains("note: DISCORD_BOT_TOKEN is not set"), "{}", ended.stdout);
    assert_eq!(ended.stderr, "");
    assert_eq!(installation.recordings().len(), 0);
}

#[tokio::test]
async fn output_that_nobody_takes_changes_no_exit_code() {
    let installation = Installation::new();
    let ended = installation.start_in_shell("exec \"$0\" check > /dev/full").ended().await;
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let ended = installation.start_in_shell("echo hello | \"$0\" console > /dev/full 2> /dev/full").ended().await;
    assert_eq!(ended.code, 0);
    let ended = installation.start_in_shell("exec \"$0\" run 2> /dev/full").ended().await;
    assert_eq!(ended.code, 78, "there is no token");
}

#[tokio::test]
async fn an_env_file_counts_and_the_environment_wins() {
    let installation = Installation::new().with("QUERY_TIMEOUT_MS", "2000");
    let file = installation.path("env");
    std::fs::write(&file, "QUERY_TIMEOUT_MS=soon\nMAX_QUEUE_DEPTH=many\n").unwrap();
    let ended = installation.run(&["check", "--env-file", file.to_str().unwrap()], "").await;
    assert_eq!(ended.code, 78, "{}", ended.stderr);
    assert!(ended.stderr.contains("MAX_QUEUE_DEPTH") && !ended.stderr.contains("QUERY_TIMEOUT_MS"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_wrong_command_line_is_64_and_help_is_0() {
    let installation = Installation::new();
    for wrong in [&[][..], &["fly"], &["run", "--fast"], &["console", "--backend"]] {
        let ended = installation.run(wrong, "").await;
        assert_eq!(ended.code, 64, "{wrong:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("--help") && ended.stdout.is_empty(), "{}", ended.stderr);
    }
    for right in ["--help", "--version"] {
        assert_eq!(installation.run(&[right], "").await.code, 0);
    }
}

#[tokio::test]
async fn a_name_that_is_no_tool_is_told_with_what_was_meant() {
    let ended = Installation::new().with("ALLOWED_TOOLS", "Red,Grep,mcp__docs__search").run(&["check"], "").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended.stdout.contains("warning: ALLOWED_TOOLS names `Red`") && ended.stdout.contains("did you mean `Read`?"),
        "{}",
        ended.stdout
    );
    assert_eq!(ended.stdout.matches("ALLOWED_TOOLS names").count(), 1, "{}", ended.stdout);
    let ended = Installation::new().with("ALLOWED_TOOLS", ",").run(&["check"], "").await;
    assert_eq!(ended.code, 78, "{}", ended.stdout);
}
