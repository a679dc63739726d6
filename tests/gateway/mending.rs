//! The whole loop in the gateway: an agent's output changes, another agent mends the backend, an
//! owner installs the change with a button, and the lost reply is delivered.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, Message, OTHER, OWNER};
use crate::support::program::{Installation, aetheel, rebuilt};
use aetheel_store::workspace::component_digest;

/// Limit for an attempt, which compiles a backend and its dependencies.
const MENDED: Duration = Duration::from_secs(540);

/// Returns an installation with a demo agent whose answers have the field that `form` names.
fn with_agent(local: &LocalDiscord) -> Installation {
    let installation = installed(local);
    let (program, form) = (installation.path("new-demo"), installation.path("form"));
    let script = format!(
        "#!/bin/sh\n{} \"$@\" | sed -u \"s/\\\"text\\\":/\\\"$(cat '{}')\\\":/\"\n",
        aetheel().display(),
        form.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&form, "text").unwrap();
    let read = [form.clone(), aetheel().parent().unwrap().to_owned()];
    let read: Vec<String> = read.iter().map(|path| path.display().to_string()).collect();
    installation
        .with_toolchain()
        .with("BACKEND_CLI_PATH", &program.display().to_string())
        .with("AGENT_READ", &read.join(","))
        .with(
            "BACKEND_SOURCES",
            Path::new(env!("CARGO_MANIFEST_DIR")).join("guest-backends").to_str().unwrap(),
        )
        .with("OUTPUT_CHANNEL_ID", &OTHER.to_string())
}

/// Returns an installation with a change of the demo backend that was accepted, and about which nobody
/// was asked so far, and the digest of the changed version.
fn with_change(local: &LocalDiscord) -> (Installation, String) {
    let installation = with_agent(local).with("BACKEND_MEND", "ask");
    let serving = fs::read(installation.backend("demo")).unwrap();
    let changed = rebuilt(serving.clone(), "changed");
    let mended = installation.path("config/state/mended");
    fs::create_dir_all(&mended).unwrap();
    fs::write(mended.join("demo.wasm"), &changed).unwrap();
    fs::write(mended.join("demo.diff"), "+a line").unwrap();
    let (serving, changed) = (component_digest(&serving), component_digest(&changed));
    let note = format!(
        "- `demo` ready: from `{serving}` to `{changed}`, 1 rounds, 0 cents, `1 lost turn`\n"
    );
    fs::write(installation.path("config/state/mending.md"), note).unwrap();
    (installation, changed)
}

async fn wait_for_change(local: &LocalDiscord) -> Message {
    local.wait_for("the notice about the change", |local| find(local, "(mended)")).await
}

async fn expect_answer(local: &LocalDiscord, prompt: &str) -> Message {
    local.mention(CHANNEL, ANN, prompt);
    let says = format!("You said: {prompt}");
    local.wait_for_message(CHANNEL, |text| text.contains(&says)).await
}

fn find(local: &LocalDiscord, part: &str) -> Option<Message> {
    local.messages(OTHER).into_iter().find(|message| message.content.contains(part))
}

/// Waits for the state of the attempt.
async fn expect_state(local: &LocalDiscord, installation: &Installation, state: &str) {
    let line = format!("`demo` {state}: from");
    let is_saved = || installation.read("state/mending.md").contains(&line).then_some(());
    local.wait_for(&line, |_| is_saved()).await;
}

