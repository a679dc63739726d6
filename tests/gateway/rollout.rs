//! New versions on rollout, with the real program and its commands.

use std::fs;

use serde_json::{Value, json};

use rustix::process::Signal;

use super::components::{download, expect_answer, listed, mini, prepared, row_of_mini};
use super::{installed, serving};
use aetheel_store::workspace::component_digest;

use crate::rollout::faults::rebuilt;
use crate::support::browser::Browser;
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER, OWNER};
use crate::support::program::{Installation, Program};

const WAITS: &str = "a new version is on rollout and does not serve yet";
const PROMOTED: &str = "the new version was promoted and serves";

/// Starts a gateway with this rollout whose `mini` is version 1.0.0, and returns that component.
async fn with_rollout(
    local: &LocalDiscord,
    installation: Installation,
    rollout: &str,
) -> (Installation, Program, Vec<u8>) {
    let installation = prepared(installation)
        .with("BACKEND_ROLLOUT", rollout)
        .with("OUTPUT_CHANNEL_ID", &OTHER.to_string());
    let first = mini("1.0.0", json!({}));
    fs::write(installation.backend("mini"), &first).unwrap();
    let bot = serving(&installation).await;
    expect_answer(local, "1.0.0").await;
    (installation, bot, first)
}

async fn install(installation: &Installation, name: &str, bytes: &[u8]) {
    let file = download(installation, name, bytes);
    said(installation, &["install", &file]).await;
}

async fn said(installation: &Installation, arguments: &[&str]) -> String {
    let ended = installation.run(&[&["backend"], arguments].concat(), "").await;
    assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.stderr);
    ended.stdout
}

/// Waits for a log line about a version or a generation of `mini`.
async fn wait_for_log(bot: &Program, message: &str, version: &str) {
    bot.logs_where(message, |line| {
        line["message"].as_str().is_some_and(|text| text.starts_with(message))
            && line["backend"] == "mini"
            && (line["version"] == version
                || line["generation"].as_str().is_some_and(|text| text.starts_with(version)))
    })
    .await;
}

