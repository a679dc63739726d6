//! Components are replaced while the program runs.

use std::fs;

use serde_json::Value;

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord};
use crate::support::program::{Installation, Program, built, rebuilt};

/// Replaces the backend's component atomically, as documented for operators.
fn replace(installation: &Installation, bytes: &[u8]) {
    let new = installation.backend("demo").with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::rename(new, installation.backend("demo")).unwrap();
}

/// Sends a prompt and returns the generation in the header of its recording.
async fn answering_generation(
    local: &LocalDiscord,
    installation: &Installation,
    prompt: &str,
) -> u64 {
    local.mention(CHANNEL, ANN, prompt);
    local
        .wait_for_message(CHANNEL, |text| text.starts_with(&format!("You said: {prompt}\n")))
        .await;
    local
        .wait_for("the recording", |_| {
            let recording = installation
                .recordings()
                .into_values()
                .find(|recording| recording.contains(prompt))?;
            serde_json::from_str::<Value>(recording.lines().next()?).ok()?["generation"].as_u64()
        })
        .await
}

fn load_count(bot: &Program) -> usize {
    bot.log().iter().filter(|line| line["message"] == "backend loaded").count()
}

#[tokio::test]
async fn a_replaced_component_serves_the_next_turn_while_a_running_turn_keeps_the_old_one() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    assert_eq!(answering_generation(&local, &installation, "first").await, 1);
    local.mention(CHANNEL, ANN, "slow 4");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;

    replace(&installation, &rebuilt(built("demo"), "second"));
    let line = bot
        .logs_where("the second generation", |line| {
            line["message"] == "backend loaded"
                && line["generation"]
                    .as_str()
                    .is_some_and(|generation| generation.starts_with("2@"))
        })
        .await;
    assert_eq!(line["backend"], "demo");
    local
        .wait_for_message(CHANNEL, |text| text == "Second 1. Second 2. Second 3. Second 4. There.")
        .await;
    assert_eq!(answering_generation(&local, &installation, "second").await, 2);
    // The new component resumes the session of the old one.
    local
        .wait_for_message(CHANNEL, |text| {
            text.starts_with("You said: second\n") && text.contains("message 3 of our conversation")
        })
        .await;
    let running = installation
        .recordings()
        .into_values()
        .find(|recording| recording.contains("slow 4"))
        .unwrap();
    assert!(running.lines().next().unwrap().contains("\"generation\":1"), "{running}");
}

#[tokio::test]
async fn a_truncated_component_is_refused_with_a_reason_and_the_old_one_serves() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    let whole = built("demo");
    replace(&installation, &whole[..whole.len() / 2]);
    let line = bot.logs("backend file ").await;
    let message = line["message"].as_str().unwrap();
    assert!(
        message.contains("hint: ") && line["path"].as_str().unwrap().ends_with("demo.wasm"),
        "{line}"
    );
    assert!(line["serving"].as_str().is_some_and(|serving| serving.contains("demo")), "{line}");
    assert_eq!(answering_generation(&local, &installation, "still there").await, 1);

    replace(&installation, &rebuilt(whole, "mended"));
    bot.logs_where("the mended one", |line| {
        line["message"] == "backend loaded"
            && line["generation"].as_str().is_some_and(|generation| generation.starts_with("2@"))
    })
    .await;
    assert_eq!(answering_generation(&local, &installation, "mended").await, 2);
}

#[tokio::test]
async fn replacing_a_component_with_the_same_bytes_does_not_reload_it() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    replace(&installation, &built("demo"));
    // The second backend shows that the loader has checked the folder since.
    fs::write(installation.backend("claude"), built("claude")).unwrap();
    bot.logs_where("the other backend", |line| {
        line["message"] == "backend loaded" && line["backend"] == "claude"
    })
    .await;
    assert_eq!(load_count(&bot), 2);
    assert_eq!(answering_generation(&local, &installation, "unchanged").await, 1);
}
