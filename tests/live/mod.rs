//! Tests with the real Claude Code 2.1.197 and a scripted model service: this file tests the facts
//! on which its backend is built, the modules below test the whole gateway with it.
//!
//! `cargo test` ignores these tests. `make test-live` installs the CLI and runs them one at a time,
//! `make test-live CASE=name` only those whose name contains `name`. Nothing leaves loopback.

mod agents;
mod direct;
mod failures;
mod fixture;
mod gateway;
mod matrix;
mod prompts;
mod readme;
mod replacing;
mod safety;

use rustix::process::Signal;
use serde_json::json;

use self::fixture::LiveClaude;
use crate::support::model_server::{Gate, ModelRequest, ModelServer, Reply};

const SKIP: &str = "--dangerously-skip-permissions";

/// Creates a CLI whose model replies `ok` to everything.
async fn agreeing() -> LiveClaude {
    LiveClaude::new(ModelServer::answering(|_| Reply::text("ok")).await)
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_prompt_reaches_the_model_and_the_answer_streams_back() {
    let claude =
        LiveClaude::new(ModelServer::replying([Reply::pieces(["Hel", "lo ", "there."])]).await);
    let ended = claude.run(&[SKIP, "--model", "claude-sonnet-5"], "Say hello.").await;

    assert_eq!(ended.answer(), "Hello there.");
    assert_eq!(ended.deltas("text_delta"), ["Hel", "lo ", "there."]);
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    let request = claude.model.only_request();
    assert_eq!(request.prompts(), ["Say hello."]);
    assert_eq!(
        (request.model(), request.has_key, request.streaming()),
        ("claude-sonnet-5", true, true)
    );
    assert_eq!(request.headers["x-claude-code-session-id"], ended.session());
    assert_eq!(claude.model.others(), ["HEAD /"], "no side requests");
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn history_and_a_new_system_prompt_reach_the_model_on_resume() {
    let claude =
        LiveClaude::new(ModelServer::replying([Reply::text("Noted."), Reply::text("42")]).await);
    let file = claude.home.path().join("system.md");
    let system = file.to_str().unwrap();
    let flags = [SKIP, "--append-system-prompt-file", system];
    std::fs::write(&file, format!("FIRST-MARK {}", "long ".repeat(40_000))).unwrap();
    let first = claude.run(&flags, "Remember 42.").await;
    std::fs::write(&file, "SECOND-MARK").unwrap();
    let second =
        claude.run(&[&flags[..], &["--resume", first.session()]].concat(), "Which number?").await;

    assert_eq!((second.answer(), second.session()), ("42", first.session()));
    let requests = claude.model.requests();
    assert!(requests[0].system().contains("FIRST-MARK long"), "{}", requests[0].system());
    assert_eq!(requests[1].prompts(), ["Remember 42.", "Which number?"]);
    assert_eq!(requests[1].said_by("assistant"), ["Noted."]);
    assert!(requests[1].system().contains("SECOND-MARK"), "{}", requests[1].system());
    assert!(!requests[1].mentions("FIRST-MARK"), "the system prompt is not kept");
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_fork_knows_the_history_and_leaves_the_session_as_it_was() {
    let claude = LiveClaude::new(
        ModelServer::replying(["Noted.", "42", "Still 42."].map(Reply::text)).await,
    );
    let first = claude.run(&[SKIP], "Remember 42.").await;
    let fork =
        claude.run(&[SKIP, "--resume", first.session(), "--fork-session"], "Which number?").await;
    let again = claude.run(&[SKIP, "--resume", first.session()], "And now?").await;

    assert_ne!(fork.session(), first.session());
    assert_eq!(again.session(), first.session());
    let requests = claude.model.requests();
    assert_eq!(requests[1].prompts(), ["Remember 42.", "Which number?"]);
    assert_eq!(requests[2].prompts(), ["Remember 42.", "And now?"]);
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn an_unknown_session_is_an_error_that_names_it_and_asks_no_model() {
    let claude = agreeing().await;
    let unknown = "6f1d7a52-0000-4000-8000-000000000000";
    let ended = claude.run(&[SKIP, "--resume", unknown], "Hello?").await;

    assert_eq!(
        (ended.result()["subtype"].as_str(), ended.session()),
        (Some("error_during_execution"), unknown)
    );
    assert!(ended.result()["errors"][0].as_str().unwrap().contains(unknown), "{ended:#?}");
    assert_eq!(ended.status.code(), Some(1));
    assert!(claude.model.requests().is_empty());
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn only_the_tools_flag_limits_what_the_model_is_offered() {
    let claude = agreeing().await;
    claude.run(&[SKIP, "--tools", "Read,Glob"], "Which tools?").await;
    claude.run(&[SKIP, "--allowedTools", "Read,Glob"], "And now?").await;
    claude.run(&[SKIP, "--tools", ""], "None?").await;

    let [limited, allowed, none] = &claude.model.requests()[..] else { panic!("three requests") };
    assert_eq!(limited.tools(), ["Glob", "Read"]);
    assert!(allowed.tools().contains(&"Bash"), "{:?}", allowed.tools());
    assert_eq!(none.tools(), [""; 0]);
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn prompts_that_look_like_flags_are_long_or_foreign_arrive_verbatim() {
    let claude = agreeing().await;
    let long = "Line of a long prompt, 200 KB in all.\n".repeat(200 * 1024 / 38) + "the end";
    let foreign = "Zażółć gęślą jaźń \u{202e}مرحبا\u{202c} 👩‍👩‍👧 日本語\nsecond\tline \u{7}";
    for prompt in
        ["--help", "-p", "--", "--resume x", "!ls", "# note", "$(id) `id` %s", foreign, &long]
    {
        let ended = claude.run(&[SKIP], prompt).await;
        assert_eq!(ended.answer(), "ok");
        assert_eq!(claude.model.requests().pop().unwrap().prompts(), [prompt]);
    }
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn an_empty_or_blank_prompt_never_reaches_the_model() {
    let claude = agreeing().await;
    let empty = claude.run(&[SKIP], "").await;
    assert_eq!((empty.status.code(), empty.lines.len()), (Some(1), 0), "{empty:#?}");
    let blank = claude.run(&[SKIP], " \n").await;
    assert_eq!((blank.status.code(), blank.lines.len()), (Some(0), 0), "{blank:#?}");
    assert!(claude.model.requests().is_empty());
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_path_after_an_at_sign_is_read_unless_text_is_in_between() {
    let claude = agreeing().await;
    let secret = claude.home.path().join("secret.txt");
    std::fs::write(&secret, "CANARY-OF-THE-FILE").unwrap();
    let secret = secret.display();
    for (prompt, expanded) in [
        (format!("look at @{secret}"), true),
        (format!("@{secret}"), true),
        (format!("look at \\@{secret}"), false),
        (format!("\\@{secret}"), false),
        (format!("\\@\"{secret}\" \\@~/secret.txt"), false),
    ] {
        claude.run(&[SKIP, "--tools", ""], &prompt).await;
        let request = claude.model.requests().pop().unwrap();
        assert!(
            request.prompts().contains(&prompt.as_str()),
            "{prompt:?}: {:?}",
            request.prompts()
        );
        assert_eq!(request.mentions("CANARY-OF-THE-FILE"), expanded, "{prompt:?}");
    }
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_command_is_run_unless_text_is_before_it() {
    let claude = agreeing().await;
    for command in ["/clear", "/compact", "/unheard-of"] {
        let ended = claude.run(&[SKIP], command).await;
        assert_eq!(ended.count("result", None), 1, "{command}: {ended:#?}");
        assert!(claude.model.requests().is_empty(), "{command}");
    }
    for prompt in [" /clear", "[ada]: /clear", "\\/compact"] {
        let seen = claude.model.requests().len();
        let ended = claude.run(&[SKIP], prompt).await;
        assert_eq!(ended.answer(), "ok");
        assert_eq!(claude.model.requests().len(), seen + 1, "{prompt:?}");
        assert_eq!(claude.model.requests()[seen].prompts(), [prompt]);
    }
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn thinking_and_tools_show_and_the_tools_result_goes_back_to_the_model() {
    let call = Reply::thinking("A file, then.").then_text("Reading.").then_tool(
        "toolu_1",
        "Read",
        json!({"file_path": "note.txt"}),
    );
    let claude =
        LiveClaude::new(ModelServer::replying([call, Reply::text("It says: milk.")]).await);
    let note = claude.cwd.path().join("note.txt");
    std::fs::write(&note, "buy milk").unwrap();
    let ended = claude.run(&[SKIP], "What does note.txt say?").await;

    assert_eq!(ended.answer(), "It says: milk.");
    assert_eq!(ended.deltas("thinking_delta"), ["A file, then."]);
    let request = claude.model.request(2).await;
    assert!(request.tool_results()["toolu_1"].contains("buy milk"), "{:?}", request.tool_results());
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn without_skipping_permissions_a_write_is_denied_and_reported() {
    let call = Reply::tool("toolu_1", "Write", json!({"file_path": "new.txt", "content": "x"}));
    let claude = LiveClaude::new(ModelServer::replying([call, Reply::text("I may not.")]).await);
    let ended = claude.run(&["--permission-mode", "default"], "Write new.txt").await;

    assert_eq!(ended.answer(), "I may not.");
    assert_eq!(ended.result()["permission_denials"][0]["tool_name"], "Write");
    assert!(!claude.cwd.path().join("new.txt").exists());
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn the_turn_limit_ends_a_run_that_keeps_calling_tools() {
    let claude = LiveClaude::new(
        ModelServer::answering(|_| {
            Reply::tool("toolu_1", "Read", json!({"file_path": "note.txt"}))
        })
        .await,
    );
    let ended = claude.run(&[SKIP, "--max-turns", "2"], "Go on.").await;

    assert_eq!(
        (ended.result()["subtype"].as_str(), ended.status.code()),
        (Some("error_max_turns"), Some(1))
    );
    assert_eq!(ended.result()["is_error"], true);
    assert_eq!(claude.model.requests().len(), 2);
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_refusing_service_is_reported_in_the_result_and_retries_are_announced() {
    for (status, kind, retried_for) in [
        (400, "invalid_request_error", None),
        (401, "authentication_error", Some("authentication_failed")),
        (429, "rate_limit_error", Some("rate_limit")),
        (500, "api_error", Some("server_error")),
        (529, "overloaded_error", Some("overloaded")),
    ] {
        let refusal = move |_: &_| Reply::error(status, kind, "MARK-OF-THE-SERVICE").retry_after(0);
        let claude = LiveClaude::new(ModelServer::answering(refusal).await);
        let ended = claude.run(&[SKIP], "Hello?").await;

        let result = ended.result();
        assert_eq!(
            (result["subtype"].as_str(), result["is_error"].as_bool()),
            (Some("success"), Some(true)),
            "{status}: {result}"
        );
        assert_eq!(
            (result["api_error_status"].as_u64(), ended.status.code()),
            (Some(status.into()), Some(1))
        );
        assert!(
            result["result"].as_str().unwrap().contains("MARK-OF-THE-SERVICE"),
            "{status}: {result}"
        );
        let retries = ended.lines.iter().filter(|line| line["subtype"] == "api_retry");
        assert_eq!(
            retries.filter_map(|line| line["error"].as_str()).collect::<Vec<_>>(),
            Vec::from_iter(retried_for),
            "{status}"
        );
    }
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_request_that_was_refused_once_is_retried() {
    let refusal = Reply::error(429, "rate_limit_error", "slow down").retry_after(0);
    let claude = LiveClaude::new(ModelServer::replying([refusal, Reply::text("Now.")]).await);
    let ended = claude.run(&[SKIP], "Hello?").await;
    assert_eq!((ended.answer(), ended.count("system", Some("api_retry"))), ("Now.", 1));
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn an_answer_interrupted_inside_a_block_is_fetched_completely_without_streaming() {
    let half = Reply::text("Half an");
    for broken in
        [half.clone().then_cut_in_text(), half.then_error_in_text("overloaded_error", "Overloaded")]
    {
        let claude =
            LiveClaude::new(ModelServer::replying([broken, Reply::text("A whole answer.")]).await);
        let ended = claude.run(&[SKIP], "Hello?").await;

        assert_eq!(
            claude.model.requests().iter().map(ModelRequest::streaming).collect::<Vec<_>>(),
            [true, false]
        );
        assert_eq!(
            (ended.answer(), ended.deltas("text_delta")),
            ("A whole answer.", vec!["Half an"]),
            "deltas are not an answer"
        );
        assert_eq!(ended.count("system", Some("api_retry")), 0, "nothing announces it");
    }
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn an_answer_interrupted_between_blocks_is_kept_and_the_run_fails() {
    for (broken, told) in [
        (Reply::text("Half an answer.").then_cut(), "Connection closed mid-response"),
        (Reply::text("Half an answer.").then_error("overloaded_error", "Overloaded"), "Overloaded"),
    ] {
        let claude = LiveClaude::new(ModelServer::replying([broken]).await);
        let ended = claude.run(&[SKIP], "Hello?").await;

        assert_eq!(ended.result()["is_error"], true, "{ended:#?}");
        assert!(ended.result()["result"].as_str().unwrap().contains(told), "{ended:#?}");
        let said = ended
            .lines
            .iter()
            .filter(|line| line["type"] == "assistant")
            .map(|line| line["message"]["content"][0]["text"].as_str());
        assert_eq!(said.flatten().next(), Some("Half an answer."));
    }
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn an_interrupt_during_the_answer_ends_the_run_with_a_result_and_the_session_continues() {
    let gate = Gate::new();
    let endless = Reply::text("One, two").then_pause_in_text(&gate).then_piece(", three");
    let claude = LiveClaude::new(ModelServer::replying([endless, Reply::text("Three.")]).await);
    let mut running = claude.start(&[SKIP], "Count.");
    running.printed(|line| line["event"]["delta"]["text"] == "One, two").await;
    running.signal(Signal::INT);
    let interrupted = running.ended().await;
    let result = interrupted.result();
    assert_eq!(
        (result["subtype"].as_str(), interrupted.status.code()),
        (Some("error_during_execution"), Some(0))
    );
    assert_eq!(result["terminal_reason"], "aborted_streaming");

    let resumed = claude.run(&[SKIP, "--resume", interrupted.session()], "Go on.").await;
    assert_eq!(resumed.answer(), "Three.");
    let request = claude.model.request(2).await;
    assert_eq!(
        request.said_by("assistant"),
        ["No response requested."],
        "text before the interrupt is lost"
    );
    assert_eq!(request.prompts(), ["Count.\n", "Continue from where you left off.", "Go on."]);
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn an_interrupt_before_the_models_answer_ends_the_run_cleanly() {
    let gate = Gate::new();
    let claude = LiveClaude::new(
        ModelServer::replying([Reply::text("never").held_by(&gate), Reply::text("Here.")]).await,
    );
    let mut running = claude.start(&[SKIP], "Hello?");
    running.printed(|line| line["subtype"] == "init").await;
    gate.reached().await;
    running.signal(Signal::INT);
    let interrupted = running.ended().await;
    // Whether it still prints a result depends on timing. More often it does not.
    assert_eq!(interrupted.status.code(), Some(0), "{interrupted:#?}");
    assert!(interrupted.count("result", None) <= 1, "{interrupted:#?}");

    let session = interrupted.lines[0]["session_id"].as_str().unwrap();
    let resumed = claude.run(&[SKIP, "--resume", session], "Go on.").await;
    assert_eq!((resumed.answer(), resumed.session()), ("Here.", session));
}
