//! Tests that prompts reach the model as people wrote them, together with the operator's files, and
//! that answers return.

use std::fmt::Write as _;

use super::gateway::LiveGateway;
use crate::support::model_server::{ModelServer, Reply};

/// Starts a gateway whose model replies `ok` to everything.
async fn agreeing() -> LiveGateway {
    LiveGateway::new(ModelServer::answering(|_| Reply::text("ok")).await)
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_prompt_goes_through_the_gateway_to_the_model_and_the_answer_is_printed() {
    let gateway =
        LiveGateway::new(ModelServer::replying([Reply::pieces(["Hel", "lo ", "there."])]).await);
    gateway.talk(&["Say hello."]).await.answers("Hello there.\n");

    let request = gateway.model.only_request();
    assert_eq!(request.prompts(), ["Say hello."]);
    assert!(request.has_key && request.streaming());
    assert_eq!(gateway.model.others(), ["HEAD /"], "no side requests");
    let [recorded] = &gateway.recordings()[..] else { panic!("one recording") };
    let header = &recorded.header;
    assert_eq!(
        (header.backend.as_str(), header.generation, header.agent_version.as_deref()),
        ("claude", 1, Some("2.1.197"))
    );
    assert_eq!(recorded.flag("--max-turns"), Some("25"));
    assert!(
        !recorded.arguments().iter().any(|argument| argument.contains("hello")),
        "{:?}",
        recorded.arguments()
    );
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn later_prompts_continue_the_conversation_even_of_an_earlier_gateway_until_a_reset() {
    let gateway = LiveGateway::new(
        ModelServer::replying(["Noted.", "42", "Still 42.", "Which?"].map(Reply::text)).await,
    );
    gateway.talk(&["Remember 42.", "Which number?"]).await.answers("Noted.\n42\n");
    gateway
        .talk(&["And now?", "/reset", "And then?"])
        .await
        .answers("Still 42.\nthe conversation is forgotten\nWhich?\n");

    let requests = gateway.model.requests();
    assert_eq!(requests[1].prompts(), ["Remember 42.", "Which number?"]);
    assert_eq!(requests[2].prompts(), ["Remember 42.", "Which number?", "And now?"]);
    assert_eq!(requests[2].said_by("assistant"), ["Noted.", "42"]);
    assert_eq!(requests[3].prompts(), ["And then?"]);
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn the_operators_files_are_the_system_prompt_and_are_read_for_every_prompt() {
    let gateway = agreeing().await;
    for name in ["identity", "soul", "agents", "user", "memory", "tools"] {
        gateway.write(
            &format!("config/{name}.md"),
            format!("# Mark of {name}\n\nContent of {name}.\n"),
        );
    }
    let mut talk = gateway.start();
    talk.say("One").await;
    talk.printed("ok\n").await;
    gateway.write("config/soul.md", "A changed soul.\n");
    talk.say("Two").await;
    talk.ended().await.answers("ok\nok\n");

    let requests = gateway.model.requests();
    let system = requests[0].system();
    let titles: Vec<&str> = system
        .lines()
        .filter(|line| line.starts_with("## ") || line.starts_with("### Mark of"))
        .collect();
    let (marks, sections): (Vec<&str>, Vec<&str>) =
        titles.into_iter().partition(|line| line.starts_with("###"));
    assert_eq!(
        sections,
        [
            "## Identity",
            "## Soul",
            "## Agents",
            "## User",
            "## Long-Term Memory",
            "## Tool Configuration"
        ]
    );
    assert_eq!(
        marks,
        ["identity", "soul", "agents", "user", "memory", "tools"]
            .map(|name| format!("### Mark of {name}"))
    );
    assert!(system.contains("\n```memory\n"), "the preamble says how to remember: {system}");
    assert!(
        !system.contains("# Memory\n\nYou have a persistent"),
        "the agent has one memory only: {system}"
    );
    let system = requests[1].system();
    assert!(system.contains("A changed soul.") && !system.contains("Content of soul."), "{system}");
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_memory_block_goes_into_the_file_and_the_next_system_prompt_and_is_not_shown() {
    let gateway = LiveGateway::new(
        ModelServer::replying([
            Reply::text("I will.\n\n```memory\n- Ada likes green tea\n```\n"),
            Reply::text("Green."),
        ])
        .await,
    );
    gateway.talk(&["Remember the tea.", "Which tea?"]).await.answers("I will.\nGreen.\n");

    assert_eq!(gateway.read("config/memory.md"), "# Memory\n- Ada likes green tea\n");
    let [first, second] = &gateway.model.requests()[..] else { panic!("two requests") };
    assert!(!first.system().contains("green tea"));
    assert!(second.system().contains("- Ada likes green tea"), "{}", second.system());
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn prompts_that_look_like_flags_are_foreign_or_200_kb_long_arrive_unchanged() {
    let mut long = String::new();
    while long.len() < 200 * 1024 {
        write!(long, "word {} of a long prompt, ", long.len()).unwrap();
    }
    let foreign = "Zażółć gęślą jaźń \u{202e}مرحبا\u{202c} 👩‍👩‍👧 日本語 \u{fffd}";
    let prompts = [
        "--help",
        "-p",
        "--dangerously-skip-permissions",
        "--",
        "!ls",
        "# note",
        "$(id) `id` %s \\n",
        foreign,
        long.trim_end(),
    ];
    let gateway = agreeing().await;
    gateway.talk(&prompts).await.answers(&"ok\n".repeat(prompts.len()));

    let requests = gateway.model.requests();
    assert_eq!(requests.len(), prompts.len());
    assert_eq!(requests.last().unwrap().prompts(), prompts, "each once, in order, as it was");
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn an_empty_line_is_ignored_and_a_line_of_control_characters_is_refused() {
    let gateway = agreeing().await;
    let said = gateway.talk(&["", "  \t ", "\u{7}\u{1b}"]).await;
    said.fails("✗ The agent, or its service, refused the request. Ask in other words, or begin a new conversation with `/reset`.\n  the prompt is empty\n");
    assert!(gateway.model.requests().is_empty());
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_prompt_over_the_limit_is_refused_and_starts_nothing() {
    let gateway = agreeing().await;
    let said = gateway.talk(&[&"x".repeat(256 * 1024 + 1)]).await;
    said.fails("✗ That is too long: 262145 bytes, at most 262144 are taken. Send it in parts, or as a file.\n");
    assert!(gateway.recordings().is_empty() && gateway.model.requests().is_empty());
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn commands_of_the_agent_reach_the_model_as_text() {
    let gateway = agreeing().await;
    let said = gateway.talk(&["/clear", " /clear", "  /compact now", "//", " //"]).await;
    let refused = |line: &str| {
        format!("✗ {line} is not a command; /help lists all, a leading blank makes it a prompt\n")
    };
    said.fails(&format!("{}ok\nok\n{}ok\n", refused("/clear"), refused("//")));
    let requests = gateway.model.requests();
    assert_eq!(requests.last().unwrap().prompts(), [" \\/clear", "  \\/compact now", " \\//"]);
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_file_named_in_a_prompt_is_not_read() {
    let gateway = agreeing().await;
    gateway.write("workspace/note.txt", "CANARY-OF-THE-FILE");
    let path = gateway.path("workspace/note.txt").display().to_string();
    let prompts = [
        format!("@{path}"),
        "look at @note.txt".to_owned(),
        format!("@\"{path}\""),
        "@/etc/hostname".to_owned(),
    ];
    gateway
        .talk(&prompts.each_ref().map(String::as_str))
        .await
        .answers(&"ok\n".repeat(prompts.len()));

    let inert = prompts.map(|prompt| prompt.replace('@', "\\@"));
    let request = gateway.model.requests().pop().unwrap();
    assert_eq!(
        request
            .said_by("user")
            .into_iter()
            .filter(|text| inert.iter().any(|prompt| prompt == text))
            .count(),
        inert.len()
    );
    assert!(!request.mentions("CANARY-OF-THE-FILE"));
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    assert!(
        host.trim().is_empty() || !request.body["messages"].to_string().contains(host.trim()),
        "{}",
        request.body["messages"]
    );
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_long_answer_is_printed_completely_without_terminal_controls_and_the_key() {
    let long: String =
        (0..20_000).map(|number| format!("line {number} of a long answer\n")).collect();
    let pieces: Vec<&str> = long.split_inclusive("7 of").collect();
    let steering = "a \u{1b}]0;title\u{7}b \u{1b}[2J c, the key is sk-ant-scripted.";
    let gateway = LiveGateway::new(
        ModelServer::replying([Reply::pieces(pieces.iter().copied()), Reply::text(steering)]).await,
    );
    let said = gateway.talk(&["Much, please.", "And now?"]).await;
    assert_eq!(said.code(), Some(0), "{}", said.stderr);
    let rest = said
        .stdout
        .strip_prefix(&long)
        .unwrap_or_else(|| panic!("{} bytes of {} were printed", said.stdout.len(), long.len()));
    assert!(!rest.contains('\u{1b}') && !rest.contains('\u{7}'), "{rest:?}");
    assert!(rest.ends_with("the key is ***.\n"), "{rest:?}");
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn settings_may_come_from_a_file_and_the_agent_may_have_a_wrapper() {
    let gateway = agreeing().await.without("ANTHROPIC_API_KEY").with("AGENT_WRAPPER", "nice -n 1");
    gateway.write(
        "settings.env",
        "ANTHROPIC_API_KEY=sk-ant-of-the-file\nBACKEND_MODEL=claude-haiku-4-5\n",
    );
    let mut talk = gateway.run(&["console", "--backend", "claude", "--env-file", "settings.env"]);
    talk.say("Hello").await;
    talk.ended().await.answers("ok\n");
    let request = gateway.model.only_request();
    assert_eq!((request.model(), request.has_key), ("claude-haiku-4-5", true));
    assert_eq!(
        gateway.recordings()[0].arguments()[..3],
        ["-n", "1", &super::fixture::LiveClaude::installed().display().to_string()]
    );
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_signed_in_agent_needs_no_key() {
    let gateway = agreeing().await.without("ANTHROPIC_API_KEY");
    std::fs::create_dir(gateway.path("home/.claude")).unwrap();
    let login = r#"{"claudeAiOauth":{"accessToken":"sk-ant-oat01-scripted","refreshToken":"sk-ant-ort01-scripted",
        "expiresAt":4102444800000,"scopes":["user:inference","user:profile"],"subscriptionType":"max"}}"#;
    gateway.write("home/.claude/.credentials.json", login);
    gateway.talk(&["Hello"]).await.answers("ok\n");
    assert!(gateway.model.only_request().has_key);
}
