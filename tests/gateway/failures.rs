//! Agents that fail: people learn the kind and an id, the operator finds the recording by it.

use serde_json::Value;

use super::{id_of, installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord};
use crate::support::program::Installation;

/// How a recorded turn ended.
async fn ending(local: &LocalDiscord, installation: &Installation, id: &str) -> String {
    local
        .wait_for("the end of the recording", |_| {
            let recording = installation.recordings().remove(id)?;
            let last: Value = serde_json::from_str(recording.lines().last()?).ok()?;
            last["ending"]["how"].as_str().map(str::to_owned)
        })
        .await
}

#[tokio::test]
async fn a_failure_is_one_short_line_with_kind_and_id_and_the_id_names_a_recording() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    let cases = [
        ("fail authentication", "The agent is not signed in, or its key was refused.", "authentication"),
        ("fail rate-limited", "The agent's service is limiting requests.", "rate limited"),
        ("crash", "The agent failed.", "agent failure"),
    ];
    for (prompt, sentence, kind) in cases {
        local.mention(CHANNEL, ANN, prompt);
        let told = local.wait_for_message(CHANNEL, |text| text.contains(sentence)).await;
        let id = id_of(&told.content, kind);
        assert_eq!(told.content, format!("I begin, and then\n⚠️ {sentence} ({kind}, {id})"));
        let ending = ending(&local, &installation, id).await;
        assert!(ending.starts_with("agent-failure: "), "{ending}");
        let logged = bot.logs_where("the turn's failure", |line| line["message"] == "turn failed" && line["turn"] == id).await;
        let detail = logged["detail"].as_str().unwrap();
        assert!(detail.contains("as asked") || detail.contains("on request"), "the operator learns more: {logged}");
    }
}

#[tokio::test]
async fn a_hanging_agent_is_stopped_at_the_time_limit_and_leaves_no_process() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("QUERY_TIMEOUT_MS", "1500");
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hang");
    let told = local.wait_for_message(CHANNEL, |text| text.contains("timed out")).await;
    let id = id_of(&told.content, "timeout");
    assert_eq!(told.content, format!("⚠️ Query timed out after 1.5 s. (timeout, {id})"));
    assert_eq!(ending(&local, &installation, id).await, "timed-out");
    assert_eq!(bot.agents(), []);
}

#[tokio::test]
async fn an_agent_that_ignores_signals_is_killed() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("QUERY_TIMEOUT_MS", "1000").with("STOP_GRACE_MS", "200");
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "stubborn");
    let told = local.wait_for_message(CHANNEL, |text| text.contains("timed out")).await;
    assert!(told.content.starts_with("I will not stop.\n⚠️ Query timed out after 1 s."), "{}", told.content);
    assert_eq!(bot.agents(), []);
}

#[tokio::test]
async fn a_session_the_agent_lost_is_said_and_forgotten() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("message 1")).await;
    std::fs::remove_dir_all(installation.path("workspace").join(".demo-agent")).unwrap();
    local.mention(CHANNEL, ANN, "hello?");
    let told = local.wait_for_message(CHANNEL, |text| text.contains("no longer knows this conversation")).await;
    id_of(&told.content, "session lost");
    local.mention(CHANNEL, ANN, "hello!");
    local.wait_for_message(CHANNEL, |text| text == "You said: hello!\n\nThis is message 1 of our conversation.").await;
}
