//! Commands that show the state and choose settings, with the whole program.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER, OWNER};
use crate::support::guests::Wat;
use crate::support::program::{Installation, built};

/// Installs the real component of an agent, and a program with that name that only prints its
/// version.
fn with_agent(installation: Installation, name: &str, version: &str) -> Installation {
    let bin = installation.path("bin");
    fs::create_dir_all(&bin).unwrap();
    let program = bin.join(name);
    fs::write(&program, format!("#!/bin/sh\necho {version}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(installation.backend(name), built(name)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    installation.with("PATH", &path)
}

async fn run_command(
    local: &LocalDiscord,
    channel: u64,
    user: u64,
    name: &str,
    value: Option<&str>,
) -> String {
    local.answer_to(local.slash(channel, user, name, value)).await.content
}

#[tokio::test]
async fn choices_persist_per_channel_and_backend_over_restarts() {
    let local = LocalDiscord::start().await;
    let installation = with_agent(
        with_agent(installed(&local), "claude", "2.1.197"),
        "codex",
        "codex-cli 0.169.0",
    )
    .with("ALLOWED_BACKENDS", "claude, codex")
    .with("PERMISSION_MODE", "acceptEdits")
    .with("ANTHROPIC_API_KEY", "test-key-of-nobody")
    .with("CODEX_API_KEY", "test-key-of-nobody-else");
    let mut bot = serving(&installation).await;
    let offered = async || {
        local
            .suggestions(CHANNEL, ANN, "settings:backend", "")
            .await
            .into_iter()
            .map(|(id, _)| id)
            .collect::<Vec<_>>()
    };
    assert_eq!(offered().await, ["claude", "codex", "demo"]);
    assert_eq!(
        run_command(&local, CHANNEL, ANN, "settings", Some("model:=echo")).await,
        "Model is Echo from now on."
    );
    assert_eq!(
        run_command(&local, CHANNEL, ANN, "settings", Some("backend:=claude")).await,
        "Backend is Claude Code from now on."
    );
    assert_eq!(
        run_command(&local, CHANNEL, ANN, "settings", Some("model:=haiku")).await,
        "Model is Haiku from now on."
    );
    assert_eq!(
        run_command(&local, CHANNEL, ANN, "settings", Some("thinking:=high")).await,
        "Thinking is High from now on."
    );
    assert_eq!(
        run_command(&local, CHANNEL, ANN, "settings", Some("mode:=plan")).await,
        "Mode is Plan only from now on."
    );
    bot.signal(rustix::process::Signal::TERM);
    assert_eq!(bot.ended().await.code, 0);

    let _bot = serving(&installation).await;
    let status = run_command(&local, CHANNEL, ANN, "status", None).await;
    for part in [
        "**Backend:** Claude Code \\(claude\\), agent 2.1.197",
        "**Model:** Haiku, chosen here",
        "**Thinking:** High",
        "**Mode:** Plan only",
    ] {
        assert!(status.contains(part), "{part} is missing in\n{status}");
    }
    let menus = local.answer_to(local.slash(CHANNEL, ANN, "settings", None)).await;
    let (levels, set) = local.menu(menus.id, "set:thinking").expect("levels");
    let levels: Vec<&str> = levels.iter().map(|(_, value)| value.as_str()).collect();
    assert!(
        levels.starts_with(&["unset", "low", "medium", "high"]) && set.as_deref() == Some("high"),
        "{levels:?}"
    );
    let status = run_command(&local, OTHER, ANN, "status", None).await;
    assert!(status.contains("**Model:** the agent's default"), "{status}");
    assert_eq!(
        run_command(&local, CHANNEL, ANN, "settings", Some("backend:=demo")).await,
        "Backend is Demo agent from now on."
    );
    let status = run_command(&local, CHANNEL, ANN, "status", None).await;
    assert!(
        status.contains("**Model:** Echo, chosen here"),
        "each backend has its own choices: {status}"
    );
    assert_eq!(
        run_command(&local, CHANNEL, ANN, "settings", Some("thinking:=high")).await,
        "Demo agent has no levels of thinking."
    );
    assert_eq!(
        run_command(&local, CHANNEL, ANN, "compact", None).await,
        "Demo agent cannot shorten a conversation."
    );
}

#[tokio::test]
async fn a_backend_that_cannot_work_is_not_offered_and_refused_with_its_reason() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("ALLOWED_BACKENDS", "locked");
    let mut locked = Wat::new("locked", "locked-1");
    locked.descriptor = json!({ "programs": [{ "name": "aetheel" }], "credentials": [{ "variable": "LOCKED_KEY" }] });
    locked.accepted_in(&installation.path("config"));
    fs::write(installation.backend("locked"), locked.build()).unwrap();
    let _bot = serving(&installation).await;
    assert!(
        !local
            .suggestions(CHANNEL, ANN, "settings:backend", "")
            .await
            .iter()
            .any(|(id, _)| id == "locked")
    );
    let refused =
        local.answer_to(local.slash(CHANNEL, ANN, "settings", Some("backend:=locked"))).await;
    assert_eq!(refused.content, "locked cannot be used here: it is not signed in.");
}

#[tokio::test]
async fn a_conversation_ended_by_reset_can_be_resumed() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "fix the build");
    local
        .wait_for_message(CHANNEL, |text| {
            text.contains("fix the build") && text.contains("message 1 of")
        })
        .await;
    run_command(&local, CHANNEL, ANN, "reset", None).await;
    local.mention(CHANNEL, ANN, "paint the shed");
    local
        .wait_for_message(CHANNEL, |text| {
            text.contains("paint the shed") && text.contains("message 1 of")
        })
        .await;
    let suggested = local.suggestions(CHANNEL, ANN, "sessions", "fix").await;
    assert!(
        suggested.len() == 1 && suggested[0].1.starts_with("fix the build · just now · "),
        "{suggested:?}"
    );
    assert!(
        local.suggestions(OTHER, ANN, "sessions", "").await.is_empty(),
        "conversations belong to their channel"
    );
    let answer = run_command(&local, CHANNEL, ANN, "sessions", Some(&suggested[0].0)).await;
    assert_eq!(answer, "\"fix the build\" continues with the next message");
    local.mention(CHANNEL, ANN, "where were we?");
    local
        .wait_for_message(CHANNEL, |text| {
            text.contains("where were we?") && text.contains("message 2 of")
        })
        .await;
    let history = installation.read("state/history.md");
    assert!(
        history.contains(&format!("- `channel:{CHANNEL}` with `demo`: session `")),
        "{history}"
    );
}

