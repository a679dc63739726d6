//! `aetheel doctor`, with Discord and without.

use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use serde_json::Value;

use super::installed;
use crate::support::discord::{ANN, BOT, CHANNEL, GUILD, LocalDiscord, OTHER, THREAD, TOKEN};
use crate::support::postgres::Postgres;
use crate::support::program::{Ended, Installation};

const KEY: &str = "sk-ant-canary-0123456789abcdef";
const SEND: u64 = 1 << 11;
const ATTACH: u64 = 1 << 15;

/// The result of a run.
struct DoctorReport {
    ended: Ended,
    all: Value,
}

impl DoctorReport {
    /// Returns the level of the line about this subject, and its text and hint.
    fn about(&self, about: &str) -> (&str, String) {
        let lines = self.all["lines"].as_array().unwrap();
        let line = lines
            .iter()
            .find(|line| line["about"] == about)
            .unwrap_or_else(|| panic!("nothing about {about}: {:#}", self.all));
        let hint = line["hint"].as_str().unwrap_or_default();
        assert_eq!(line["level"] == "ok", hint.is_empty(), "only `ok` has no hint: {line}");
        (line["level"].as_str().unwrap(), format!("{} / {hint}", line["says"].as_str().unwrap()))
    }
}

async fn doctor(installation: &Installation, further: &[&str]) -> DoctorReport {
    let ended = installation.run(&[&["doctor", "--json"], further].concat(), "").await;
    let all: Value =
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let (faults, warnings) = (all["faults"].as_u64().unwrap(), all["warnings"].as_u64().unwrap());
    assert_eq!(ended.code, if faults > 0 { 2 } else { i32::from(warnings > 0) }, "{all:#}");
    DoctorReport { ended, all }
}

#[tokio::test]
async fn a_good_installation_has_no_fault_and_is_not_changed() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local)
        .with("OUTPUT_CHANNEL_ID", &CHANNEL.to_string())
        .with("ANTHROPIC_API_KEY", KEY);
    let before: Vec<_> = installation.everything().into_iter().map(|(path, _)| path).collect();
    let report = doctor(&installation, &[]).await;
    assert_eq!(report.all["faults"], 0, "{:#}", report.all);
    for about in [
        "discord token",
        "discord",
        "clock",
        "message content intent",
        "discord logins",
        "backend demo",
        "default backend",
    ] {
        assert_eq!(report.about(about).0, "ok", "{about}: {:#}", report.all);
    }
    assert_eq!(report.about(&format!("channel {CHANNEL}")).0, "ok");
    assert!(report.about("message content intent").1.contains("off"), "{:#}", report.all);
    assert!(report.about("backend demo").1.contains("is valid"), "{:#}", report.all);
    // Most machines have no cgroups for agents, and need none.
    assert!(matches!(report.about("cgroups").0, "ok" | "note"), "{:#}", report.all);
    // Only GET requests were sent, and no file was left behind.
    assert!(
        local.requests().iter().all(|request| request.method == "GET"),
        "{:?}",
        local.requests()
    );
    assert_eq!(local.logins(), (0, 0));
    let after: Vec<_> = installation.everything().into_iter().map(|(path, _)| path).collect();
    assert_eq!(after, before);

    let text = installation.run(&["doctor"], "").await;
    assert!(
        text.stdout.contains("ok       discord token: has the form of a token\n"),
        "{}",
        text.stdout
    );
    for secret in [TOKEN, KEY] {
        for said in [&text.stdout, &text.stderr, &report.ended.stdout, &report.ended.stderr] {
            assert!(!said.contains(secret), "{said}");
        }
    }
}

#[tokio::test]
async fn missing_permissions_of_the_bot_in_its_channels_are_listed() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("ALLOWED_CHANNELS", &format!("{CHANNEL},{THREAD},5"));
    std::fs::create_dir(installation.path("config/state")).unwrap();
    std::fs::write(
        installation.path("config/state/sessions.md"),
        format!("# Sessions\n\n- `channel:{OTHER}` `demo`\n"),
    )
    .unwrap();
    local.faults().deny(CHANNEL, GUILD, ATTACH | 1 << 38);
    local.faults().deny(OTHER, BOT, SEND);
    let report = doctor(&installation, &[]).await;
    let (level, says) = report.about(&format!("channel {CHANNEL}"));
    assert!(
        level == "warning"
            && says.contains(
                "#general (ALLOWED_CHANNELS): the bot lacks Attach Files, Send Messages in Threads"
            ),
        "{says}"
    );
    let (level, says) = report.about(&format!("channel {OTHER}"));
    assert!(
        level == "fault" && says.contains("(has a conversation): the bot lacks Send Messages"),
        "{says}"
    );
    // A thread inherits the permission overwrites of its channel.
    let (level, says) = report.about(&format!("channel {THREAD}"));
    assert!(level == "fault" && says.contains("lacks Send Messages in Threads"), "{says}");
    let (level, says) = report.about("channel 5");
    assert!(level == "fault" && says.contains("cannot see it"), "{says}");
}

