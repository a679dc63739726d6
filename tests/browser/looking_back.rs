//! Tests of finished turns: finding, reading, sharing, and stepping through them.

use super::{Desk, TURN};
use crate::support::chrome::{Chrome, ENTER};
use crate::support::discord::{ANN, CHANNEL, OWNER};

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn a_turn_is_found_and_read_and_shared_with_a_person_who_is_not_signed_in() {
    let desk = Desk::open().await;
    let chrome = Chrome::start().await;
    let base = desk.sign_in(&chrome, ANN).await;
    for prompt in ["tool cargo test", "hello"] {
        desk.local.mention(CHANNEL, ANN, prompt);
    }
    desk.local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
    desk.find(&chrome, &format!("{base}/turns"), TURN).await;
    chrome.click("#q").await;
    chrome.type_in("CARGO test").await;
    chrome.keys(&[ENTER]).await;
    chrome.wait("!document.querySelector('main').innerText.includes('hello')").await;
    chrome.click(TURN).await;
    chrome.says("One tool worked, one did not.").await;
    // Tools are folded.
    let output = "(not really run)";
    assert!(!chrome.text().await.contains(output));
    chrome.click("summary").await;
    chrome.says(output).await;

    chrome.click("form[action$='/share'] button").await;
    chrome.says("This is the link; it is shown only now: http").await;
    let said = chrome.eval("document.querySelector('.said').innerText").await;
    let link = said.as_str().unwrap().rsplit(' ').next().unwrap().to_owned();
    desk.local.wait_for_message(CHANNEL, |text| text.contains("ann made a read-only link")).await;
    let stranger = Chrome::start().await;
    stranger.open(&link).await;
    stranger.says("This is a read-only copy.").await;
    let shown = stranger.text().await;
    assert!(shown.contains("One tool worked") && !shown.contains("shell cargo"), "{shown}");
    assert_eq!(
        stranger.eval("document.querySelector('details, form')").await,
        serde_json::Value::Null
    );
    chrome.click("form[action$='/unshare'] button").await;
    chrome.says("That link is no longer valid.").await;
    stranger.open(&link).await;
    assert!(!stranger.text().await.contains("One tool worked"));
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn a_running_turn_grows_on_its_own_page_and_stays_there_after_its_end() {
    let desk = Desk::open().await;
    let chrome = Chrome::start().await;
    desk.sign_in(&chrome, ANN).await;
    desk.local.mention(CHANNEL, ANN, "slow 8");
    chrome.click(".card a[href^='/turns/']").await;
    chrome.says("Running: slow 8").await;
    chrome.eval("window.first = true").await;
    let seconds = "document.querySelector('.live').innerText";
    let before = chrome.eval(seconds).await;
    chrome.wait(&format!("{seconds} !== {before}")).await;
    assert_eq!(chrome.eval("window.first").await, true, "the page was reloaded");
    chrome.says("What happened").await;
    assert!(chrome.text().await.contains("Second 8. There."), "{}", chrome.text().await);
}

async fn steps_through(chrome: Chrome, keys: bool) {
    let desk = Desk::open().await;
    let base = desk.sign_in(&chrome, OWNER).await;
    desk.local.mention(CHANNEL, ANN, "tool cargo test");
    desk.local.wait_for_message(CHANNEL, |text| text.contains("One tool worked")).await;
    desk.find(&chrome, &format!("{base}/turns"), TURN).await;
    chrome.click(TURN).await;
    chrome.click("main a[href$='/machine']").await;
    let step = async || chrome.eval("document.querySelector('#at').innerText").await;
    assert_eq!(step().await, "1");
    chrome.says("Nothing yet.").await;
    for number in ["2", "3"] {
        if keys {
            chrome.keys(&["\u{e014}"]).await;
        } else {
            chrome.click(".steps a[rel=next]").await;
        }
        chrome.wait(&format!("document.querySelector('#at')?.innerText === '{number}'")).await;
    }
    if keys {
        chrome.keys(&["\u{e012}"]).await;
        chrome.wait("document.querySelector('#at')?.innerText === '2'").await;
        // In a text field, arrow keys move the cursor.
        chrome.click("#words").await;
        chrome.keys(&["\u{e014}"]).await;
        assert_eq!(step().await, "2");
    }
    chrome.click("#words").await;
    chrome.type_in("missing.txt").await;
    chrome.keys(&[ENTER]).await;
    chrome.wait("document.querySelector('main').innerText.includes('missing.txt') && location.search.includes('missing')").await;
    chrome.click(".steps a[rel=last]").await;
    chrome.says("One tool worked, one did not.").await;
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn an_owner_steps_through_a_recorded_turn_with_keys() {
    steps_through(Chrome::start().await, true).await;
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn an_owner_steps_through_a_recorded_turn_without_script() {
    steps_through(Chrome::without_script().await, false).await;
}
