//! The output format of an agent changes while the gateway runs. No answer is lost for good, and
//! none is delivered twice.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::Value;

use super::{installed, serving};
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord, Message, OTHER, OWNER};
use crate::support::program::{Ended, Installation, built};

const BUTTON: &str = "Show the answer again (when a newer backend can read it)";
/// The names of two keys in the agent's lines, for the first parser and for the shipped one.
const EARLIER: &str = "kind payload";
const LATER: &str = "type content";

/// Returns the shipped component, patched to parse the earlier format.
fn earlier_parser() -> Vec<u8> {
    let component = built("gemini");
    let (from, to) = (b"contenttype", b"payloadkind");
    let mut patched = component.clone();
    let mut at = 0;
    while let Some(found) = patched[at..].windows(from.len()).position(|bytes| bytes == from) {
        patched[at + found..at + found + from.len()].copy_from_slice(to);
        at += found + from.len();
    }
    assert_ne!(patched, component, "the keys in the shipped component have changed");
    patched
}

/// Replaces the backend's component atomically, as documented for operators.
fn install(installation: &Installation, component: &[u8]) {
    let new = installation.backend("gemini").with_extension("new");
    fs::write(&new, component).unwrap();
    fs::rename(new, installation.backend("gemini")).unwrap();
}

fn set_format(installation: &Installation, form: &str) {
    fs::write(installation.path("form"), form).unwrap();
}

/// Returns an installation whose agent prints the earlier format, with a parser for it.
fn with_agent(local: &LocalDiscord) -> Installation {
    let installation = installed(local);
    let (program, form) = (installation.path("gemini"), installation.path("form"));
    let script = format!(
        r#"#!/bin/sh
if [ "$1" = --version ]; then echo 0.61.0; exit; fi
set -- $(cat '{form}')
prompt=$(tail -n 1)
printf '{{"%s":"init","session_id":"f3733b35-226b-4149-817f-e93602caa49c","model":"m"}}\n' "$1"
printf '{{"%s":"message","timestamp":"2026-11-21T21:02:11.418Z","role":"assistant","%s":"Answer to %s.","delta":true}}\n' "$1" "$2" "$prompt"
printf '{{"%s":"result","status":"success","stats":{{}}}}\n' "$1"
"#,
        form = form.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    set_format(&installation, EARLIER);
    install(&installation, &earlier_parser());
    installation
        .with("AGENT_BACKEND", "gemini")
        .with("BACKEND_RUN", "gemini=one-shot")
        // The sandbox must allow the scripted agent to read its format.
        .with("AGENT_READ", &form.display().to_string())
        .with("BACKEND_CLI_PATH", &program.display().to_string())
        .with("GEMINI_API_KEY", "gm-0123456789-not-a-key")
        .with("OUTPUT_CHANNEL_ID", &OTHER.to_string())
        .with("STATUS_ADDRESS", "127.0.0.1:0")
}

/// Returns the messages that answer a prompt.
fn answers_to(local: &LocalDiscord, prompt: &str) -> Vec<Message> {
    let says = format!("{prompt}.");
    local
        .messages(CHANNEL)
        .into_iter()
        .filter(|message| message.content.contains("Answer to") && message.content.contains(&says))
        .collect()
}

async fn wait_for_answer(local: &LocalDiscord, prompt: &str) -> Message {
    local
        .wait_for(&format!("the answer to {prompt}"), |local| answers_to(local, prompt).pop())
        .await
}

/// Sends a prompt, and returns its id and the failure message with the button.
async fn expect_failure(local: &LocalDiscord, prompt: &str) -> (u64, Message) {
    let question = local.mention(CHANNEL, ANN, prompt);
    let failure = local
        .wait_for("the failure with its button", |local| {
            local.messages(CHANNEL).into_iter().find(|message| {
                message.reply_to == Some(question) && local.button(message.id, BUTTON).is_some()
            })
        })
        .await;
    assert!(!failure.content.contains("Answer to"), "{}", failure.content);
    (question, failure)
}

async fn recover(installation: &Installation, arguments: &[&str]) -> (Ended, Vec<Value>) {
    let ended = installation.run(&[&["recover", "--json"][..], arguments].concat(), "").await;
    let rows = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", ended.stdout, ended.stderr));
    (ended, rows)
}

#[tokio::test]
async fn replies_lost_to_a_changed_agent_are_recovered_once_without_a_restart() {
    let local = LocalDiscord::start().await;
    let installation = with_agent(&local);
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "one");
    wait_for_answer(&local, "one").await;

    set_format(&installation, LATER);
    let (second, second_failure) = expect_failure(&local, "two").await;
    let (third, third_failure) = expect_failure(&local, "three").await;
    let stale = local.button(third_failure.id, BUTTON).unwrap();
    local.press(second_failure.id, BOB, BUTTON);
    local
        .wait_for_message(CHANNEL, |text| text.contains("No version of the backend can read"))
        .await;
    assert!(local.button(second_failure.id, BUTTON).is_some(), "a newer version may be installed");
    let (ended, rows) = recover(&installation, &["--dry-run"]).await;
    assert_eq!((ended.code, rows.len()), (1, 2), "{}", ended.stderr);
    assert!(
        rows.iter().all(
            |row| row["outcome"] == "unreadable" && row["lane"] == format!("channel:{CHANNEL}")
        ),
        "{rows:?}"
    );
    let doctor = installation.run(&["doctor", "--offline"], "").await.stdout;
    assert!(
        doctor.contains(
            "lost replies of gemini: 2 could not be read by any backend so far, 0 can be read"
        ),
        "{doctor}"
    );

    install(&installation, &built("gemini"));
    let notice =
        local.wait_for_message(OTHER, |text| text.contains("of the `gemini` backend (2@")).await;
    assert!(
        notice.content.contains("can now read 2 answers")
            && local.button(notice.id, "Deliver them").is_some(),
        "{}",
        notice.content
    );
    local.mention(CHANNEL, ANN, "four");
    wait_for_answer(&local, "four").await;

    local.press(second_failure.id, BOB, BUTTON);
    let reply = wait_for_answer(&local, "two").await;
    assert_eq!(reply.reply_to, Some(second));
    assert!(
        reply.content.contains("-# This reply could not be read at first. (recovered, "),
        "{}",
        reply.content
    );
    local
        .wait_for("the button to go", |local| {
            local.button(second_failure.id, BUTTON).is_none().then_some(())
        })
        .await;
    local
        .wait_for("the ledger", |_| {
            installation.read("state/lost.md").contains(" delivered at ").then_some(())
        })
        .await;
    let (ended, rows) = recover(&installation, &[]).await;
    assert_eq!((ended.code, rows.len()), (0, 1), "{rows:?} {}", ended.stderr);
    assert_eq!(rows[0]["outcome"], "delivered", "{rows:?}");
    assert_eq!(wait_for_answer(&local, "three").await.reply_to, Some(third));

    local
        .wait_for("the other button to go", |local| {
            local.buttons(third_failure.id).is_empty().then_some(())
        })
        .await;

    // Neither old buttons nor a kill deliver an answer twice.
    local.press_id(third_failure.id, ANN, &stale);
    local.wait_for_message(CHANNEL, |text| text == "This was delivered already.").await;
    local.press(notice.id, OWNER, "Deliver them");
    local.wait_for_message(OTHER, |text| text == "This is no longer available.").await;
    let ended = installation.run(&["recover"], "").await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "no reply is lost\n"));
    assert_eq!(local.logins().0, 1, "the gateway was not restarted");
    let address = bot.logs("status pages are open").await["address"].as_str().unwrap().to_owned();
    let metrics =
        reqwest::get(format!("http://{address}/metrics")).await.unwrap().text().await.unwrap();
    for outcome in ["lost", "delivered"] {
        let counted =
            format!("aetheel_lost_replies_total{{backend=\"gemini\",outcome=\"{outcome}\"}} 2");
        assert!(metrics.contains(&counted), "{counted}\n{metrics}");
    }
    bot.signal(Signal::KILL);
    bot.ended().await;
    let _next = serving(&installation).await;
    local.mention(CHANNEL, ANN, "five");
    wait_for_answer(&local, "five").await;
    for prompt in ["one", "two", "three", "four", "five"] {
        assert_eq!(answers_to(&local, prompt).len(), 1, "{prompt}: {:?}", local.texts(CHANNEL));
    }
    assert_eq!(installation.read("state/lost.md").matches(" delivered at ").count(), 2);
}