#[tokio::test]
async fn an_owner_installs_a_mended_backend_and_the_lost_reply_is_delivered() {
    let local = LocalDiscord::start().await;
    let installation = with_agent(&local).with("BACKEND_MEND", "ask");
    let mut bot = serving(&installation).await;
    expect_answer(&local, "hello").await;
    fs::write(installation.path("form"), "body").unwrap();
    local.mention(CHANNEL, ANN, "good morning");
    local.wait_for_message(CHANNEL, |text| text.contains("(unread, ")).await;

    let notice = local
        .wait_within(MENDED, "the notice about the change", |local| find(local, "(mended)"))
        .await;
    for part in [
        "An agent changed **demo**",
        "1 lost turn",
        "1 round",
        "+    let text = match fields.text(\"body\")",
    ] {
        assert!(notice.content.contains(part), "{part}: {}", notice.content);
    }
    assert_eq!(local.buttons(notice.id), ["Install", "Discard"]);
    expect_state(&local, &installation, "asked").await;

    local.press(notice.id, ANN, "Install");
    local.wait_a_moment().await;
    assert!(installation.read("state/mending.md").contains("`demo` asked"), "only owners decide");

    // The button still works after the gateway was killed.
    let stale = local.button(notice.id, "Install").unwrap();
    bot.signal(Signal::KILL);
    bot.ended().await;
    let _bot = serving(&installation).await;
    local.press(notice.id, OWNER, "Install");
    let readable = local
        .wait_for("the notice about readable replies", |local| find(local, "(recoverable)"))
        .await;
    expect_state(&local, &installation, "installed").await;
    local.press_id(notice.id, OWNER, &stale);
    let no_effect = |text: &str| text.contains("This is no longer available.");
    local.wait_for_message(OTHER, no_effect).await;
    // The notice is posted before the turn is marked.
    let is_marked = || installation.read("state/lost.md").contains(" readable").then_some(());
    local.wait_for("the mark of the turn", |_| is_marked()).await;
    local.press(readable.id, OWNER, "Deliver them");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: good morning")).await;
    expect_answer(&local, "good evening").await;
    assert_eq!(
        local.messages(OTHER).iter().filter(|it| it.content.contains("(mended)")).count(),
        1
    );
}

#[tokio::test]
async fn a_discarded_change_is_never_offered_again() {
    let local = LocalDiscord::start().await;
    let (installation, changed) = with_change(&local);
    let mut bot = serving(&installation).await;
    let notice = wait_for_change(&local).await;
    assert_eq!(local.buttons(notice.id), ["Install", "Discard"]);
    expect_state(&local, &installation, "asked").await;
    let stale = local.button(notice.id, "Install").unwrap();
    local.press(notice.id, OWNER, "Discard");
    expect_state(&local, &installation, "discarded").await;
    local.wait_for_message(OTHER, |text| text.contains("🗑️ Discarded by")).await;
    local.press_id(notice.id, OWNER, &stale);
    let no_effect = |text: &str| text.contains("This is no longer available.");
    local.wait_for_message(OTHER, no_effect).await;
    bot.signal(Signal::KILL);
    bot.ended().await;
    let bot = serving(&installation).await;
    expect_answer(&local, "hello").await;
    assert!(!bot.log().iter().any(|line| line.to_string().contains(&changed)), "it is not loaded");
    let notices = local.messages(OTHER).into_iter().filter(|it| it.content.contains("(mended)"));
    assert_eq!(notices.count(), 1);
}

#[tokio::test]
async fn a_change_is_tried_beside_the_serving_version() {
    let local = LocalDiscord::start().await;
    let (installation, changed) = with_change(&local);
    let installation = installation.with("BACKEND_ROLLOUT", "shadow:5");
    let _bot = serving(&installation).await;
    let notice = wait_for_change(&local).await;
    assert_eq!(local.buttons(notice.id), ["Try beside", "Install", "Discard"]);
    expect_state(&local, &installation, "asked").await;
    local.press(notice.id, OWNER, "Try beside");
    expect_state(&local, &installation, "installed").await;
    let on_rollout = || installation.read("state/rollouts.md").contains(&changed).then_some(());
    local.wait_for("the rollout", |_| on_rollout()).await;
    expect_answer(&local, "hello").await;
}

#[tokio::test]
async fn an_operator_can_let_changes_be_installed_without_a_question() {
    let local = LocalDiscord::start().await;
    let (installation, changed) = with_change(&local);
    let installation = installation.with("BACKEND_MEND", "auto");
    let bot = serving(&installation).await;
    let notice = wait_for_change(&local).await;
    assert!(notice.content.contains("It was installed (`BACKEND_MEND=auto`)."));
    assert_eq!(local.buttons(notice.id), Vec::<String>::new());
    expect_state(&local, &installation, "installed").await;
    let serves = |line: &serde_json::Value| line.to_string().contains(&changed);
    bot.logs_where("the changed version", serves).await;
    expect_answer(&local, "hello").await;
}
