//! Failing agents: users see the kind of the failure and an id, and the operator finds the
//! recording by the id.

use serde_json::Value;

use super::{id_of, installed, serving};
use crate::support::discord::{ANN, CHANNEL, Fault, LocalDiscord};
use crate::support::program::Installation;

/// Returns how a recorded turn ended.
async fn recorded_ending(local: &LocalDiscord, installation: &Installation, id: &str) -> String {
    local
        .wait_for("the end of the recording", |_| {
            let recording = installation.recordings().remove(id)?;
            recording.lines().find_map(|line| {
                let entry: Value = serde_json::from_str(line).ok()?;
                entry["ending"]["how"].as_str().map(str::to_owned)
            })
        })
        .await
}

#[tokio::test]
async fn a_failure_has_a_hint_for_the_user_and_an_unexpected_one_also_the_id_of_its_recording() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    let cases = [
        (
            "fail authentication",
            "The agent is not signed in, or its key was refused.",
            "authentication",
        ),
        ("crash", "The agent failed.", "agent failure"),
    ];
    for (prompt, sentence, kind) in cases {
        local.mention(CHANNEL, ANN, prompt);
        let failure = local.wait_for_message(CHANNEL, |text| text.contains(sentence)).await;
        let id = id_of(&failure.content, kind);
        assert!(
            failure.content.starts_with(&format!("I begin, and then\n⚠️ {sentence} ")),
            "{}",
            failure.content
        );
        assert!(failure.content.ends_with(&format!(" ({kind}, {id})")), "{}", failure.content);
        let ending = recorded_ending(&local, &installation, id).await;
        assert!(ending.starts_with("agent-failure: "), "{ending}");
        let logged = bot
            .logs_where("the turn's failure", |line| {
                line["message"] == "turn failed" && line["turn"] == id
            })
            .await;
        let detail = logged["detail"].as_str().unwrap();
        assert!(
            detail.contains("as asked") || detail.contains("on request"),
            "the log has details: {logged}"
        );
    }
    // This is not a defect, so the message contains only the advice.
    local.mention(CHANNEL, ANN, "fail rate-limited");
    let failure = local.wait_for_message(CHANNEL, |text| text.contains("limiting requests")).await;
    assert_eq!(
        failure.content,
        "I begin, and then\n⚠️ The agent's service is limiting requests. Please try again later."
    );
}

#[tokio::test]
async fn a_hanging_agent_is_stopped_at_the_time_limit_and_leaves_no_process() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("QUERY_TIMEOUT_MS", "1500");
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hang");
    let failure = local.wait_for_message(CHANNEL, |text| text.contains("timed out")).await;
    let id = id_of(&failure.content, "timeout");
    assert_eq!(
        failure.content,
        format!(
            "⚠️ Query timed out after 1.5 s, the limit here. Ask it to go on; the operator raises the limit with `QUERY_TIMEOUT_MS`. (timeout, {id})"
        )
    );
    assert_eq!(recorded_ending(&local, &installation, id).await, "timed-out");
    assert_eq!(bot.agents(), []);
}

#[tokio::test]
async fn an_agent_that_ignores_signals_is_killed() {
    let local = LocalDiscord::start().await;
    let installation =
        installed(&local).with("QUERY_TIMEOUT_MS", "1000").with("STOP_GRACE_MS", "200");
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "stubborn");
    let failure = local.wait_for_message(CHANNEL, |text| text.contains("timed out")).await;
    assert!(
        failure.content.starts_with("I will not stop.\n⚠️ Query timed out after 1 s,"),
        "{}",
        failure.content
    );
    assert_eq!(bot.agents(), []);
}

#[tokio::test]
async fn a_session_that_the_agent_lost_is_reported_and_forgotten() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("message 1")).await;
    std::fs::remove_dir_all(installation.path("workspace").join(".demo-agent")).unwrap();
    local.mention(CHANNEL, ANN, "hello?");
    local
        .wait_for_message(CHANNEL, |text| text.contains("no longer knows this conversation"))
        .await;
    local.mention(CHANNEL, ANN, "hello!");
    local
        .wait_for_message(CHANNEL, |text| {
            text == "You said: hello!\n\nThis is message 1 of our conversation."
        })
        .await;
}

#[tokio::test]
async fn an_answer_that_discord_refuses_is_logged_with_its_channel_and_length() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    local.faults().next("POST", "/messages", Fault::Refuse(403, 50013), 100);
    local.mention(CHANNEL, ANN, "hello");
    let logged = bot.logs("discord does not accept an answer now").await;
    let length = "You said: hello\n\nThis is message 1 of our conversation.".len();
    assert_eq!(
        (&logged["level"], &logged["channel"], &logged["length"]),
        (&"WARN".into(), &CHANNEL.into(), &length.into()),
        "{logged}"
    );
    // The next answer is posted after this one.
    local.mention(CHANNEL, ANN, "hello again");
    local.faults().clear();
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello again")).await;
    assert_eq!(local.texts(CHANNEL).len(), 2);
}

#[tokio::test]
async fn a_binding_corrupted_by_hand_is_reported_and_replaced_by_a_new_session() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "one");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: one")).await;
    let file = installation.path("config").join("state/sessions.md");
    let written = std::fs::read_to_string(&file).unwrap();
    let id = written.split("session `").nth(1).unwrap().split('`').next().unwrap().to_owned();

    // An id that no agent has given.
    std::fs::write(&file, written.replace(&id, "demo-from-nowhere")).unwrap();
    local.mention(CHANNEL, ANN, "two");
    let notice = local
        .wait_for_message(CHANNEL, |text| text.contains("no longer knows this conversation"))
        .await;
    assert!(notice.content.contains("Please ask again to start a new one."), "{}", notice.content);
    assert!(!installation.read("state/sessions.md").contains("demo-from-nowhere"));
    local.mention(CHANNEL, ANN, "three");
    local
        .wait_for_message(CHANNEL, |text| {
            text == "You said: three\n\nThis is message 1 of our conversation."
        })
        .await;

    // A line that cannot be parsed.
    let written = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, written.replace("session `", "session `--danger ../")).unwrap();
    local.mention(CHANNEL, ANN, "four");
    let answer = local.wait_for_message(CHANNEL, |text| text.starts_with("You said: four")).await;
    assert!(
        answer.content.contains("message 1 of our conversation")
            && answer.content.contains("could not be read"),
        "{}",
        answer.content
    );
    local.mention(CHANNEL, ANN, "five");
    let answer = local.wait_for_message(CHANNEL, |text| text.starts_with("You said: five")).await;
    assert_eq!(answer.content, "You said: five\n\nThis is message 2 of our conversation.");
}