#[tokio::test]
async fn a_wrong_clock_few_remaining_logins_and_intents_are_reported() {
    let local = LocalDiscord::start().await;
    local.faults().clock_ahead(300);
    local.faults().logins_left(7);
    local.faults().flags(1 << 19);
    let report = doctor(&installed(&local), &[]).await;
    let (level, says) = report.about("clock");
    assert!(level == "warning" && says.contains(" s behind discord's"), "{says}");
    let (level, says) = report.about("discord logins");
    assert!(level == "warning" && says.contains("7 of 1000"), "{says}");
    assert!(report.about("message content intent").1.starts_with("on"), "{:#}", report.all);
}

#[tokio::test]
async fn without_discord_everything_else_is_checked() {
    // No test listens on this port. A port that was free a moment ago may be that of another test.
    let installation = Installation::new()
        .with("DISCORD_API_BASE", "http://127.0.0.1:1")
        .with("DISCORD_BOT_TOKEN", TOKEN);
    let report = doctor(&installation, &[]).await;
    let (level, says) = report.about("discord");
    assert!(level == "fault" && says.contains("cannot reach discord"), "{says}");
    assert_eq!(report.about("backend demo").0, "ok");

    let report = doctor(&installation, &["--offline"]).await;
    assert_eq!(
        (report.all["faults"].as_u64(), report.about("discord").0),
        (Some(0), "ok"),
        "{:#}",
        report.all
    );
}

