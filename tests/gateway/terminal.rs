//! `aetheel console` at a terminal that can only read lines (`dumb`).

use rustix::process::{Signal, kill_process, test_kill_process};

use crate::support::program::{Installation, Program};

const CONSOLE: &[&str] = &["console", "--backend", "demo"];
const INTERRUPT: &str = "\x03";
const END: &str = "\x04";

/// Starts a console and waits for its first prompt.
async fn start_console(installation: &Installation) -> Program {
    let console = installation.start_at_terminal(CONSOLE);
    wait_for_text(&console, "/help for commands\r\n> ").await;
    console
}

/// Waits until the screen contains this text.
async fn wait_for_text(console: &Program, text: &str) {
    console.prints(&format!("{text:?}"), |screen| screen.contains(text).then_some(())).await;
}

#[tokio::test]
async fn answers_stream_with_tool_lines_and_the_prompt_comes_back() {
    let installation = Installation::new().with("DEMO_AGENT_DELAY_MS", "10");
    let mut console = start_console(&installation).await;
    console.type_in("tool ls -l\n").await;
    wait_for_text(&console, "I will look. ").await;
    assert!(!console.stdout().contains("One tool worked"), "it was streamed: {}", console.stdout());
    wait_for_text(&console, "I will look. \r\n⚙ shell ls -l\r\n").await;
    wait_for_text(&console, "⚙ read missing.txt\r\n  | no such file\r\n✗ read: failed\r\nOne tool worked, one did not.\r\n[Demo agent · ").await;
    wait_for_text(&console, " out]\r\n> ").await;
    console.type_in("/reset\n/backend\n").await;
    wait_for_text(&console, "the conversation is forgotten\r\n> ").await;
    wait_for_text(&console, "demo of demo\r\n> ").await;
    console.type_in("think stars\n").await;
    wait_for_text(
        &console,
        "… thinking (/open thinking)\r\nHaving thought about \"stars\": yes.\r\n",
    )
    .await;
    console.type_in(END).await;
    assert_eq!(console.ended().await.code, 0);
}

#[tokio::test]
async fn ctrl_c_interrupts_the_turn_but_not_the_console() {
    let installation = Installation::new();
    let mut console = start_console(&installation).await;
    console.type_in("slow 600\n").await;
    wait_for_text(&console, "Second 1. ").await;
    console.type_in(INTERRUPT).await;
    wait_for_text(&console, "✗ Stopped.\r\n").await;
    assert_eq!(console.agents(), []);
    console.type_in("hello\n").await;
    wait_for_text(&console, "You said: hello\r\n\r\nThis is message 2 of our conversation.\r\n")
        .await;
    console.type_in(INTERRUPT).await;
    wait_for_text(&console, "Ctrl-C again or Ctrl-D to leave\r\n> ").await;
    console.type_in(INTERRUPT).await;
    assert_eq!(console.ended().await.code, 0, "an interrupted turn does not change the exit code");
}

#[tokio::test]
async fn stop_works_while_a_turn_runs_and_refuses_waiting_prompts() {
    let installation = Installation::new();
    let mut console = start_console(&installation).await;
    console.type_in("slow 600\n").await;
    wait_for_text(&console, "Second 1. ").await;
    console.type_in("next\n/stop\n").await;
    wait_for_text(&console, "✗ Stopped.\r\n").await;
    wait_for_text(&console, "✗ Stopped before it began.").await;
    console.type_in("/stop\n").await;
    wait_for_text(&console, "nothing is running\r\n> ").await;
    console.type_in(END).await;
    assert_eq!(console.ended().await.code, 0);
}

#[tokio::test]
async fn a_closed_terminal_ends_the_console_and_its_agent() {
    let installation = Installation::new().with("STOP_GRACE_MS", "200");
    let mut console = start_console(&installation).await;
    console.type_in("stubborn\n").await;
    wait_for_text(&console, "I will not stop.").await;
    let agents = console.agents();
    assert!(!agents.is_empty());
    kill_process(console.gateway(), Signal::HUP).unwrap();
    let ended = console.ended().await;
    // 129 would mean that it died without ending its agent.
    assert_eq!(ended.code, 0, "{}", ended.stdout);
    assert!(agents.iter().all(|agent| test_kill_process(*agent).is_err()));
}

#[tokio::test]
async fn a_secret_printed_in_pieces_is_redacted_and_other_text_is_not_delayed() {
    let key = "sk-ant-canary-0123456789abcdef-0123456789abcdef";
    let installation = Installation::new().with("ANTHROPIC_API_KEY", key);
    let mut console = start_console(&installation).await;
    console.type_in(&format!("the key {key} is long, and this ends like one: sk-an\n")).await;
    wait_for_text(&console, "You said: the key *** is long, and this ends like one: sk-an\r\n\r\nThis is message 1 of our conversation.\r\n[")
        .await;
    assert_eq!(console.stdout().matches("You said: ").count(), 1, "{}", console.stdout());
}

#[tokio::test]
async fn input_that_a_plain_terminal_would_truncate_is_refused() {
    let installation = Installation::new();
    let mut console = start_console(&installation).await;
    console.type_in(&format!("{}\n", "y".repeat(5000))).await;
    wait_for_text(&console, "✗ the terminal cuts lines at 4095 bytes; send it through a pipe, or as a file (/file)\r\n> ").await;
    console.type_in(END).await;
    assert_eq!(console.ended().await.code, 0);
}

#[tokio::test]
async fn a_person_leaves_at_once_while_a_prompt_waits_which_the_next_console_answers() {
    for leave in [&["/quit\n"][..], &[END], &[INTERRUPT, INTERRUPT]] {
        let installation = Installation::new();
        let budgets = installation.path("config/budgets.md");
        std::fs::create_dir_all(installation.path("config")).unwrap();
        std::fs::write(&budgets, "## all\n- cap: 1 turns a day\n").unwrap();
        let mut console = start_console(&installation).await;
        console.type_in("one\n").await;
        wait_for_text(&console, "You said: one\r\n").await;
        console.type_in("two\n").await;
        wait_for_text(&console, "Your message waits").await;
        for (key, answer) in leave.iter().zip(["Ctrl-C again", ""]) {
            console.type_in(key).await;
            if leave.len() > 1 {
                wait_for_text(&console, answer).await;
            }
        }
        let ended = console.ended().await;
        assert_eq!(ended.code, 0, "{leave:?}: {}", ended.stdout);
        let kept = "1 prompt waits; the next console here continues with it\r\n";
        assert!(ended.stdout.contains(kept), "{leave:?}: {}", ended.stdout);

        std::fs::remove_file(&budgets).unwrap();
        let mut console = start_console(&installation).await;
        wait_for_text(&console, "continued from the last console: two\r\n").await;
        wait_for_text(&console, "You said: two\r\n").await;
        console.type_in(END).await;
        assert_eq!(console.ended().await.code, 0);
        assert!(!installation.path("config/state/console.md").exists());
    }
}

#[tokio::test]
async fn a_person_leaves_at_once_while_a_turn_runs() {
    let installation = Installation::new();
    let mut console = start_console(&installation).await;
    console.type_in("slow 600\n").await;
    wait_for_text(&console, "Second 1. ").await;
    console.type_in("/quit\n").await;
    let ended = console.ended().await;
    assert_eq!(ended.code, 0, "{}", ended.stdout);
    assert!(!ended.stdout.contains("Second 9"), "{}", ended.stdout);
}
