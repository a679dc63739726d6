//! `aetheel console` without a terminal: a script of prompts, exact answers, an exit code.

use rustix::process::Signal;

use crate::support::program::Installation;

const CONSOLE: &[&str] = &["console", "--backend", "demo"];

#[tokio::test]
async fn prompts_are_answered_line_by_line_and_nothing_else_is_printed() {
    let script = "/stop\nhello\n\n/backend\nhistory\n/reset\nhistory\n /stop\nlong 51";
    // The backend of the command line has precedence over the configured one.
    let ended = Installation::new().with("AGENT_BACKEND", "claude").run(CONSOLE, script).await;
    let expected = "\
nothing is running
You said: hello

This is message 1 of our conversation.
demo of demo
You said before:

- hello
the conversation is forgotten
This is the beginning of our conversation.
You said: /stop

This is message 2 of our conversation.
0001 The quick brown fox jumps over the lazy dog.
0
";
    assert_eq!((ended.stdout.as_str(), ended.code), (expected, 0), "{}", ended.stderr);
}

#[tokio::test]
async fn failing_prompts_and_unknown_commands_make_the_exit_code_one() {
    let ended = Installation::new().run(CONSOLE, "fail rate-limited\nhello\n").await;
    let expected =
        "I begin, and then \nYou said: hello\n\nThis is message 2 of our conversation.\n";
    assert_eq!((ended.stdout.as_str(), ended.code), (expected, 1), "{}", ended.stderr);
    let reported = "✗ The agent's service is limiting requests. Please try again later.\n  failed on request: rate-limited\n";
    assert!(ended.stderr.contains(reported), "{}", ended.stderr);
    for wrong in ["/fly\n", "/backend clod\n"] {
        let ended = Installation::new().run(CONSOLE, wrong).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
        assert!(ended.stderr.starts_with("✗ "), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn a_script_can_stop_the_current_answer_and_continues() {
    let installation = Installation::new().with("STOP_GRACE_MS", "200");
    let ended = installation.run(CONSOLE, "hang\n/stop\nhello\n").await;
    assert!(ended.stderr.contains("✗ Stopped."), "{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("You said: hello\n"), "the next line is read: {}", ended.stdout);
    // The end of the input does not come before the answer.
    let ended = installation.run(CONSOLE, "hang\n/stop").await;
    assert!(ended.stderr.contains("✗ Stopped."), "{}", ended.stderr);
}

#[tokio::test]
async fn input_after_quit_is_not_read() {
    let ended = Installation::new().run(CONSOLE, "/quit\nhello\n").await;
    assert_eq!((ended.stdout.as_str(), ended.code), ("", 0), "{}", ended.stderr);
}

#[tokio::test]
async fn a_prompt_is_answered_before_the_input_ends() {
    let installation = Installation::new();
    let mut console = installation.start(CONSOLE);
    for number in 1..=2 {
        console.type_in("hello\n").await;
        console
            .prints("the answer", |text| {
                text.ends_with(&format!("This is message {number} of our conversation.\n"))
                    .then_some(())
            })
            .await;
    }
    console.end_input();
    assert_eq!(console.ended().await.code, 0);
}

#[tokio::test]
async fn a_terminated_console_stops_its_turn_when_the_grace_is_over() {
    let installation =
        Installation::new().with("SHUTDOWN_GRACE_MS", "100").with("LOG_LEVEL", "info");
    let mut console = installation.start(CONSOLE);
    console.type_in("hang\n").await;
    console.tells("turn begins").await;
    console.signal(Signal::TERM);
    let ended = console.ended().await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let reported = "✗ The console ended before this was answered. Please ask again in a new one.\n";
    assert!(ended.stderr.contains(reported), "{}", ended.stderr);
    assert_eq!(console.agents(), []);
}

#[tokio::test]
async fn the_log_of_a_script_is_text_unless_json_is_asked_for() {
    let lines = |ended: &crate::support::program::Ended| {
        let is_json = |line: &&str| serde_json::from_str::<serde_json::Value>(line).is_ok();
        let json = ended.stderr.lines().filter(is_json).count();
        (json, ended.stderr.lines().count() - json)
    };
    let installation = Installation::new().with("LOG_LEVEL", "info");
    let (json, text) = lines(&installation.run(CONSOLE, "hello\n").await);
    assert!(json == 0 && text > 0, "{json} lines of JSON and {text} of text");
    let ended = installation.with("LOG_FORMAT", "json").run(CONSOLE, "hello\n").await;
    let (json, text) = lines(&ended);
    assert!(json > 0 && text == 0, "{json} lines of JSON and {text} of text");
}

#[tokio::test]
async fn an_interrupted_script_ends_with_its_turn_and_code_one() {
    let installation = Installation::new().with("STOP_GRACE_MS", "200").with("LOG_LEVEL", "info");
    let mut console = installation.start(CONSOLE);
    console.type_in("stubborn\nhello\n").await;
    console.tells("turn begins").await;
    console.signal(Signal::INT);
    let ended = console.ended().await;
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(!ended.stdout.contains("hello"), "{}", ended.stdout);
    assert_eq!(console.agents(), []);
}

#[tokio::test]
async fn a_killed_console_leaves_nothing_to_the_next_one() {
    let installation = Installation::new().with("LOG_LEVEL", "info");
    let mut console = installation.start(CONSOLE);
    console.type_in("hang\n").await;
    console.tells("turn begins").await;
    console.signal(Signal::KILL);
    assert_eq!(console.ended().await.code, 128 + 9);
    let ended = installation.run(CONSOLE, "hello\n").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.starts_with("You said: hello\n"), "{}", ended.stdout);
    assert_eq!(ended.stdout.matches("You said").count(), 1, "{}", ended.stdout);
}
