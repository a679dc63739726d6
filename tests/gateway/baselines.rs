//! Baselines of an agent's usual output, recorded and used by the real program.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;

use super::drift::reader;
use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER};
use crate::support::guests::Wat;
use crate::support::program::{Installation, Program};

const ANSWER: &str = "Two files are in the folder.";
const SILENT: &str = "The agent finished without an answer.";

/// An installation of the backend `mini`, whose agent prints the content of the file `said`.
fn with_mini(local: &LocalDiscord) -> Installation {
    let installation = installed(local);
    let (folder, path) = (installation.path("bin"), installation.path("bin/mini"));
    fs::create_dir(&folder).unwrap();
    let said = installation.path("said").display().to_string();
    let script = format!("#!/bin/sh\n[ \"$1\" = --version ] && echo 1.0.0 && exit\ncat '{said}'\n");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    reader("1.0.0", None).accepted_in(&installation.path("config"));
    installation
        .with("PATH", &format!("{}:/usr/bin:/bin", folder.display()))
        .with("AGENT_READ", &said)
        .with("AGENT_BACKEND", "mini")
        .with("OUTPUT_CHANNEL_ID", &OTHER.to_string())
}

fn set_output(installation: &Installation, lines: &[&str]) {
    fs::write(installation.path("said"), lines.join("\n") + "\n").unwrap();
}

fn install(installation: &Installation, component: &Wat) {
    let new = installation.backend("mini").with_extension("new");
    fs::write(&new, component.build()).unwrap();
    fs::rename(new, installation.backend("mini")).unwrap();
}

/// Sends a prompt and waits for an answer that contains this text.
async fn expect_answer(local: &LocalDiscord, prompt: &str, part: &str) {
    let question = local.mention(CHANNEL, ANN, prompt);
    let answer = |local: &LocalDiscord| {
        let of = |message: &_| is_answer(message, question, part);
        local.messages(CHANNEL).iter().any(of).then_some(())
    };
    local.wait_for(&format!("the answer to {prompt}: {part}"), answer).await;
}

fn is_answer(message: &crate::support::discord::Message, question: u64, part: &str) -> bool {
    message.reply_to == Some(question) && message.content.contains(part)
}

async fn second_generation_serves(bot: &Program) {
    bot.logs_where("the next generation", |line| {
        line["message"] == "backend loaded"
            && line["generation"].as_str().is_some_and(|generation| generation.starts_with("2@"))
    })
    .await;
}

#[tokio::test]
async fn answers_that_a_component_drops_silently_are_reported_rolled_back_and_recoverable() {
    let local = LocalDiscord::start().await;
    let installation = with_mini(&local);
    // Too short for the detector of lost answers.
    set_output(&installation, &[r#"{"said":"ok"}"#]);
    install(&installation, &reader("1.0.0", Some("ok")));
    let bot = serving(&installation).await;
    for turn in 0..20 {
        expect_answer(&local, &format!("prompt {turn}"), "ok").await;
    }
    install(&installation, &reader("2.0.0", None));
    second_generation_serves(&bot).await;
    for prompt in ["one", "two", "three"] {
        expect_answer(&local, prompt, SILENT).await;
    }
    let notice =
        local.wait_for_message(OTHER, |text| text.contains("unlike all before")).await.content;
    let recording = notice.split("recording `").nth(1).unwrap().split('`').next().unwrap();
    assert!(installation.recordings().contains_key(recording), "{notice}");
    bot.logs("a backend read worse than its previous version and was rolled back").await;
    expect_answer(&local, "four", "ok").await;
    let lost = installation.read("state/lost.md");
    assert_eq!(lost.matches("`mini`").count(), 3, "all three can be recovered: {lost}");
}

#[tokio::test]
async fn text_in_the_baseline_is_not_a_lost_answer_after_a_restart() {
    const TIP: &str = r#"{"tip":{"text":"Press a key to go on."}}"#;
    let said = format!(r#"{{"said":"{ANSWER}"}}"#);
    let local = LocalDiscord::start().await;
    let installation = with_mini(&local);
    set_output(&installation, &[TIP, &said]);
    install(&installation, &reader("1.0.0", Some(ANSWER)));
    let mut bot = serving(&installation).await;
    for prompt in ["one", "two", "three"] {
        expect_answer(&local, prompt, ANSWER).await;
    }
    bot.signal(Signal::TERM);
    assert_eq!(bot.ended().await.code, 0);
    let saved = installation.read("state/baselines.md");
    assert!(saved.contains("`mini` agent `1.0.0`: 3 answered, 0 silent"), "{saved}");

    install(&installation, &reader("2.0.0", None));
    let _bot = serving(&installation).await;
    set_output(&installation, &[TIP]);
    expect_answer(&local, "only the tip", SILENT).await;
    set_output(&installation, &[TIP, &said]);
    expect_answer(&local, "the tip and an answer", "(unread, ").await;
}
