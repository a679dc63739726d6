//! Tests of everything that happens without a prompt: heartbeats, cron jobs, hooks, and the first
//! start.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use super::{discord, installed, repeated, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER};
use crate::support::program::Installation;

/// Creates an installation with these files, whose output goes to [`OTHER`].
fn with_output(local: &LocalDiscord, files: &[(&str, &str)]) -> Installation {
    let installation = installed(local).with("OUTPUT_CHANNEL_ID", &OTHER.to_string());
    for (file, text) in files {
        fs::write(installation.path("config").join(file), text).unwrap();
    }
    installation
}

#[tokio::test]
async fn requirement_17_heartbeats_run_without_a_prompt() {
    let local = discord().await;
    let checks = "## Inbox\n- interval: 60\n- instruction: Look for new mail.\n\n## Hasty\n- interval: 59\n- instruction: Much too often.\n";
    let installation = with_output(&local, &[("heartbeat.md", checks)]);
    let bot = serving(&installation).await;
    let scheduled = bot.logs_where("the schedule", |line| line["message"] == "scheduled").await;
    assert!(
        scheduled["lane"].as_str().unwrap().contains("Inbox") && scheduled["next"].is_string(),
        "17.1, 17.2: {scheduled}"
    );
    let left_out = bot.logs("heartbeat.md line 5: ").await;
    let why = left_out["message"].as_str().unwrap();
    assert!(
        left_out["level"] == "WARN"
            && why.contains("Hasty")
            && why.contains("minimum is 60 seconds"),
        "17.6: {left_out}"
    );
    // Heartbeats follow the clock on the wall: at the next full minute.
    let told = |local: &LocalDiscord| {
        local.texts(OTHER).contains(&repeated("Look for new mail.", 1)).then_some(())
    };
    local
        .wait_within(
            Duration::from_secs(90),
            "17.3, 17.4: the answer to the heartbeat in the output channel",
            told,
        )
        .await;
    let fired = bot.logs("fired").await;
    assert!(fired["event"].as_u64().is_some(), "17.3: it is an event of the queue: {fired}");

    let without = with_output(&local, &[]);
    let bot = serving(&without).await;
    assert_eq!(bot.logs("there is no heartbeat.md").await["level"], "INFO", "17.5");
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text == repeated("hello", 1)).await;
}

#[tokio::test]
async fn requirement_18_cron_jobs_run_when_their_time_has_come() {
    let local = discord().await;
    let jobs = "# Rules\n\n## Cron Jobs\n\n### Tick\n- cron: `* * * * * *`\n- instruction: Say what second it is.\n\n\
                ### Broken\n- cron: `99 * * * *`\n- instruction: Never.\n";
    let installation = with_output(&local, &[("agents.md", jobs)]);
    let bot = serving(&installation).await;
    let scheduled = bot.logs_where("the schedule", |line| line["message"] == "scheduled").await;
    assert!(
        scheduled["lane"].as_str().unwrap().contains("Tick") && scheduled["next"].is_string(),
        "18.1, 18.2: {scheduled}"
    );
    let skipped = bot
        .logs_where("18.5", |line| {
            line["message"].as_str().is_some_and(|text| text.contains("Broken"))
        })
        .await;
    assert!(
        skipped["level"] == "WARN" && skipped["message"].as_str().unwrap().contains("is left out"),
        "18.5: {skipped}"
    );
    local.wait_for_message(OTHER, |text| text == repeated("Say what second it is.", 1)).await;
    let fired = bot.logs("fired").await;
    assert!(fired["event"].as_u64().is_some(), "18.3: it is an event of the queue: {fired}");
    assert!(
        !local.texts(OTHER).iter().any(|text| text.contains("Never")),
        "18.4, 18.5: {:?}",
        local.texts(OTHER)
    );
}

