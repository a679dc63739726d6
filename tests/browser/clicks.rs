//! Tests of people who click twice, go back, or open a page in two tabs.

use std::time::Duration;

use super::Desk;
use crate::support::chrome::Chrome;
use crate::support::discord::{ANN, CHANNEL};

/// Longer than the time between two clicks, so that the first request is still pending.
const LATENCY: Duration = Duration::from_millis(400);

async fn clicks_twice_on_everything(chrome: Chrome) {
    let desk = Desk::open().await;
    desk.sign_in(&chrome, ANN).await;
    desk.local.mention(CHANNEL, ANN, "slow 600");
    desk.local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let base = chrome.eval("location.origin").await.as_str().unwrap().to_owned();
    chrome.open(&base).await;
    desk.local.faults().latency(LATENCY);
    chrome.click("textarea").await;
    chrome.type_in("only once").await;
    chrome.double_click("textarea + button").await;
    chrome.says("Sent to the agent.").await;
    chrome.double_click("button.stop").await;
    chrome.says("Stopped.").await;
    desk.local.wait_for_message(CHANNEL, |text| text == "-# 🖥️ ann stopped this turn.").await;
    // The running turn did not accept the message, so it is a prompt of its own.
    desk.local.wait_for_message(CHANNEL, |text| text.contains("You said: only once")).await;
    desk.local.mention(CHANNEL, ANN, "ask make");
    desk.asked(CHANNEL).await;
    chrome.open(&base).await;
    chrome.double_click("button[value=allow]").await;
    chrome.says("Answered.").await;
    desk.local.wait_for_message(CHANNEL, |text| text.ends_with("Done, this once.")).await;
    desk.local.wait_for_message(CHANNEL, |text| text.starts_with("-# 🖥️ ann answered")).await;
    // Another message, after which everything that was pending has arrived.
    desk.local.mention(CHANNEL, ANN, "goodbye");
    desk.local.wait_for_message(CHANNEL, |text| text.contains("You said: goodbye")).await;
    for part in ["> 💬 only once", "ann stopped this turn", "ann answered", "You said: only once"]
    {
        assert_eq!(desk.count_messages(part), 1, "{part}: {:?}", desk.local.texts(CHANNEL));
    }
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn a_double_click_has_the_effect_of_one() {
    clicks_twice_on_everything(Chrome::start().await).await;
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn a_double_click_has_the_effect_of_one_without_script() {
    clicks_twice_on_everything(Chrome::without_script().await).await;
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn going_back_in_the_browser_shows_the_current_state() {
    let desk = Desk::open().await;
    let chrome = Chrome::start().await;
    let base = desk.sign_in(&chrome, ANN).await;
    desk.local.mention(CHANNEL, ANN, "slow 600");
    chrome.says("Second 1.").await;
    chrome.open(&format!("{base}/channels")).await;
    desk.local.mention(CHANNEL, ANN, "and then this");
    chrome.back().await;
    chrome.says("and then this · ann").await;
    chrome.click("button.stop").await;
    chrome.says("Stopped.").await;
    desk.local.wait_for_message(CHANNEL, |text| text.contains("You said: and then")).await;
    chrome.back().await;
    chrome.says("No turn is running or waiting").await;
    let stop = "document.querySelector('button.stop') === null";
    assert_eq!(chrome.eval(stop).await, true, "{}", chrome.text().await);
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn a_question_answered_in_one_tab_disappears_in_the_other() {
    let desk = Desk::open().await;
    let chrome = Chrome::start().await;
    let base = desk.sign_in(&chrome, ANN).await;
    let first = chrome.here().await;
    desk.local.mention(CHANNEL, ANN, "ask make");
    chrome.says("Run `make`?").await;
    chrome.tab().await;
    chrome.open(&base).await;
    chrome.says("Run `make`?").await;
    chrome.click("button[value=deny]").await;
    chrome.says("Answered.").await;
    chrome.switch(&first).await;
    chrome.wait("document.querySelector('.question') === null").await;
    assert!(!chrome.text().await.contains("Answered."), "that message was sent in the other tab");
}
