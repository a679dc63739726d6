//! Start and shutdown: files created at the start, the instructions of the first start, and hooks
//! at the start, around turns and at the end.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER};
use crate::support::program::{Installation, Program};

/// Writes a file of the configuration folder.
fn operator_writes(installation: &Installation, name: &str, text: &str) {
    fs::write(installation.path("config").join(name), text).unwrap();
}

/// Ends the program and returns the phases of the shutdown in its log.
async fn shut_down(bot: &mut Program) -> Vec<String> {
    bot.signal(Signal::INT);
    let ended = bot.ended().await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    phases(bot)
}

fn phases(bot: &Program) -> Vec<String> {
    let said = |line: Value| Some(line["message"].as_str()?.strip_prefix("shutdown: ")?.to_owned());
    bot.log().into_iter().filter_map(said).collect()
}

#[tokio::test]
async fn the_startup_hook_is_queued_when_discord_and_the_agent_are_ready() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("OUTPUT_CHANNEL_ID", &OTHER.to_string());
    operator_writes(
        &installation,
        "agents.md",
        "# Agents\n\n## Hooks\n\n- startup: Say hello.\n- shut_up: x\n",
    );
    let mut bot = serving(&installation).await;
    local.wait_for_message(OTHER, |text| text.starts_with("You said: Say hello.")).await;
    let log = bot.log();
    let at = |message: &str| {
        log.iter()
            .position(|line| line["message"] == message)
            .unwrap_or_else(|| panic!("{message:?}: {log:#?}"))
    };
    let fired = at("hook fired");
    assert!(at("aetheel is ready") < fired && fired < at("turn begins"), "{log:#?}");
    assert_eq!((&log[fired]["hook"], &log[fired]["instructed"]), (&"startup".into(), &true.into()));
    assert_eq!(log[at("turn begins")]["lane"], "hook:startup");
    let warned = bot.logs("agents.md line 6: there is no hook").await;
    assert_eq!(warned["level"], "WARN");
    shut_down(&mut bot).await;
    let fired = bot
        .log()
        .into_iter()
        .filter(|line| line["message"] == "hook fired" && line["hook"] == "startup")
        .count();
    assert_eq!(fired, 1);
}

#[tokio::test]
async fn hooks_without_instructions_are_only_logged() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("LOG_LEVEL", "debug");
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    bot.logs_where("the hook after the turn", |line| line["hook"] == "agent_stop").await;
    let shutdown = shut_down(&mut bot).await;
    let fired: Vec<_> =
        bot.log().into_iter().filter_map(|line| Some(line["hook"].as_str()?.to_owned())).collect();
    assert_eq!(fired, ["startup", "agent_begin", "agent_stop", "shutdown"]);
    assert!(!shutdown.contains(&"the hook has ended".to_owned()), "{shutdown:?}");
    assert_eq!(local.texts(CHANNEL).len(), 1);
    assert_eq!(installation.recordings().len(), 1, "no other turn ran");
}

#[tokio::test]
async fn hooks_around_a_turn_are_logged_and_post_in_their_own_channel() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let hooks = format!(
        "# Hooks\n## Agent begin\n- instruction: fail\n## agent-stop\n- instruction: tidy up\n- channel: <#{OTHER}>\n"
    );
    operator_writes(&installation, "agents.md", &hooks);
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    let tidied = local.wait_for_message(OTHER, |text| text.starts_with("You said: tidy up")).await;
    assert!(
        tidied.content.contains("(message) of channel:") && !tidied.content.contains("hello"),
        "{}",
        tidied.content
    );
    assert!(
        tidied.content.contains("This is message 1 of our conversation."),
        "{}",
        tidied.content
    );
    let failed = bot.logs("hook failed").await;
    assert_eq!((&failed["hook"], &failed["level"]), (&"agent_begin".into(), &"WARN".into()));
    assert_eq!(local.texts(CHANNEL).len(), 1, "{:?}", local.texts(CHANNEL));
    assert_eq!(local.texts(OTHER).len(), 1, "{:?}", local.texts(OTHER));
}

#[tokio::test]
async fn the_shutdown_hook_is_queued_behind_running_turns_and_awaited() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("MAX_CONCURRENT_QUERIES", "1");
    operator_writes(
        &installation,
        "agents.md",
        &format!("# Hooks\n## shutdown\n- channel: {OTHER}\n- instruction: slow 1\n"),
    );
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 2");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let phases = shut_down(&mut bot).await;
    assert_eq!(local.texts(CHANNEL), ["Second 1. Second 2. There."]);
    assert_eq!(local.texts(OTHER), ["Second 1. There."]);
    let wanted = [
        "begins",
        "intake closed",
        "waiting for turns",
        "the hook has ended",
        "no turn is left, closing long-lived agents",
        "discord is closed",
        "done",
    ];
    assert_eq!(phases, wanted);
    let log = bot.log();
    let at = |message: &str| log.iter().position(|line| line["message"] == message).unwrap();
    let fired = log
        .iter()
        .position(|line| line["message"] == "hook fired" && line["hook"] == "shutdown")
        .unwrap();
    assert!(at("shutdown: intake closed") < fired && fired < at("shutdown: waiting for turns"));
}

#[tokio::test]
async fn a_shutdown_hook_that_takes_too_long_is_logged_and_stopped() {
    let local = LocalDiscord::start().await;
    let installation =
        installed(&local).with("SHUTDOWN_GRACE_MS", "700").with("STOP_GRACE_MS", "200");
    operator_writes(&installation, "agents.md", "# Hooks\n- shutdown: hang\n");
    let mut bot = serving(&installation).await;
    let phases = shut_down(&mut bot).await;
    let said = |what: &str| phases.iter().any(|phase| phase.starts_with(what));
    assert!(
        said("the hook did not end in time")
            && said("grace is over, stopping turns")
            && said("done"),
        "{phases:?}"
    );
    assert_eq!(bot.agents(), []);
}