#[tokio::test]
async fn a_status_keeps_commands_and_addresses_and_usage_has_the_cap_of_the_person() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    fs::write(
        installation.path("config/budgets.md"),
        "## people\n- person: each\n- cap: 50 turns a day\n",
    )
    .unwrap();
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "run `make a_b`, see https://a.example/x_y");
    local.wait_for_message(CHANNEL, |text| text.contains("You said")).await;
    let usage = run_command(&local, CHANNEL, ANN, "usage", None).await;
    assert!(usage.contains("1 turn of 50 turns a day"), "{usage}");
    local.mention(CHANNEL, ANN, "slow 60 `make a_b` https://a.example/x_y");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let status = run_command(&local, CHANNEL, ANN, "status", None).await;
    assert!(status.contains("slow 60 `make a_b` https://a.example/x_y · ann"), "{status}");
    run_command(&local, CHANNEL, ANN, "stop", None).await;
}

#[tokio::test]
async fn a_status_shows_the_limits_in_force_and_owners_see_the_lines_that_say_so() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let write = |name: &str, text: &str| {
        fs::write(installation.path("config").join(name), text).unwrap();
    };
    write(
        "budgets.md",
        "## people\n- person: each\n- cap: 50 turns a day\n\n## others\n- channel: 1099511627776123456\n- cap: 1 turns a day\n",
    );
    write("channels.md", &format!("## channel {CHANNEL}\n- safety: ask\n"));
    let _bot = serving(&installation).await;
    let status = async |person| run_command(&local, CHANNEL, person, "status", None).await;
    let limits = ["safety: ask", "budget people: 50 turns a day, person: each", "tools: "];
    let of_member = status(ANN).await;
    for limit in limits {
        assert!(of_member.contains(&format!("**Limit:** {limit}")), "{limit}: {of_member}");
    }
    assert!(!of_member.contains("budgets.md") && !of_member.contains("others"), "{of_member}");
    let of_owner = status(OWNER).await;
    for source in ["channels.md:2", "budgets.md:3", "ALLOWED\\_TOOLS"] {
        assert!(of_owner.contains(source), "{source}: {of_owner}");
    }
    // With a fault, the earlier lines stay in force.
    let copied = || installation.read("state/in-force/channels.md").contains("safety: ask");
    local.wait_for("the copy", |_| copied().then_some(())).await;
    write("channels.md", &format!("### channel {CHANNEL}\n- safety: edit\n"));
    let mut shown = String::new();
    while !shown.contains("state/in-force/channels.md:2") {
        shown = status(OWNER).await;
    }
    assert!(shown.contains("safety: ask"), "{shown}");
}

