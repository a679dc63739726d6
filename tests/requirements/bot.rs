//! Tests of the bot itself: logging in, reading its settings, receiving commands, setting it up,
//! and ending it.

use std::fs;

use aetheel_settings::VARIABLES;
use rustix::process::Signal;

use super::{CLAUDE_SAYS, calls, discord, installed, serving, with_claude};
use crate::support::discord::{ANN, CHANNEL, OTHER, OTHER_BOT};

#[tokio::test]
async fn requirement_01_the_bot_logs_in_or_explains_why_it_cannot() {
    let local = discord().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    assert_eq!(local.logins().0, 1, "1.1: it logged in");
    let ready = bot.logs("discord is ready").await;
    assert_eq!(
        (ready["user"].as_str(), ready["guilds"].as_u64()),
        (Some("aetheel"), Some(1)),
        "1.3: {ready}"
    );
    drop(bot);
    let missing = installation.with("DISCORD_BOT_TOKEN", "").run(&["run"], "").await;
    assert!(
        missing.code != 0 && missing.faults().contains("error: DISCORD_BOT_TOKEN is not set"),
        "1.2: {missing:?}"
    );
    local.faults().refuse_token(true);
    let refused = installed(&local).run(&["run"], "").await;
    assert!(
        refused.code != 0 && refused.stderr.contains("discord refused `DISCORD_BOT_TOKEN`"),
        "1.2: {refused:?}"
    );
}

#[tokio::test]
async fn requirement_02_credentials_tools_and_mode_are_known_before_anything_is_answered() {
    let local = discord().await;
    let keyless = with_claude(&local).with("ANTHROPIC_API_KEY", "").run(&["run"], "").await;
    assert!(
        keyless.code != 0 && keyless.stderr.contains("ANTHROPIC_API_KEY"),
        "2.1, 2.2: {keyless:?}"
    );
    assert!(
        local.requests().is_empty(),
        "2.1: the agent is checked before the first request to Discord"
    );
    let strange = with_claude(&local).with("PERMISSION_MODE", "yolo").run(&["run"], "").await;
    assert!(
        strange.code != 0 && strange.faults().contains("error: PERMISSION_MODE"),
        "2.3: {strange:?}"
    );

    let installation = with_claude(&local)
        .with("PERMISSION_MODE", "acceptEdits")
        .with("ALLOWED_TOOLS", "Read,Grep");
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text == CLAUDE_SAYS).await;
    let call = &calls(&installation)[0];
    assert!(
        call.contains(" --permission-mode acceptEdits ") && call.contains(" --tools Read,Grep "),
        "2.3: {call}"
    );

    let signed_in = with_claude(&local).with("ANTHROPIC_API_KEY", "");
    fs::create_dir(signed_in.path("home/.claude")).unwrap();
    fs::write(signed_in.path("home/.claude/.credentials.json"), "{}").unwrap();
    assert_eq!(signed_in.run(&["check"], "").await.code, 0, "2.1: a signed-in claude needs no key");
}

#[tokio::test]
async fn requirement_03_prompts_come_by_mention_and_by_the_claude_command() {
    let local = discord().await;
    let installation = with_claude(&local);
    let _bot = serving(&installation).await;
    let names: Vec<String> = local
        .commands()
        .as_array()
        .unwrap()
        .iter()
        .map(|command| command["name"].to_string())
        .collect();
    assert!(
        names.contains(&"\"claude\"".to_owned()) && names.contains(&"\"claude-reset\"".to_owned()),
        "3.2: {names:?}"
    );

    local.mention(CHANNEL, OTHER_BOT, "talk to me");
    local.mention(CHANNEL, ANN, "look at this");
    let answer = local.wait_for_message(CHANNEL, |text| text == CLAUDE_SAYS).await;
    assert!(local.typing(CHANNEL)[0] < answer.created, "3.4: it typed first");
    local.slash(OTHER, ANN, "claude", Some("and at that"));
    local.wait_for_message(OTHER, |text| text == format!("> 💬 and at that\n{CLAUDE_SAYS}")).await;

    let calls = calls(&installation);
    assert_eq!(calls.len(), 2, "3.3: the other bot got no turn: {calls:#?}");
    let prompt = |call: &str| {
        let session = super::argument_after(call, "--session-id").unwrap();
        let heard = fs::read_to_string(installation.path(&format!("home/.claude/calls-{session}")))
            .unwrap();
        heard.lines().find_map(|line| line.strip_prefix("prompt: ").map(str::to_owned)).unwrap()
    };
    let mentioned = prompt(&calls[0]);
    assert!(mentioned.ends_with("look at this") && !mentioned.contains("<@"), "3.1: {mentioned:?}");
    assert!(prompt(&calls[1]).ends_with("and at that"), "3.2: {:?}", prompt(&calls[1]));
}

