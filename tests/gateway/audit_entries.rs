//! The entries of the audit log about what people and policies did, and `aetheel audit show`.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use super::audit::{entries, verify, wait_for_entry};
use super::dashboard::with_dashboard;
use super::{installed, serving};
use crate::support::browser::Browser;
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OWNER};
use crate::support::program::Installation;

fn field<'a>(entry: &'a Value, name: &str) -> &'a str {
    entry["fields"][name].as_str().unwrap_or_default()
}

#[tokio::test]
async fn stops_resets_and_reserved_files_are_recorded_with_their_person() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    let lane = format!("channel:{CHANNEL}");
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.answer_to(local.slash(CHANNEL, ANN, "stop", None)).await;
    let stopped = wait_for_entry(&local, &installation, "turn-stopped").await;
    local.wait_for_message(CHANNEL, |text| text.contains("Stopped.")).await;
    local.answer_to(local.slash(CHANNEL, ANN, "reset", None)).await;
    let reset = wait_for_entry(&local, &installation, "conversation-reset").await;
    let former = local.suggestions(CHANNEL, ANN, "sessions", "hello").await.remove(0).0;
    local.answer_to(local.slash(CHANNEL, ANN, "sessions", Some(&former))).await;
    let resumed = wait_for_entry(&local, &installation, "conversation-resumed").await;
    local.answer_to(local.slash(CHANNEL, ANN, "claim", Some("paths:=src/a.rs"))).await;
    let reserved = wait_for_entry(&local, &installation, "files-reserved").await;
    local.answer_to(local.slash(CHANNEL, ANN, "claim", Some("release:=all"))).await;
    let released = wait_for_entry(&local, &installation, "files-released").await;
    assert_eq!(field(&resumed, "session"), former);
    for entry in [&stopped, &reset, &resumed, &reserved, &released] {
        assert_eq!(field(entry, "person"), ANN.to_string(), "{entry}");
        assert_eq!((field(entry, "name"), field(entry, "lane")), ("ann", lane.as_str()), "{entry}");
    }
    assert_eq!((field(&stopped, "running"), field(&stopped, "waiting")), ("yes", "0"));
    assert_eq!((field(&reserved, "by"), field(&reserved, "paths")), ("person", "1"));
    assert_eq!(field(&reserved, "claim"), field(&released, "claim"));
    // A command without effect is not recorded.
    local.answer_to(local.slash(CHANNEL, ANN, "stop", None)).await;
    local.answer_to(local.slash(CHANNEL, ANN, "settings", Some("demo"))).await;
    wait_for_entry(&local, &installation, "setting-changed").await;
    assert_eq!(entries(&installation, "turn-stopped").len(), 1);
}

#[tokio::test]
async fn a_raised_cap_is_recorded_with_its_owner_and_both_amounts() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("OUTPUT_CHANNEL_ID", &CHANNEL.to_string());
    let budget = "## all\n- cap: 1 turns a day\n";
    fs::write(installation.path("config/budgets.md"), budget).unwrap();
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "first");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: first")).await;
    local.mention(CHANNEL, ANN, "second");
    let raise = |local: &LocalDiscord| {
        local.messages(CHANNEL).into_iter().find_map(|message| {
            let label =
                local.buttons(message.id).into_iter().find(|label| label.starts_with("Raise"))?;
            Some((message.id, label))
        })
    };
    let (notice, label) = local.wait_for("the notice", raise).await;
    // Ann may not decide, so her press changes nothing.
    local.press(notice, ANN, &label);
    let refused = wait_for_entry(&local, &installation, "offer-pressed").await;
    assert!(field(&refused, "result").starts_with("refused: "), "{refused}");
    assert_eq!(field(&refused, "person"), ANN.to_string());
    assert!(entries(&installation, "cap-raised").is_empty());
    local.press(notice, OWNER, &label);
    let raised = wait_for_entry(&local, &installation, "cap-raised").await;
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: second")).await;
    assert_eq!((field(&raised, "person"), field(&raised, "name")), (&*OWNER.to_string(), "olga"));
    assert_eq!((field(&raised, "before"), field(&raised, "period")), ("1 turn", "day"));
    assert_eq!(format!("Raise to {}", field(&raised, "after")), label);
    let pressed = |_: &LocalDiscord| {
        let pressed = entries(&installation, "offer-pressed");
        pressed.into_iter().find(|entry| field(entry, "result") == "accepted")
    };
    let accepted = local.wait_for("the press", pressed).await;
    assert_eq!(field(&accepted, "person"), OWNER.to_string());
}

#[tokio::test]
async fn the_use_of_the_dashboard_is_recorded() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let mut bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let signed_in = wait_for_entry(&local, &installation, "dashboard-sign-in").await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    assert_eq!(ann.send("/turns/stop", &[]).await, "Stopped.");
    let stopped = wait_for_entry(&local, &installation, "dashboard-action").await;
    local.wait_for_message(CHANNEL, |text| text.contains("Stopped.")).await;
    assert_eq!((field(&stopped, "action"), field(&stopped, "name")), ("stop", "ann"));
    for entry in [&signed_in, &stopped] {
        assert_eq!(field(entry, "person"), ANN.to_string(), "{entry}");
    }
    bot.signal(Signal::TERM);
    bot.ended().await;
    assert_eq!(verify(&installation).await.code, 0);
}

