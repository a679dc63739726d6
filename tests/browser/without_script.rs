//! Tests of people whose browser runs no scripts.

use super::Desk;
use crate::support::chrome::Chrome;
use crate::support::discord::{ANN, BOB, CHANNEL};

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn everything_works_without_script_and_a_page_reloads_only_on_request() {
    let desk = Desk::open().await;
    let chrome = Chrome::without_script().await;
    let base = desk.sign_in(&chrome, ANN).await;
    chrome.says("This page does not update. Reload it every 5 seconds.").await;
    desk.local.mention(CHANNEL, ANN, "slow 600");
    desk.local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    chrome.open(&base).await;
    chrome.says("Second 1.").await;
    let refreshes = "document.querySelector('meta[http-equiv=refresh]') !== null";
    assert_eq!(chrome.eval(refreshes).await, false, "typed text would be lost");

    chrome.click("noscript a").await;
    assert_eq!(chrome.eval(refreshes).await, true);
    let shown = chrome.eval("document.querySelector('.live').innerText").await;
    chrome
        .wait(&format!("document.querySelector('.live')?.innerText.length > {shown}.length"))
        .await;
    chrome.click("noscript a").await;
    assert_eq!(chrome.eval(refreshes).await, false);

    chrome.click("textarea").await;
    chrome.type_in("mind the gap").await;
    chrome.click("textarea + button").await;
    chrome.says("Sent to the agent.").await;
    chrome.click("button.stop").await;
    chrome.says("Stopped.").await;
    desk.local.wait_for_message(CHANNEL, |text| text.contains("You said: mind the gap")).await;

    desk.local.mention(CHANNEL, ANN, "question");
    desk.asked(CHANNEL).await;
    chrome.open(&base).await;
    chrome.click("input[name=answer0][type=text]").await;
    chrome.type_in("teal").await;
    chrome.click("input[id$='-1-2']").await;
    chrome.click(".question button.main").await;
    chrome.says("Answered.").await;
    let answer = "You answered: colour teal; letters C.";
    desk.local.wait_for_message(CHANNEL, |text| text.contains(answer)).await;

    desk.local.mention(CHANNEL, BOB, "hello");
    desk.local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
    chrome.open(&format!("{base}/channels")).await;
    chrome.click("main li a").await;
    chrome.click("#choose-Model option[value=echo]").await;
    chrome.click("#choose-Model + button").await;
    chrome.says("Model is Echo from now on.").await;
    chrome.click(".leave button").await;
    chrome.says("You are signed out on this device.").await;
}