#[tokio::test]
async fn requirement_08_everything_is_set_by_environment_variables() {
    let local = discord().await;
    // 8.1: each variable is read. An invalid value shows that best.
    let file = with_claude(&local);
    let occupied = file.path("occupied");
    fs::write(&occupied, "a file").unwrap();
    let occupied = occupied.display().to_string();
    for (name, value) in [
        ("DISCORD_BOT_TOKEN", "Bot no"),
        ("ANTHROPIC_API_KEY", ""),
        ("PERMISSION_MODE", "yolo"),
        ("QUERY_TIMEOUT_MS", "soon"),
        ("CONFIG_DIR", occupied.as_str()),
    ] {
        let ended = with_claude(&local).with(name, value).run(&["run"], "").await;
        assert!(ended.code != 0 && ended.stderr.contains(name), "8.1: {name}: {}", ended.stderr);
    }
    // Requirement 2 tests that ALLOWED_TOOLS is read.
    let default = |name: &str| {
        VARIABLES.iter().find(|variable| variable.name == name).map(|variable| variable.default)
    };
    assert_eq!(
        default("ALLOWED_TOOLS"),
        Some("file_read,file_search,content_search,web_search,web_fetch"),
        "8.2"
    );
    assert_eq!(default("PERMISSION_MODE"), Some("bypassPermissions"), "8.2");
    // Not the required 120000: two minutes stop a coding agent in the middle of its work.
    assert_eq!(default("QUERY_TIMEOUT_MS"), Some("3600000"), "8.2");
    assert_eq!(default("CONFIG_DIR"), Some("./config"), "8.2");
    let here = installed(&local).with("CONFIG_DIR", "");
    let _bot = serving(&here).await;
    local.mention(CHANNEL, ANN, "remember the defaults");
    local.wait_for_message(CHANNEL, |text| text == "Noted.").await;
    assert!(
        here.read(&format!("memory/channel-{CHANNEL}.md")).contains("the defaults"),
        "8.2: ./config is where the program was started"
    );

    let ended = with_claude(&local)
        .with("DISCORD_BOT_TOKEN", "")
        .with("ANTHROPIC_API_KEY", "")
        .run(&["run"], "")
        .await;
    assert!(ended.code != 0, "8.3");
    for name in ["DISCORD_BOT_TOKEN", "ANTHROPIC_API_KEY"] {
        assert!(ended.stderr.contains(name), "8.3: {name} is missing in\n{}", ended.stderr);
    }
}

#[tokio::test]
async fn requirement_10_a_signal_ends_the_program_when_its_turns_are_done() {
    // With a holder, SIGTERM leaves turns running: `gateway::signals`.
    for (signal, holder) in [(Signal::INT, "auto"), (Signal::TERM, "off")] {
        let local = discord().await;
        let installation = installed(&local).with("AGENT_HOLDER", holder);
        let mut bot = serving(&installation).await;
        local.mention(CHANNEL, ANN, "slow 2");
        local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
        bot.signal(signal);
        bot.logs("shutdown: intake closed").await;
        local.mention(OTHER, ANN, "too late");
        let turned_away = local.wait_for_message(OTHER, |_| true).await;
        assert!(turned_away.content.contains("I am restarting"), "10.1: {}", turned_away.content);
        let ended = bot.ended().await;
        assert_eq!(
            local.texts(CHANNEL),
            ["Second 1. Second 2. There."],
            "10.2: the gateway waited for the turn"
        );
        assert_eq!((ended.code, local.connections()), (0, 0), "10.3: {}", ended.stderr);
        assert_eq!(local.closed_with(), [Some(1000)], "10.3: it sent a close frame");
    }
    // 10.2: the gateway waits for a turn only until its time limit.
    let local = discord().await;
    let installation = installed(&local).with("QUERY_TIMEOUT_MS", "1500");
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hang");
    local.wait_for("the agent", |_| (!bot.agents().is_empty()).then_some(())).await;
    bot.signal(Signal::INT);
    assert_eq!(bot.ended().await.code, 0, "10.3");
    assert!(local.texts(CHANNEL)[0].contains("timed out"), "10.2: {:?}", local.texts(CHANNEL));
}