#[tokio::test]
async fn without_a_gateway_the_next_start_delivers_the_requested_replies() {
    let local = LocalDiscord::start().await;
    let installation = with_agent(&local);
    let mut bot = serving(&installation).await;
    set_format(&installation, LATER);
    let (question, _) = expect_failure(&local, "two").await;
    bot.signal(Signal::KILL);
    bot.ended().await;

    install(&installation, &built("gemini"));
    let (ended, rows) = recover(&installation, &[]).await;
    assert_eq!((ended.code, rows[0]["outcome"].as_str()), (0, Some("readable")), "{rows:?}");
    assert!(
        rows[0]["note"].as_str().is_some_and(|note| note.contains("the next start delivers it")),
        "{rows:?}"
    );
    assert!(rows[0]["text"].as_str().is_some_and(|text| text.starts_with("Answer to")), "{rows:?}");
    assert_eq!(answers_to(&local, "two").len(), 0);
    let _next = serving(&installation).await;
    assert_eq!(wait_for_answer(&local, "two").await.reply_to, Some(question));
    local
        .wait_for("the request to be done", |_| {
            installation.read("state/recover-request").is_empty().then_some(())
        })
        .await;
}

#[tokio::test]
async fn the_console_reports_when_a_newer_parser_can_read_a_lost_reply() {
    let local = LocalDiscord::start().await;
    let installation = with_agent(&local);
    set_format(&installation, LATER);
    let mut console = installation.start(&["console"]);
    console.type_in("one\n").await;
    console.tells("/recover delivers it once a newer backend can read it").await;
    install(&installation, &built("gemini"));
    console.tells("can now read 1 answer that was lost").await;
    assert!(console.stderr().contains("/recover delivers it"), "{}", console.stderr());
    console.type_in("/recover\n").await;
    console.prints("the reply", |text| text.contains("Answer to one.").then_some(())).await;
    console.end_input();
    assert_eq!(console.ended().await.code, 1, "the prompt itself was not answered");
}

#[tokio::test]
async fn a_recording_names_only_the_variables_that_its_backend_declares() {
    let local = LocalDiscord::start().await;
    let installation =
        with_agent(&local).with("PRIVATE_NAME", "1").with("AGENT_ENV", "PRIVATE_NAME");
    assert_eq!(installation.run(&["console"], "one\n").await.code, 0);
    let recordings: String = installation.recordings().into_values().collect();
    let lines = recordings.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let launched: Vec<Value> = lines.filter_map(|line| line.get("launch").cloned()).collect();
    assert!(!launched.is_empty(), "{recordings}");
    for launch in launched {
        let names: Vec<&str> =
            launch["environment"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(names.contains(&"GEMINI_API_KEY"), "{launch}");
        assert!(
            !names.iter().any(|name| ["PRIVATE_NAME", "HOME", "PATH", "LANG"].contains(name)),
            "{launch}"
        );
    }
}
