//! The pages of channels: their content, and the settings that users choose there.

use super::{serving, with_dashboard};
use crate::support::browser::{Browser, Page};
use crate::support::discord::{ANN, BOB, CHANNEL, DIRECT, LocalDiscord, OTHER, OWNER, THREAD};

const VIEW_CHANNEL: u64 = 1 << 10;
const SEND_MESSAGES: u64 = 1 << 11;

/// Sends a form of a channel's page and returns the page that follows.
async fn submit(browser: &Browser, path: &str, channel: u64, fields: &[(&str, &str)]) -> Page {
    let csrf = browser.get("/channels").await.field("csrf");
    let channel = channel.to_string();
    let own = [("csrf", csrf.as_str()), ("channel", &channel)];
    let answer = browser.post(path, &[&own, fields].concat()).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    browser.get(answer.header("location")).await
}

#[tokio::test]
async fn choices_on_the_page_act_like_the_command_and_are_announced_in_the_channel() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
    let ann = Browser::signed_in(&local, OTHER, ANN).await;
    let list = ann.get("/channels").await;
    assert!(list.body.contains("#general") && list.body.contains("#other"), "{}", list.body);
    let page = ann.get(&format!("/channels/{CHANNEL}")).await;
    for part in ["#general", "Demo agent (demo)", "Model, now", "0 of 5 slots taken"] {
        assert!(page.body.contains(part), "{part} is missing in\n{}", page.body);
    }
    assert!(!page.body.contains("Directory"), "only owners see it");

    let mode = [("setting", "Model"), ("value", "echo")];
    let chosen = submit(&ann, "/channels/choose", CHANNEL, &mode).await;
    assert!(chosen.body.contains("Model is Echo from now on."), "{}", chosen.body);
    assert!(chosen.body.contains("<option value=\"echo\" selected>"), "{}", chosen.body);
    local
        .wait_for_message(CHANNEL, |text| text == "-# 🖥️ ann chose: Model is Echo from now on.")
        .await;
    let status = local.answer_to(local.slash(CHANNEL, ANN, "status", None)).await;
    assert!(status.content.contains("**Model:** Echo, chosen here"), "{}", status.content);

    let unknown = [("setting", "Backend"), ("value", "nobody")];
    let refused = submit(&ann, "/channels/choose", CHANNEL, &unknown).await;
    assert!(refused.body.contains("role=\"status\"") && !refused.body.contains("from now on"));
    let reset = submit(&ann, "/channels/reset", CHANNEL, &[]).await;
    assert!(reset.body.contains("begins a new conversation."), "{}", reset.body);
    local
        .wait_for_message(CHANNEL, |text| text == "-# 🖥️ ann began a new conversation here.")
        .await;
    local.mention(CHANNEL, ANN, "again");
    local
        .wait_for_message(CHANNEL, |text| text.contains("again") && text.contains("message 1 of"))
        .await;
    let owner = Browser::signed_in(&local, OTHER, OWNER).await;
    assert!(owner.get(&format!("/channels/{CHANNEL}")).await.body.contains("Directory"));
}

#[tokio::test]
async fn hidden_channels_do_not_exist_and_readers_cannot_choose() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let _bot = serving(&installation).await;
    for channel in [CHANNEL, THREAD] {
        local.mention(channel, ANN, "hello");
        local.wait_for_message(channel, |text| text.contains("You said: hello")).await;
    }
    // Threads inherit the permissions of their channel.
    local.faults().deny(CHANNEL, BOB, VIEW_CHANNEL);
    let bob = Browser::signed_in(&local, OTHER, BOB).await;
    let list = bob.get("/channels").await.body;
    assert!(list.contains("#other") && !list.contains("#general") && !list.contains("a thread"));
    for channel in [CHANNEL, THREAD, DIRECT, 12345] {
        assert_eq!(bob.get(&format!("/channels/{channel}")).await.status, 404, "{channel}");
        for path in ["/channels/choose", "/channels/reset"] {
            let choice = [("setting", "Model"), ("value", "echo")];
            let refused = submit(&bob, path, channel, &choice).await;
            assert!(refused.body.contains("This channel does not exist"), "{}", refused.body);
        }
    }
    local.faults().deny(OTHER, BOB, SEND_MESSAGES);
    let ann = Browser::signed_in(&local, OTHER, ANN).await;
    assert!(ann.get(&format!("/channels/{OTHER}")).await.body.contains("Choose"));
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(500));
    while bob.get(&format!("/channels/{OTHER}")).await.body.contains("Begin a new") {
        looks.tick().await;
    }
    let refused = submit(&bob, "/channels/reset", OTHER, &[]).await;
    assert!(refused.body.contains("You are not allowed to do that there."), "{}", refused.body);
}