#[tokio::test]
async fn requirement_19_hooks_run_at_the_start_at_the_end_and_around_events() {
    let local = discord().await;
    let hooks = "# Rules\n\n## Hooks\n\n- startup: Begin the day.\n- agent_begin: Look around.\n- agent_stop: Tidy up.\n- shutdown: Good night.\n";
    let installation = with_output(&local, &[("agents.md", hooks)]).with("LOG_LEVEL", "debug");
    let mut bot = serving(&installation).await;
    // 19.2, 19.6
    local.wait_for_message(OTHER, |text| text.starts_with("You said: Begin the day.")).await;
    local.mention(CHANNEL, ANN, "hello");
    let answer = local.wait_for_message(CHANNEL, |text| text == repeated("hello", 1)).await;
    let begun =
        local.wait_for_message(OTHER, |text| text.starts_with("You said: Look around.")).await;
    let stopped =
        local.wait_for_message(OTHER, |text| text.starts_with("You said: Tidy up.")).await;
    assert!(begun.created < answer.created, "19.3: before the turn");
    assert!(answer.created < stopped.created, "19.4: after the answer");
    let accepted = bot.log().iter().filter(|line| line["message"] == "event accepted").count();
    assert_eq!(
        accepted, 2,
        "19.3, 19.4: the queue had the startup hook and the message, but no hooks of these"
    );
    bot.signal(Signal::TERM);
    let ended = bot.ended().await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let texts = local.texts(OTHER);
    assert!(
        texts.last().is_some_and(|text| text.starts_with("You said: Good night.")),
        "19.5: the gateway waited for the hook: {texts:?}"
    );
    for hook in ["startup", "agent_begin", "agent_stop", "shutdown"] {
        assert!(
            bot.log().iter().any(|line| line["message"] == "hook fired" && line["hook"] == hook),
            "19.1: {hook}"
        );
    }
}

#[tokio::test]
async fn requirement_20_the_first_start_creates_missing_files() {
    let local = discord().await;
    let boot = "# Boot\n\n## Required\n\n- soul.md\n- rules.md\n\n## rules.md\n\n```markdown\n# Rules\n\n- Ask before you delete.\n```\n\n\
                ## First run\n\nIntroduce yourself.\n";
    let installation = with_output(&local, &[("boot.md", boot), ("soul.md", "Be kind.\n")]);
    let bot = serving(&installation).await;
    let line = bot.logs("boot: configuration files are there").await;
    let (loaded, created) = (line["loaded"].as_str().unwrap(), line["created"].as_str().unwrap());
    assert!(
        loaded.contains("soul.md") && created.contains("rules.md") && !created.contains("soul.md"),
        "20.2, 20.4: {line}"
    );
    assert_eq!(installation.read("soul.md"), "Be kind.\n", "20.3: existing files are not changed");
    assert_eq!(
        installation.read("rules.md").trim(),
        "# Rules\n\n- Ask before you delete.",
        "20.1, 20.3"
    );
    local.wait_for_message(OTHER, |text| text.starts_with("You said: Introduce yourself.")).await;
    drop(bot);
    // 20.1: once, not at every start.
    let mut bot = serving(&installation).await;
    bot.logs("boot: configuration files are there").await;
    bot.signal(Signal::TERM);
    assert_eq!(bot.ended().await.code, 0);
    assert_eq!(local.texts(OTHER).len(), 1, "{:?}", local.texts(OTHER));

    let bare = with_output(&local, &[]);
    let bot = serving(&bare).await;
    let line = bot.logs("boot: configuration files are there").await;
    for file in ["soul.md", "identity.md", "agents.md", "user.md", "tools.md"] {
        assert!(line["created"].as_str().unwrap().contains(file), "20.5: {file}: {line}");
    }
    for file in ["soul.md", "identity.md"] {
        assert!(
            bare.read(file).lines().filter(|line| !line.is_empty()).count() > 1,
            "20.5: {file} contains text: {:?}",
            bare.read(file)
        );
    }
    for file in ["agents.md", "user.md", "memory.md", "tools.md"] {
        let text = bare.read(file);
        assert!(
            text.starts_with("# ") && text.trim().lines().count() == 1,
            "20.5: {file} has an empty section: {text:?}"
        );
    }
}
