//! Tests that the agent has exactly the rights that the operator allows.

use serde_json::json;

use super::gateway::{CANARIES, LiveGateway};
use crate::support::model_server::{ModelServer, Reply};

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn the_allowed_tools_are_all_the_model_is_offered_although_permissions_are_skipped() {
    for (allowed, offered) in [("Read", &["Read"][..]), ("Bash(echo *), Glob", &["Bash", "Glob"])] {
        let gateway = LiveGateway::new(ModelServer::answering(|_| Reply::text("ok")).await)
            .with("ALLOWED_TOOLS", allowed);
        gateway.talk(&["Which tools?"]).await.answers("ok\n");
        assert_eq!(gateway.model.only_request().tools(), offered);
    }
    let gateway = LiveGateway::new(ModelServer::answering(|_| Reply::text("ok")).await)
        .with("ALLOWED_TOOLS", "*");
    gateway.talk(&["Which tools?"]).await.answers("ok\n");
    let request = gateway.model.only_request();
    assert!(
        ["Bash", "Write", "Read"].iter().all(|tool| request.tools().contains(tool)),
        "{:?}",
        request.tools()
    );
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_tool_that_is_not_offered_does_not_run_even_if_the_model_calls_it() {
    let call = Reply::tool("toolu_1", "Bash", json!({"command": "touch made"}));
    let gateway = LiveGateway::new(ModelServer::replying([call, Reply::text("I cannot.")]).await);
    gateway.talk(&["Make a file."]).await.answers("I cannot.\n");
    assert!(!gateway.path("workspace/made").exists());
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn the_chosen_model_is_used() {
    let gateway = LiveGateway::new(ModelServer::answering(|_| Reply::text("ok")).await)
        .with("BACKEND_MODEL", "claude-haiku-4-5");
    gateway.talk(&["Hello"]).await.answers("ok\n");
    assert_eq!(gateway.model.only_request().model(), "claude-haiku-4-5");
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_command_of_the_model_runs_in_the_workspace_with_nothing_of_the_gateways_environment() {
    let call = Reply::tool("toolu_1", "Bash", json!({"command": "echo ran in $(pwd); env"}));
    let gateway = LiveGateway::new(ModelServer::replying([call, Reply::text("Done.")]).await)
        .with("ALLOWED_TOOLS", "Bash");
    gateway.talk(&["Show the environment."]).await.answers("Done.\n");

    let request = gateway.model.request(2).await;
    let result = &request.tool_results()["toolu_1"];
    assert!(
        result.contains(&format!("ran in {}", gateway.path("workspace").display())),
        "{result}"
    );
    assert!(result.contains("AETHEEL_RUN="), "the command carries the mark of its run: {result}");
    for (name, value) in CANARIES {
        assert!(
            !result.contains(name) && !result.contains(value),
            "{name} reached the agent: {result}"
        );
    }
    let given = gateway.recordings()[0].environment().join(" ");
    let wanted = "ANTHROPIC_API_KEY ANTHROPIC_BASE_URL CLAUDE_CODE_DISABLE_AUTO_MEMORY CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC \
        CLAUDE_CODE_MAX_RETRIES DISABLE_AUTOUPDATER DISABLE_ERROR_REPORTING DISABLE_TELEMETRY";
    assert_eq!(
        given.replace("IS_SANDBOX ", ""),
        wanted,
        "only the declared variables are recorded"
    );
}

/// Runs one `Write` to a path in a permission mode. Returns the gateway, and the result that the
/// model received.
async fn write_in(mode: &str, tools: &str, place: &str) -> (LiveGateway, String) {
    let place_of = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let target = place_of.clone();
    let model = ModelServer::answering(move |request| {
        if request.tool_results().contains_key("toolu_1") {
            Reply::text("Well.")
        } else {
            Reply::tool(
                "toolu_1",
                "Write",
                json!({"file_path": target.get().unwrap(), "content": "written"}),
            )
        }
    });
    let gateway =
        LiveGateway::new(model.await).with("PERMISSION_MODE", mode).with("ALLOWED_TOOLS", tools);
    place_of.set(gateway.path(place).display().to_string()).unwrap();
    gateway.talk(&["Write it."]).await.answers("Well.\n");
    let result = gateway.model.request(2).await.tool_results()["toolu_1"].clone();
    (gateway, result)
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn each_permission_mode_is_accepted_and_enforced_by_the_agent() {
    for (mode, flags, written) in [
        ("bypassPermissions", &["--dangerously-skip-permissions"][..], true),
        ("acceptEdits", &["--permission-mode", "acceptEdits"], true),
        ("default", &["--permission-mode", "default"], false),
        ("plan", &["--permission-mode", "plan"], false),
    ] {
        for tools in ["Read,Write", "*"] {
            let (gateway, result) = write_in(mode, tools, "workspace/new.txt").await;
            assert_eq!(
                gateway.path("workspace/new.txt").exists(),
                written,
                "{mode}, {tools}: {result}"
            );
            let recordings = gateway.recordings();
            assert!(
                recordings[0].arguments().windows(flags.len()).any(|part| part == flags),
                "{mode}: {:?}",
                recordings[0].arguments()
            );
        }
    }
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn accepted_edits_end_at_the_workspace() {
    for tools in ["Read,Write", "*"] {
        let (gateway, result) = write_in("acceptEdits", tools, "home/outside.txt").await;
        assert!(!gateway.path("home/outside.txt").exists(), "{tools}: {result}");
    }
}