#[tokio::test]
async fn a_refused_token_a_broken_component_and_a_readable_env_file_are_reported() {
    let local = LocalDiscord::start().await;
    local.faults().refuse_token(true);
    let installation = installed(&local).with("DISCORD_BOT_TOKEN", "");
    std::fs::write(installation.backend("broken"), b"no component").unwrap();
    let file = installation.path("env");
    std::fs::write(&file, format!("DISCORD_BOT_TOKEN={TOKEN}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let report = doctor(&installation, &["--env-file", file.to_str().unwrap()]).await;
    assert_eq!(report.about("discord").0, "fault");
    let (level, says) = report.about("backend file");
    assert!(level == "warning" && says.contains("broken.wasm"), "{says}");
    let (level, says) = report.about("env file");
    assert!(
        level == "warning" && says.contains("mode 644") && says.contains("chmod 600"),
        "{says}"
    );
    assert!(!report.ended.stdout.contains(TOKEN));
}

#[tokio::test]
async fn a_default_backend_that_cannot_work_and_folders_that_cannot_be_created_are_faults() {
    let installation = Installation::new()
        .with("AGENT_BACKEND", "absent")
        .with("RECORDINGS_DIR", "/proc/nothing/here");
    let report = doctor(&installation, &["--offline"]).await;
    assert_eq!(report.about("default backend").0, "fault");
    assert_eq!(report.about("RECORDINGS_DIR").0, "fault");
    assert_eq!(report.about("CONFIG_DIR").0, "ok");
}

#[tokio::test]
async fn in_a_cluster_it_reports_the_database_and_differing_nodes_without_joining() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let one = super::cluster::node(&local, &postgres, "one");
    let report = doctor(&one, &[]).await;
    assert_eq!(report.about("cluster database").0, "ok");
    assert_eq!(report.about("cluster clock").0, "ok");
    assert!(report.about("cluster tables").1.contains("none yet"), "{:#}", report.all);
    assert!(report.about("node one").1.contains("the name is free"), "{:#}", report.all);
    assert_eq!(
        postgres.ask("select to_regclass('aetheel.form') is null"),
        "t",
        "it created no tables"
    );
    assert!(!one.path("config/state/node.md").exists());
    assert!(doctor(&one, &["--offline"]).await.about("cluster").1.contains("--offline"));

    let _first = super::cluster::connected(&one).await;
    let start = || postgres.ask("select start from aetheel.node where name = 'one'");
    let before = start();
    let report = doctor(&one, &[]).await;
    assert!(report.about("cluster tables").1.contains("have this version"), "{:#}", report.all);
    assert!(report.about("node one").1.contains("which is running"), "{:#}", report.all);
    assert!(report.about("cluster nodes").1.contains("1 running: one"), "{:#}", report.all);
    assert_eq!(start(), before, "it did not join");

    let other = super::cluster::node(&local, &postgres, "one");
    let report = doctor(&other, &[]).await;
    let (level, says) = report.about("node one");
    assert!(level == "fault" && says.contains("NODE_NAME"), "{says}");
    // Adds another node to the database, which differs.
    postgres.ask(
        "insert into aetheel.node (bot, name, identity, start, lease, version, labels, files, components)
         select bot, 'two', 'x', 7, clock_timestamp() + interval '1 day', version, labels, 'y', 'z'
         from aetheel.node where name = 'one'",
    );
    let report = doctor(&one, &[]).await;
    let (level, says) = report.about("node two");
    assert!(level == "warning" && says.contains("differ"), "{says}");
    postgres.ask("update aetheel.form set version = 9, since = 9");
    let report = doctor(&one, &[]).await;
    let (level, says) = report.about("cluster tables");
    assert!(level == "fault" && says.contains("upgrade this node"), "{says}");
}

#[tokio::test]
async fn a_database_that_is_away_and_channels_of_a_dead_node_are_reported() {
    let (local, mut postgres) = (LocalDiscord::start().await, Postgres::start());
    let one = super::cluster::node(&local, &postgres, "one");
    {
        let mut first = super::cluster::connected(&one).await;
        local.mention(CHANNEL, ANN, "hello");
        local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
        first.signal(Signal::KILL);
        first.ended().await;
    }
    postgres.ask("update aetheel.node set lease = clock_timestamp() - interval '90 s'");
    let two = super::cluster::node(&local, &postgres, "two");
    let report = doctor(&two, &[]).await;
    let (level, says) = report.about("node one");
    assert!(level == "warning" && says.contains("no node serves its 1 channel"), "{says}");
    assert!(says.contains("start it"), "{says}");
    let report = doctor(&one, &[]).await;
    assert!(report.all["lines"].to_string().contains("which is not running"), "{:#}", report.all);
    postgres.kill();
    let report = doctor(&one, &[]).await;
    let (level, says) = report.about("cluster database");
    assert!(level == "fault" && says.contains("cannot be reached"), "{says}");
}

#[tokio::test]
async fn a_bot_in_no_server_is_a_fault_with_an_invite_link() {
    let local = LocalDiscord::start().await;
    let report = doctor(&installed(&local), &[]).await;
    assert_eq!(report.about("discord servers"), ("ok", "Loopback / ".to_owned()));
    local.faults().uninvited();
    let report = doctor(&installed(&local), &[]).await;
    let (level, says) = report.about("discord servers");
    assert!(level == "fault" && says.contains("in no server"), "{says}");
    assert!(says.contains("https://discord.com/oauth2/authorize?client_id="), "{says}");
    let bot = super::serving(&installed(&local)).await;
    let line = bot.logs("the bot is in no server").await;
    assert!(line["invite"].as_str().is_some_and(|link| link.contains("client_id=")), "{line}");
}

#[tokio::test]
async fn channels_without_a_mention_need_the_message_content_intent() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    std::fs::write(
        installation.path("config/channels.md"),
        format!("## channel #general {CHANNEL}\n- require-mention: no\n"),
    )
    .unwrap();
    let report = doctor(&installation, &[]).await;
    let (level, says) = report.about("message content intent");
    assert!(level == "fault" && says.contains(&CHANNEL.to_string()), "{says}");
    assert!(says.contains("/applications/"), "{says}");
    let bot = super::serving(&installation).await;
    let line = bot.logs("Message Content Intent is off, so `require-mention: no`").await;
    assert!(line["channels"].to_string().contains(&CHANNEL.to_string()), "{line}");
    local.faults().flags(1 << 19);
    assert_eq!(doctor(&installation, &[]).await.about("message content intent").0, "ok");
}

#[tokio::test]
async fn users_are_shown_by_name_and_a_mistyped_id_is_a_warning() {
    let local = LocalDiscord::start().await;
    let report = doctor(&installed(&local).with("ALLOWED_USERS", &ANN.to_string()), &[]).await;
    assert_eq!(report.about("ALLOWED_USERS"), ("ok", format!("ann ({ANN}) / ")));
    let wrong = installed(&local).with("ALLOWED_USERS", "123").with("ALLOWED_GUILDS", "5");
    let report = doctor(&wrong, &[]).await;
    let (level, says) = report.about("ALLOWED_USERS");
    assert!(level == "warning" && says.contains("no user with the id 123"), "{says}");
    let (level, says) = report.about("ALLOWED_GUILDS");
    assert!(level == "warning" && says.contains("not in the server 5"), "{says}");
}