#[tokio::test]
async fn a_conversation_at_the_console_is_recorded_with_the_decisions_of_policies() {
    let installation = Installation::new().with("STOP_GRACE_MS", "200");
    let folder = installation.path("backends/policies");
    fs::create_dir_all(&folder).unwrap();
    let guard = "target/guests/wasm32-wasip2/release/guard.wasm";
    let guard = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(guard));
    fs::write(folder.join("guard.wasm"), guard.expect("`make guests` built it")).unwrap();
    let script = "ask ls -la\nask make\ndeny\nhang\n/stop\n/reset\n/sessions demo\n/claim a.rs for 1h\n/claim release all\n/safety ask\n/safety no-such\n";
    let ended = installation.run(&["console", "--backend", "demo"], script).await;
    let kinds = |kind: &str| entries(&installation, kind);
    let started = kinds("console-started");
    assert_eq!(started.len(), 1, "{}", ended.stderr);
    assert_eq!(field(&started[0], "version"), env!("CARGO_PKG_VERSION"));
    let asked = kinds("prompt-accepted");
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(asked.iter().all(|entry| field(entry, "lane") == "console"), "{asked:?}");
    let decided = kinds("request-decided");
    let deciders: Vec<&str> = decided.iter().map(|entry| field(entry, "decider")).collect();
    assert_eq!(deciders, ["policy", "person"], "{decided:?}");
    assert_eq!((field(&decided[0], "policy"), field(&decided[0], "decision")), ("guard", "allow"));
    for kind in ["turn-stopped", "conversation-reset", "files-reserved", "files-released"] {
        assert_eq!(kinds(kind).len(), 1, "{kind}\n{}\n{}", ended.stdout, ended.stderr);
    }
    let resumed = kinds("conversation-resumed");
    assert_eq!(resumed.len(), 1, "{}\n{}", ended.stdout, ended.stderr);
    let changed = kinds("setting-changed");
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert_eq!((field(&changed[0], "setting"), field(&changed[0], "value")), ("safety", "ask"));
    let text = kinds("prompt-accepted").iter().map(Value::to_string).collect::<String>();
    assert!(!text.contains("ls -la"), "{text}");
    let checked = verify(&installation).await;
    assert_eq!(checked.code, 0, "{checked:?}");
}

#[tokio::test]
async fn a_console_beside_the_gateway_writes_into_the_same_chain() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut bot = serving(&installation).await;
    wait_for_entry(&local, &installation, "gateway-started").await;
    let ended = installation.run(&["console", "--backend", "demo"], "hello\n").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    local.mention(CHANNEL, ANN, "again");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: again")).await;
    bot.signal(Signal::TERM);
    bot.ended().await;
    let lanes: Vec<String> = entries(&installation, "prompt-accepted")
        .iter()
        .map(|entry| field(entry, "lane").to_owned())
        .collect();
    assert_eq!(lanes, ["console".to_owned(), format!("channel:{CHANNEL}")]);
    assert!(entries(&installation, "entries-lost").is_empty());
    let checked = verify(&installation).await;
    assert_eq!(checked.code, 0, "{checked:?}");
}

#[tokio::test]
async fn entries_are_shown_as_json_and_since_a_day() {
    let installation = Installation::new();
    installation.run(&["console", "--backend", "demo"], "hello\n").await;
    let json = installation.run(&["audit", "show", "--kind", "turn-ended", "--json"], "").await;
    let lines: Vec<Value> =
        json.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), json.code), (1, 0), "{json:?}");
    assert_eq!((&lines[0]["kind"], field(&lines[0], "outcome")), (&"turn-ended".into(), "done"));
    assert!(lines[0]["number"].is_u64() && lines[0]["time"].is_string(), "{json:?}");
    let day = &lines[0]["time"].as_str().unwrap()[..10];
    let count = async |arguments: &[&str]| {
        let shown = installation.run(&[&["audit", "show"], arguments].concat(), "").await;
        shown.stdout.lines().filter(|line| !line.starts_with(' ')).count()
    };
    let all = count(&[]).await;
    assert!(all >= 4, "{all}");
    assert_eq!(count(&["--since", day]).await, all);
    assert_eq!(count(&["--since", "2001-01-01", "--until", day]).await, all);
    assert_eq!(count(&["--since", "2999-01-01"]).await, 0);
    let verified = installation.run(&["audit", "verify", "--json"], "").await;
    let report: Value = serde_json::from_str(&verified.stdout).unwrap();
    assert_eq!(report["entries"].as_u64(), Some(all as u64), "{report}");
}