#[tokio::test]
async fn a_third_signal_ends_it_at_once() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("STOP_GRACE_MS", "20000");
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "stubborn");
    local.wait_for_message(CHANNEL, |text| text.contains("I will not stop.")).await;
    bot.signal(Signal::INT);
    bot.logs("shutdown: waiting for turns").await;
    bot.signal(Signal::INT);
    bot.logs("shutdown: second signal").await;
    let third = Instant::now();
    bot.signal(Signal::INT);
    let ended = bot.ended().await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(third.elapsed() < Duration::from_secs(10), "{:?}", third.elapsed());
    assert!(ended.stderr.contains("shutdown: third signal"), "{}", ended.stderr);
}

#[tokio::test]
async fn missing_files_are_created_at_the_start_and_listed() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    operator_writes(&installation, "soul.md", "mine");
    let mut first = serving(&installation).await;
    let booted = first.logs("boot: configuration files are there").await;
    let listed = (&booted["loaded"], &booted["created"], &booted["built_in"]);
    assert_eq!(
        listed,
        (
            &"soul.md".into(),
            &"identity.md, agents.md, user.md, memory.md, tools.md".into(),
            &true.into()
        )
    );
    assert_eq!(installation.read("soul.md"), "mine");
    assert!(installation.read("identity.md").contains("Aetheel"));
    assert_eq!(
        (installation.read("user.md"), installation.read("memory.md")),
        ("# User\n".to_owned(), "# Memory\n".to_owned())
    );
    shut_down(&mut first).await;

    operator_writes(
        &installation,
        "boot.md",
        "# Boot\n## Required\n- rules.md\n## Optional\n- soul.md\n- more.md\n## rules.md\n```\nBe kind.\n```\n",
    );
    let second = serving(&installation).await;
    let booted = second.logs("boot: configuration files are there").await;
    let listed = (&booted["loaded"], &booted["created"], &booted["missing"], &booted["built_in"]);
    assert_eq!(listed, (&"soul.md".into(), &"rules.md".into(), &"more.md".into(), &false.into()));
    assert_eq!(installation.read("rules.md"), "Be kind.\n");
}

#[tokio::test]
async fn check_creates_no_files_but_lists_missing_ones_which_the_console_creates() {
    let installation = Installation::new();
    let looked = installation.run(&["check"], "").await;
    assert_eq!(looked.code, 0, "{looked:?}");
    assert!(
        looked.stdout.contains("files that the start will create: soul.md, identity.md, agents.md"),
        "{}",
        looked.stdout
    );
    let made = |name: &str| installation.path("config").join(name).exists();
    assert!(!made("soul.md") && !made("memory.md"));
    operator_writes(
        &installation,
        "agents.md",
        "# Hooks\n- agent_begin: begin\n- agent_stop: end\n",
    );
    let talked = installation.run(&["console"], "hello\n").await;
    assert!(talked.code == 0 && made("soul.md") && made("memory.md"), "{talked:?}");
    let said: Vec<_> =
        talked.stdout.lines().filter(|line| line.starts_with("You said: ")).collect();
    // The console exits when the prompt is answered, and stops the hook after it.
    assert_eq!(said[..2], ["You said: begin", "You said: hello"], "{talked:?}");
    assert!(
        !installation.run(&["check"], "").await.stdout.contains("files that the start will create")
    );
}

#[tokio::test]
async fn a_file_that_cannot_be_created_prevents_the_start_and_is_named() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let soul = installation.path("config").join("soul.md");
    fs::create_dir(&soul).unwrap();
    for command in ["run", "check", "console"] {
        let ended = installation.run(&[command], "").await;
        assert_eq!(ended.code, 78, "{command}: {ended:?}");
        assert!(
            ended.faults().contains("error: CONFIG_DIR: cannot read `")
                && ended.stderr.contains("soul.md"),
            "{}",
            ended.stderr
        );
    }
    fs::remove_dir(&soul).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all.md", &soul).unwrap();
    let ended = installation.run(&["run"], "").await;
    assert_eq!(ended.code, 78, "{ended:?}");
    assert!(
        ended.faults().contains("error: CONFIG_DIR: cannot ") && ended.stderr.contains("soul.md"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn the_instructions_of_the_first_start_run_once_and_before_the_startup_hook() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("OUTPUT_CHANNEL_ID", &CHANNEL.to_string());
    operator_writes(&installation, "boot.md", "# Boot\n\n## First run\n\nIntroduce yourself.\n");
    operator_writes(&installation, "agents.md", "# Hooks\n- startup: Good morning.\n");
    let mut first = serving(&installation).await;
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: Good morning.")).await;
    let texts = local.texts(CHANNEL);
    assert!(texts.len() == 2 && texts[0].starts_with("You said: Introduce yourself."), "{texts:?}");
    assert!(
        installation.read("state/boot.md").contains("- handed over: 20"),
        "{}",
        installation.read("state/boot.md")
    );
    shut_down(&mut first).await;
    let mut second = serving(&installation).await;
    local
        .wait_for("the hook of the second start", |local| {
            (local.texts(CHANNEL).len() == 3).then_some(())
        })
        .await;
    shut_down(&mut second).await;
    let texts = local.texts(CHANNEL);
    assert!(texts.len() == 3 && texts[2].starts_with("You said: Good morning."), "{texts:?}");
}
