//! Tests of watching, stopping, steering and answering with a mouse.

use super::Desk;
use crate::support::chrome::Chrome;
use crate::support::discord::{ANN, BOB, CHANNEL};

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn a_turn_grows_without_a_reload_and_is_stopped_and_no_other_host_is_contacted() {
    let desk = Desk::open().await;
    let chrome = Chrome::start().await;
    let base = desk.sign_in(&chrome, ANN).await;
    chrome.says("No turn is running or waiting").await;
    chrome.eval("window.first = true").await;
    desk.local.mention(CHANNEL, ANN, "slow 600");
    chrome.says("slow 600").await;
    for second in ["Second 1.", "Second 2.", "Second 3."] {
        chrome.says(second).await;
    }
    assert_eq!(chrome.eval("window.first").await, true, "the page was reloaded");
    chrome.click("button.stop").await;
    chrome.says("Stopped.").await;
    desk.local.wait_for_message(CHANNEL, |text| text == "-# 🖥️ ann stopped this turn.").await;
    chrome.says("No turn is running or waiting").await;
    let asked = chrome.asked().await;
    assert!(asked.iter().any(|address| address.ends_with("/live")), "{asked:?}");
    for address in asked {
        assert!(address.starts_with(&format!("{base}/")), "another host was contacted: {address}");
    }
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn questions_are_answered_with_buttons_and_fields_and_discord_shows_the_person() {
    let desk = Desk::open().await;
    let chrome = Chrome::start().await;
    desk.sign_in(&chrome, ANN).await;
    desk.local.mention(CHANNEL, ANN, "ask make");
    chrome.says("Run `make`?").await;
    chrome.says("An agent asks something.").await;
    desk.asked(CHANNEL).await;
    chrome.click("button[value=allow]").await;
    chrome.says("Answered.").await;
    desk.local.wait_for_message(CHANNEL, |text| text.ends_with("✅ Allowed by ann")).await;
    desk.local.wait_for_message(CHANNEL, |text| text.ends_with("Done, this once.")).await;

    desk.local.mention(CHANNEL, ANN, "question");
    chrome.click(".question input[id$='-0-0']").await;
    chrome.click(".question input[id$='-1-1']").await;
    chrome.click(".question input[id$='-1-3']").await;
    // A selected option stays selected when the page changes.
    desk.local.mention(CHANNEL, BOB, "and then this");
    chrome.says("and then this · bob").await;
    chrome.click(".question button.main").await;
    chrome.says("Answered.").await;
    let answer = "You answered: colour Red; letters B and D.";
    desk.local.wait_for_message(CHANNEL, |text| text.contains(answer)).await;
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn a_message_to_a_running_agent_is_shown_in_discord() {
    let desk = Desk::open().await;
    let chrome = Chrome::start().await;
    desk.sign_in(&chrome, ANN).await;
    desk.local.mention(CHANNEL, BOB, "slow 600");
    chrome.click("textarea").await;
    chrome.type_in("mind the gap").await;
    chrome.click("textarea + button").await;
    chrome.says("Sent to the agent.").await;
    let quoted = |text: &str| text.starts_with("> 💬 mind the gap") && text.contains("ann");
    desk.local.wait_for_message(CHANNEL, quoted).await;
}
