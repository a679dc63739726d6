//! Tests that a failure is reported by its kind, leaves nothing behind, and does not end the
//! conversation.

use rustix::process::Signal;
use serde_json::json;

use super::gateway::LiveGateway;
use crate::support::model_server::{Gate, ModelServer, Reply};

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_refusing_service_is_reported_by_its_kind() {
    for (status, error, told) in [
        (400, "invalid_request_error", "The agent, or its service, refused the request. "),
        (
            401,
            "authentication_error",
            "The agent is not signed in, or its key was refused. Choose another agent with `/settings`, or tell the operator. (authentication, ID)\n",
        ),
        (404, "not_found_error", "The chosen model does not exist or may not be used. "),
        (429, "rate_limit_error", "The agent's service is limiting requests. "),
        (500, "api_error", "The agent's service is overloaded or failing. "),
        (529, "overloaded_error", "The agent's service is overloaded or failing. "),
    ] {
        let refusal =
            move |_: &_| Reply::error(status, error, "MARK-OF-THE-SERVICE").retry_after(0);
        let gateway = LiveGateway::new(ModelServer::answering(refusal).await);
        let said = gateway.talk(&["Hello?"]).await;
        assert!(
            said.stderr.contains(&format!("✗ {}", told.replace("ID", &gateway.last_id()))),
            "{status}: {}",
            said.stderr
        );
        assert_eq!(
            (said.stdout.lines().count(), said.code()),
            (2, Some(1)),
            "{status}: {}",
            said.stdout
        );
        if status != 404 {
            assert!(
                said.stdout.contains("MARK-OF-THE-SERVICE"),
                "the operator sees the service's message: {}",
                said.stdout
            );
        }
    }
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn the_partial_answer_is_shown_with_the_failure_of_the_service() {
    let gateway = LiveGateway::new(
        ModelServer::replying([
            Reply::text("Half an answer.").then_error("overloaded_error", "Overloaded")
        ])
        .await,
    );
    let said = gateway.talk(&["Hello?"]).await;
    let told = "✗ The agent's service is overloaded or failing. Please try again later.\n";
    assert_eq!(said.stdout, "Half an answer.\n");
    assert!(said.stderr.contains(told), "{}", said.stderr);
    assert_eq!(said.code(), Some(1));
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn the_round_limit_stops_a_model_that_keeps_calling_tools() {
    let model = ModelServer::answering(|_| {
        Reply::text("Looking.").then_tool("toolu_1", "Glob", json!({"pattern": "*"}))
    })
    .await;
    let gateway = LiveGateway::new(model).with("BACKEND_MAX_TURNS", "1");
    let said = gateway.talk(&["Go on for ever."]).await;
    said.fails("Looking.\n✗ The agent was stopped at a limit: Reached maximum number of turns (1). Please ask for less at a time.\n");
    assert_eq!(gateway.model.requests().len(), 1);
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_silent_model_times_out_and_the_conversation_continues() {
    let gate = Gate::new();
    let model = ModelServer::replying([
        Reply::text("Noted."),
        Reply::text("never").held_by(&gate),
        Reply::text("Here."),
    ])
    .await;
    let gateway = LiveGateway::new(model).with("QUERY_TIMEOUT_MS", "3000");
    let mut talk = gateway.start();
    talk.say("One").await;
    talk.say("Two").await;
    talk.logged("(timeout, ").await;
    assert_eq!(talk.agents(), [""; 0], "the answer comes when the agent is gone");
    talk.say("Three").await;
    let said = talk.ended().await;

    let id = &gateway.recordings()[1].header.link;
    said.fails(&format!(
        "Noted.\n✗ Query timed out after 3 s, the limit here. Ask it to go on; the operator raises the limit with `QUERY_TIMEOUT_MS`. (timeout, {id})\nHere.\n"
    ));
    let request = gateway.model.request(3).await;
    assert_eq!(
        (request.prompts().first(), request.prompts().last()),
        (Some(&"One"), Some(&"Three"))
    );
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn nothing_that_a_command_started_outlives_the_turns_timeout() {
    let command = "touch started; setsid sleep 1000 </dev/null >/dev/null 2>&1 & (trap '' TERM INT; sleep 1001) & sleep 1002";
    let call = Reply::tool("toolu_1", "Bash", json!({"command": command}));
    let gateway = LiveGateway::new(ModelServer::replying([call]).await)
        .with("ALLOWED_TOOLS", "Bash")
        .with("QUERY_TIMEOUT_MS", "6000");
    let mut talk = gateway.start();
    talk.say("Wait for ever.").await;
    talk.logged("(timeout, ").await;
    assert_eq!(talk.agents(), [""; 0], "nothing of the run is left when its end is reported");
    assert!(gateway.path("workspace/started").exists(), "the command ran");
    talk.ended().await.fails(&format!(
        "✗ Query timed out after 6 s, the limit here. Ask it to go on; the operator raises the limit with `QUERY_TIMEOUT_MS`. (timeout, {})\n",
        gateway.last_id()
    ));
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn an_interrupt_stops_the_answer_and_the_next_prompt_continues() {
    let gate = Gate::new();
    let endless = Reply::text("One, two").then_pause_in_text(&gate).then_piece(", three");
    let gateway = LiveGateway::new(ModelServer::replying([endless, Reply::text("Four.")]).await);
    let mut talk = gateway.start();
    talk.say("Count.").await;
    gate.reached().await;
    assert!(!talk.agents().is_empty(), "the agent is found by its mark");
    talk.signal(Signal::INT);
    talk.printed("Stopped.").await;
    let said = talk.ended().await;
    assert_eq!(said.code(), Some(1), "the exit code shows that a prompt was not answered");
    let mut talk = gateway.start();
    talk.say("Go on.").await;
    talk.ended().await.answers("Four.\n");

    let [stopped, next] = &gateway.recordings()[..] else { panic!("two recordings") };
    // Whether the agent had printed the first words by then depends on timing.
    assert!(said.stderr.contains("✗ Stopped.\n"), "{}", said.stderr);
    assert_eq!(next.flag("--resume"), stopped.flag("--session-id"));
    let request = gateway.model.request(2).await;
    assert!(
        request.prompts().iter().any(|prompt| prompt.trim() == "Count."),
        "{:?}",
        request.prompts()
    );
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn an_interrupt_between_prompts_and_a_termination_during_one_end_the_gateway_cleanly() {
    let gate = Gate::new();
    let held = Reply::text("never").held_by(&gate);
    let gateway = LiveGateway::new(ModelServer::replying([Reply::text("ok"), held]).await)
        .with("SHUTDOWN_GRACE_MS", "200");
    let mut talk = gateway.start();
    talk.say("One").await;
    talk.printed("ok\n").await;
    talk.signal(Signal::INT);
    // Whether the signal or the end of the input is noticed first depends on timing.
    assert_eq!(talk.ended().await.stdout, "ok\n");

    let mut talk = gateway.start();
    talk.say("Two").await;
    gate.reached().await;
    talk.signal(Signal::TERM);
    let said = talk.ended().await;
    said.answers("");
    assert!(
        said.stderr.contains("✗ The console ended before this was answered."),
        "{}",
        said.stderr
    );
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_session_the_agent_lost_is_reported_and_the_next_prompt_starts_a_new_one() {
    let gateway = LiveGateway::new(
        ModelServer::replying([Reply::text("Noted."), Reply::text("Hello.")]).await,
    );
    gateway.talk(&["One"]).await.answers("Noted.\n");
    let sessions = gateway.read("config/state/sessions.md");
    let known = gateway.recordings()[0].flag("--session-id").unwrap().to_owned();
    let unknown = "6f1d7a52-0000-4000-8000-000000000000";
    assert!(sessions.contains(&known), "{sessions}");
    gateway.write("config/state/sessions.md", sessions.replace(&known, unknown));

    let mut talk = gateway.start();
    talk.say("Two").await;
    talk.printed("no longer knows").await;
    assert!(!gateway.read("config/state/sessions.md").contains(unknown));
    talk.say("Three").await;
    let said = talk.ended().await;
    let recordings = gateway.recordings();
    let told = "The agent no longer knows this conversation; it has been forgotten here as well. Please ask again to start a new one.";
    said.fails(&format!("✗ {told}\n  No conversation found with session ID: {unknown}\nHello.\n"));
    assert_eq!(gateway.model.requests()[1].prompts(), ["Three"]);
    assert!(
        gateway
            .read("config/state/sessions.md")
            .contains(recordings[2].flag("--session-id").unwrap())
    );
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn everything_missing_for_the_agent_is_reported_together_at_the_start() {
    let model = ModelServer::replying([]).await;
    let gateway = LiveGateway::new(model)
        .without("ANTHROPIC_API_KEY")
        .with("BACKEND_CLI_PATH", "/nonexistent/claude");
    let said = gateway.talk(&["Hello?"]).await;
    assert_eq!((said.stdout.as_str(), said.code()), ("", Some(69)), "{}", said.stderr);
    for part in [
        "/nonexistent/claude",
        "BACKEND_CLI_PATH",
        "set ANTHROPIC_API_KEY",
        "~/.claude/.credentials.json",
        "2 faults",
    ] {
        assert!(said.stderr.contains(part), "{part} is not reported: {}", said.stderr);
    }
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_check_finds_the_agent_and_asks_no_model() {
    let gateway = LiveGateway::new(ModelServer::replying([]).await);
    let said = gateway.run(&["check"]).ended().await;
    assert_eq!(said.code(), Some(0), "{}", said.stderr);
    let program = super::fixture::LiveClaude::installed().display().to_string();
    for part in [
        format!("program: {program}\n"),
        "agent version: 2.1.197\n".to_owned(),
        "answers: claude\n".to_owned(),
    ] {
        assert!(said.stdout.contains(&part), "{part} is not reported: {}", said.stdout);
    }
    assert!(gateway.model.requests().is_empty() && gateway.model.others().is_empty());
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_service_that_keeps_failing_until_the_timeout_is_named() {
    let model = ModelServer::answering(|_| {
        Reply::error(529, "overloaded_error", "Overloaded").retry_after(30)
    })
    .await;
    let gateway = LiveGateway::new(model)
        .with("CLAUDE_CODE_MAX_RETRIES", "10")
        .with("QUERY_TIMEOUT_MS", "4000");
    let said = gateway.talk(&["Hello?"]).await;
    said.fails(&format!(
        "✗ Query timed out after 4 s; the agent's service kept failing. Please try again later. (timeout, {})\n",
        gateway.last_id()
    ));
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_silent_agent_is_stopped_at_the_limit_of_silence() {
    let gate = Gate::new();
    let gateway =
        LiveGateway::new(ModelServer::replying([Reply::text("never").held_by(&gate)]).await)
            .with("IDLE_TIMEOUT_MS", "3000");
    let said = gateway.talk(&["Hello?"]).await;
    said.fails(&format!(
        "✗ The agent said nothing for too long and was stopped. Ask it to go on; the operator raises the limit with `IDLE_TIMEOUT_MS`. (idle timeout, {})\n",
        gateway.last_id()
    ));
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn an_agent_that_is_missing_for_a_while_fails_only_during_that_time() {
    let gateway =
        LiveGateway::new(ModelServer::replying(["One.", "Three."].map(Reply::text)).await);
    let program = gateway.path("claude");
    let install =
        || std::os::unix::fs::symlink(super::fixture::LiveClaude::installed(), &program).unwrap();
    install();
    let path = program.display().to_string();
    let gateway = gateway.with("BACKEND_CLI_PATH", &path);
    let mut talk = gateway.start();
    talk.say("One").await;
    talk.printed("One.\n").await;
    std::fs::remove_file(&program).unwrap();
    talk.say("Two").await;
    talk.logged("(agent not found, ").await;
    install();
    talk.say("Three").await;
    let said = talk.ended().await;
    let told = format!(
        "✗ The agent's program is not installed on this machine. Choose another agent with `/settings`, or tell the operator. (agent not found, {})\n",
        gateway.recordings()[1].header.link
    );
    assert!(said.stdout == "One.\nThree.\n" && said.stderr.contains(&told), "{}", said.stdout);
    assert_eq!(gateway.model.requests()[1].prompts(), ["One", "Three"]);
}