#[tokio::test]
async fn a_version_that_answers_otherwise_waits_for_the_operator_and_a_rebuilt_one_is_promoted() {
    let local = LocalDiscord::start().await;
    let installation = prepared(installed(&local)).with("BACKEND_ROLLOUT", "shadow:2");
    let first = mini("1.0.0", json!({}));
    fs::write(installation.backend("mini"), &first).unwrap();
    let bot = serving(&installation).await;
    expect_answer(&local, "1.0.0").await;

    let second = download(&installation, "mini-2.wasm", &mini("2.0.0", json!({})));
    let told = said(&installation, &["install", &second]).await;
    assert!(told.contains("compares it with the serving version first"), "{told}");
    wait_for_log(&bot, WAITS, "2.0.0").await;
    expect_answer(&local, "1.0.0").await;
    wait_for_log(&bot, "the rollout of a new version was stopped", "2.0.0").await;
    let told = said(&installation, &["rollout", "mini"]).await;
    for part in [
        "version 2.0.0 (",
        "is on rollout, version 1.0.0 (",
        "stopped by a harmful difference; 1 turn compared",
        "harmful: answer was 1.0.0, is 2.0.0",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    let list = listed(&installation).await;
    let row = row_of_mini(&list);
    assert_eq!((&row["version"], &row["rollout"]["state"]), (&json!("1.0.0"), &json!("stopped")));

    let told = said(&installation, &["withdraw", "mini"]).await;
    assert!(told.contains("its file is now") && told.contains("version 1.0.0"), "{told}");
    assert_eq!(fs::read(installation.backend("mini")).unwrap(), first);
    let ended = installation.run(&["backend", "promote", "mini"], "").await;
    assert_eq!(ended.code, 64, "{}", ended.stderr);
    assert!(ended.stderr.contains("no new version of `mini` is on rollout"), "{}", ended.stderr);

    let again = download(&installation, "mini-1.wasm", &rebuilt(&first));
    said(&installation, &["install", &again]).await;
    wait_for_log(&bot, WAITS, "1.0.0").await;
    expect_answer(&local, "1.0.0").await;
    expect_answer(&local, "1.0.0").await;
    wait_for_log(&bot, PROMOTED, "2@").await;

    said(&installation, &["install", &second]).await;
    let told = said(&installation, &["promote", "mini"]).await;
    assert!(told.contains("version 2.0.0 (") && told.contains("was promoted"), "{told}");
    wait_for_log(&bot, PROMOTED, "3@").await;
    expect_answer(&local, "2.0.0").await;
}

#[tokio::test]
async fn owners_decide_with_buttons_in_discord_also_after_a_restart() {
    let local = LocalDiscord::start().await;
    let (installation, mut bot, first) = with_rollout(&local, installed(&local), "shadow:50").await;
    let second = mini("2.0.0", json!({}));
    install(&installation, "mini-2.wasm", &second).await;
    let notice = local.wait_for_message(OTHER, |text| text.contains("is on rollout")).await;
    assert!(notice.content.contains("Version 2.0.0 ("), "{}", notice.content);
    assert_eq!(local.buttons(notice.id), ["Promote", "Withdraw"]);
    let noted = || installation.read("state/rollouts.md").contains("`mini`").then_some(());
    local.wait_for("the saved rollout", |_| noted()).await;
    bot.signal(Signal::KILL);
    bot.ended().await;

    let bot = serving(&installation).await;
    wait_for_log(&bot, "the rollout of a new version continues", "2.0.0").await;
    local.press(notice.id, ANN, "Promote");
    let word = local.wait_for_message(OTHER, |text| text == "Only my owner may accept this.").await;
    assert!(word.ephemeral);
    expect_answer(&local, "1.0.0").await;
    local.press(notice.id, OWNER, "Withdraw");
    local.wait_for_message(OTHER, |text| text.contains("🗑️ Withdrawn by")).await;
    assert!(local.buttons(notice.id).is_empty());
    assert_eq!(fs::read(installation.backend("mini")).unwrap(), first);
    let notices = |local: &LocalDiscord| {
        local.texts(OTHER).iter().filter(|text| text.contains("is on rollout")).count()
    };
    assert_eq!(notices(&local), 1, "it was not announced again after the restart");

    install(&installation, "mini-3.wasm", &mini("3.0.0", json!({}))).await;
    let notice = local.wait_for_message(OTHER, |text| text.contains("Version 3.0.0 (")).await;
    local.press(notice.id, OWNER, "Promote");
    local.wait_for_message(OTHER, |text| text.contains("✅ Promoted by")).await;
    expect_answer(&local, "3.0.0").await;
    assert!(!installation.read("state/rollouts.md").contains("`mini`"));
    let history = said(&installation, &["history", "mini"]).await;
    let ended = history.lines().filter(|line| line.contains("mini ("));
    let ends: Vec<bool> = ended.map(|line| line.contains("promoted: ")).collect();
    assert_eq!(ends, [true, false], "{history}");
    assert!(history.contains(&format!("mini ({})", &component_digest(&second)[..12])), "{history}");
    // The command of another program is reported too.
    install(&installation, "mini-4.wasm", &mini("4.0.0", json!({}))).await;
    local.wait_for_message(OTHER, |text| text.contains("Version 4.0.0 (")).await;
    said(&installation, &["promote", "mini"]).await;
    local
        .wait_for_message(OTHER, |text| {
            text.contains("Version 4.0.0 (") && text.contains("serves now")
        })
        .await;
}

#[tokio::test]
async fn owners_decide_in_the_dashboard() {
    let local = LocalDiscord::start().await;
    let installation = super::dashboard::with_dashboard(&local);
    let (installation, bot, first) = with_rollout(&local, installation, "shadow:50").await;
    install(&installation, "mini-2.wasm", &mini("2.0.0", json!({}))).await;
    wait_for_log(&bot, WAITS, "2.0.0").await;
    expect_answer(&local, "1.0.0").await;
    wait_for_log(&bot, "the rollout of a new version was stopped", "2.0.0").await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let olga = Browser::signed_in(&local, CHANNEL, OWNER).await;
    let page = olga.get("/components").await;
    for part in
        ["Promote the new version", "Withdraw the new version", "answer was 1.0.0, is 2.0.0"]
    {
        assert!(page.body.contains(part), "{part} is missing in\n{}", page.body);
    }
    let (_, link) = page.body.split_once("harmful, <a href=\"").expect("a link to the turn");
    let viewer = olga.get(&link.split('"').next().unwrap().replace("&amp;", "&")).await;
    assert_eq!(viewer.status, 200, "{}", viewer.body);
    let digest = crate::backend::digest(&mini("2.0.0", json!({})));
    let fields = |csrf: &str, decision: &str| {
        [("csrf", csrf), ("backend", "mini"), ("digest", &digest), ("decision", decision)]
            .map(|(name, value)| (name, value.to_owned()))
    };
    let send = async |browser: &Browser, csrf: &str, decision: &str| {
        let fields = fields(csrf, decision);
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        browser.post("/components/rollout", &fields).await.status
    };
    let hers = ann.get("/").await.field("csrf");
    assert_eq!(send(&ann, &hers, "promote").await, 404, "a member decides nothing");
    let csrf = page.field("csrf");
    assert_eq!(send(&olga, &csrf, "withdraw").await, 303);
    let page = olga.get("/components").await;
    assert!(page.body.contains("Version 2.0.0 of mini was withdrawn."), "{}", page.body);
    assert!(!page.body.contains("the new version"), "{}", page.body);
    local
        .wait_for_message(OTHER, |text| text == "-# 🖥️ olga withdrew version 2.0.0 of mini.")
        .await;
    assert_eq!(fs::read(installation.backend("mini")).unwrap(), first);
    assert_eq!(send(&olga, &csrf, "promote").await, 303);
    let page = olga.get("/components").await;
    assert!(page.body.contains("Nothing was changed"), "{}", page.body);
    expect_answer(&local, "1.0.0").await;
}

#[tokio::test]
async fn a_canary_serves_and_is_promoted_or_withdrawn() {
    let local = LocalDiscord::start().await;
    let (installation, bot, first) = with_rollout(&local, installed(&local), "canary:100,2").await;
    install(&installation, "mini-2.wasm", &mini("2.0.0", json!({}))).await;
    wait_for_log(&bot, WAITS, "2.0.0").await;
    expect_answer(&local, "2.0.0").await;
    let told = local.wait_for_message(OTHER, |text| text.contains("was withdrawn")).await;
    assert!(told.content.contains("answer was 1.0.0, is 2.0.0"), "{}", told.content);
    expect_answer(&local, "1.0.0").await;
    assert_eq!(fs::read(installation.backend("mini")).unwrap(), first);

    install(&installation, "mini-1.wasm", &rebuilt(&first)).await;
    wait_for_log(&bot, WAITS, "1.0.0").await;
    expect_answer(&local, "1.0.0").await;
    expect_answer(&local, "1.0.0").await;
    wait_for_log(&bot, PROMOTED, "2@").await;
    local.wait_for_message(OTHER, |text| text.contains("it served 2 turns")).await;
}

#[tokio::test]
async fn a_version_serves_only_the_chosen_channel() {
    let local = LocalDiscord::start().await;
    let (installation, bot, first) =
        with_rollout(&local, installed(&local), &format!("channels:{CHANNEL}")).await;
    install(&installation, "mini-1.wasm", &rebuilt(&first)).await;
    wait_for_log(&bot, WAITS, "1.0.0").await;
    for (channel, generation) in [(CHANNEL, "2@"), (OTHER, "1@")] {
        local.mention(channel, ANN, "hello");
        bot.logs_where("the turn", |line| {
            line["message"] == "turn begins"
                && line["lane"] == format!("channel:{channel}")
                && line["generation"].as_str().is_some_and(|it| it.starts_with(generation))
        })
        .await;
    }
}

/// Starts `aetheel backend dev --live` for a project whose build copies a file, and returns it.
fn developing(installation: &Installation, component: &[u8], channel: u64) -> Program {
    let project = installation.path("project");
    fs::create_dir_all(project.join("src")).unwrap();
    save(installation, component);
    let folder = project.display().to_string();
    installation.start(&[
        "backend",
        "dev",
        &folder,
        "--turns",
        "0",
        "--build",
        "cp src/source.bin built.wasm",
        "--live",
        &channel.to_string(),
    ])
}

/// Saves a source, as editors do: under another name first.
fn save(installation: &Installation, component: &[u8]) {
    let (unfinished, source) =
        (installation.path("project/src/.new"), installation.path("project/src/source.bin"));
    fs::write(&unfinished, component).unwrap();
    fs::rename(unfinished, source).unwrap();
}

async fn wait_for_output(program: &Program, text: &str) {
    program.prints(text, |said| said.contains(text).then_some(())).await;
}

async fn expect_answer_in(local: &LocalDiscord, channel: u64, version: &str) {
    let before = local.texts(channel).len();
    local.mention(channel, ANN, "hello");
    let came = |local: &LocalDiscord| {
        local.texts(channel).get(before..)?.iter().any(|text| text == version).then_some(())
    };
    local.wait_for(&format!("the answer {version} in {channel}"), came).await;
}

#[tokio::test]
async fn each_build_of_a_developer_serves_one_channel_until_the_command_ends() {
    let local = LocalDiscord::start().await;
    let installation = prepared(installed(&local));
    let first = mini("1.0.0", json!({}));
    fs::write(installation.backend("mini"), &first).unwrap();
    let mut bot = serving(&installation).await;
    let mut dev = developing(&installation, &mini("2.0.0", json!({})), OTHER);
    wait_for_output(&dev, &format!("live: it serves channel {OTHER}")).await;
    expect_answer_in(&local, OTHER, "2.0.0").await;
    expect_answer_in(&local, CHANNEL, "1.0.0").await;
    save(&installation, &mini("3.0.0", json!({})));
    wait_for_live(&bot, 2, "3.0.0").await;
    expect_answer_in(&local, OTHER, "3.0.0").await;
    // A build that wants more than the operator accepted does not serve.
    save(&installation, &mini("4.0.0", json!({ "environment": { "pass": ["OTHER_TOKEN"] } })));
    wait_for_output(&dev, "live: the gateway refuses it: it wants to do more than is accepted")
        .await;
    expect_answer_in(&local, OTHER, "3.0.0").await;
    let files = || fs::read_dir(installation.path("config/state/live")).unwrap().count();
    assert!(files() > 0);
    dev.signal(Signal::INT);
    assert_eq!(dev.ended().await.code, 0);
    assert_eq!(files(), 0);
    bot.logs("a version in development was withdrawn").await;
    // Its turns can still be examined with it, also after a restart.
    bot.signal(Signal::KILL);
    bot.ended().await;
    let bot = serving(&installation).await;
    let turn = format!("channel:{OTHER}");
    let read = installation.run(&["simulate-crash", "--json", &turn], "").await;
    let read: Value = serde_json::from_str(&read.stdout).unwrap_or_else(|_| panic!("{read:?}"));
    assert_eq!((&read["version"], &read["same-component"]), (&json!("3.0.0"), &json!(true)));
    expect_answer_in(&local, OTHER, "1.0.0").await;
    assert_eq!(fs::read(installation.backend("mini")).unwrap(), first, "the folder is unchanged");

    // A killed command withdraws its build too.
    let mut dev = developing(&installation, &mini("5.0.0", json!({})), OTHER);
    wait_for_output(&dev, &format!("live: it serves channel {OTHER}")).await;
    expect_answer_in(&local, OTHER, "5.0.0").await;
    // A promoted build stays.
    let ended = installation.run(&["backend", "promote", "mini"], "").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("installed as"), "{}", ended.stdout);
    let promoted = crate::backend::digest(&mini("5.0.0", json!({})));
    bot.logs_where("the promoted build", |line| {
        line["message"] == "backend loaded"
            && line["generation"].as_str().is_some_and(|it| it.ends_with(&promoted[..12]))
    })
    .await;
    expect_answer(&local, "5.0.0").await;
    save(&installation, &mini("6.0.0", json!({})));
    wait_for_live(&bot, 3, "6.0.0").await;
    expect_answer_in(&local, OTHER, "6.0.0").await;
    dev.signal(Signal::KILL);
    dev.ended().await;
    local.wait_for("the removed files", |_| (files() == 0).then_some(())).await;
    expect_answer_in(&local, OTHER, "5.0.0").await;
}

/// Waits until a version in development serves.
async fn wait_for_live(bot: &Program, generation: u32, version: &str) {
    let digest = crate::backend::digest(&mini(version, json!({})));
    bot.logs_where(&format!("{version} in development"), |line| {
        let starts = |field: &str, text: &str| {
            line[field].as_str().is_some_and(|said| said.starts_with(text))
        };
        starts("message", "a version in development serves this channel")
            && starts("generation", &format!("{generation}@{}", &digest[..12]))
    })
    .await;
}