#[tokio::test]
async fn the_queue_is_shown_to_users_and_the_directory_only_to_owners() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 60");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.mention(CHANNEL, ANN, "and then this");
    let mut queue = String::new();
    while !queue.contains("1. and then this · ann") {
        queue = run_command(&local, CHANNEL, ANN, "status", None).await;
        assert!(queue.contains("**Running here:** slow 60 · ann · "), "{queue}");
    }
    assert!(queue.contains("**Overall:** 1 of 5 slots taken, 1 waiting"), "{queue}");
    let workspace = installation.path("workspace").display().to_string();
    assert!(!run_command(&local, CHANNEL, ANN, "status", None).await.contains(&workspace));
    assert!(
        run_command(&local, CHANNEL, OWNER, "status", None)
            .await
            .replace('\\', "")
            .contains(&workspace)
    );
    run_command(&local, CHANNEL, ANN, "stop", None).await;
}

#[tokio::test]
async fn the_console_shows_the_same() {
    let ended = Installation::new()
        .run(&["console"], "fix the build\n/reset\n/sessions\n/status\n/queue\n/compact\n")
        .await;
    let lines: Vec<&str> = ended.stdout.lines().collect();
    for part in [
        "Conversations with: Demo agent",
        "Running here: nothing",
        "Overall: 0 of 5 slots taken, 0 waiting",
    ] {
        assert!(lines.contains(&part), "{part} is missing in\n{}", ended.stdout);
    }
    assert!(
        lines.iter().any(|line| line.starts_with("- fix the build · just now · ")),
        "{}",
        ended.stdout
    );
    assert!(lines.iter().any(|line| line.starts_with("Directory: /")), "{}", ended.stdout);
    let refused = "✗ Demo agent cannot shorten a conversation.\n";
    assert!(ended.stderr.contains(refused), "{}", ended.stderr);
    assert_eq!(ended.code, 1);
}

#[tokio::test]
async fn a_prompt_by_command_is_answered_by_the_chosen_agent_and_a_thread_keeps_it() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("ALLOWED_BACKENDS", "second");
    let mut second = Wat::new("second", "second-1");
    second.descriptor = json!({ "programs": [{ "name": "aetheel" }] });
    second.accepted_in(&installation.path("config"));
    fs::write(installation.backend("second"), second.build()).unwrap();
    let _bot = serving(&installation).await;
    local.slash(CHANNEL, ANN, "ask", Some("one\nagent:=second"));
    local.wait_for_message(CHANNEL, |text| text.contains("second-1")).await;
    local.mention(CHANNEL, ANN, "two");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: two")).await;
    let status = run_command(&local, CHANNEL, ANN, "status", None).await;
    assert!(status.starts_with("**Backend:** Demo agent"), "only one prompt: {status}");

    local.slash(CHANNEL, ANN, "new", Some("three\nagent:=second"));
    let bound = || {
        let sessions = installation.read("state/sessions.md");
        let other = |line: &str| !line.contains(&CHANNEL.to_string());
        sessions.lines().any(|line| line.contains("second") && other(line)).then_some(())
    };
    local.wait_for("the binding of the thread", |_| bound()).await;
}
