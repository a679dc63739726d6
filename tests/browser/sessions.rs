//! Tests of sessions that end, and of gateways that stop, while a page is open.

use rustix::process::Signal;

use super::Desk;
use crate::gateway::serving;
use crate::support::browser::address;
use crate::support::chrome::Chrome;
use crate::support::discord::{ANN, BOB, CHANNEL};

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn an_open_page_reports_that_its_session_was_revoked_or_its_user_lost_access() {
    let desk = Desk::open().await;
    let (chrome, bobs) = (Chrome::start().await, Chrome::start().await);
    desk.sign_in(&chrome, ANN).await;
    desk.sign_in(&bobs, BOB).await;
    desk.local.mention(CHANNEL, ANN, "slow 600");
    chrome.says("Second 1.").await;
    bobs.says("Second 1.").await;
    let revoke = desk.local.slash(CHANNEL, ANN, "dashboard", Some("revoke"));
    desk.local.answer_to(revoke).await;
    chrome.says("You are not signed in. Write /dashboard in Discord").await;
    assert!(bobs.text().await.contains("Second"), "Bob's page is still shown");
    desk.local.faults().remove_member(BOB);
    bobs.says("You are not signed in. Write /dashboard in Discord").await;
    assert!(!bobs.text().await.contains("Second"));
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn an_open_page_reports_a_stopped_gateway_and_continues_signed_in_when_it_returns() {
    let desk = Desk::open().await;
    let chrome = Chrome::start().await;
    desk.sign_in(&chrome, ANN).await;
    desk.local.mention(CHANNEL, ANN, "slow 600");
    chrome.says("Second 1.").await;
    let address = address(&desk.bot).await;
    desk.bot.signal(Signal::KILL);
    chrome.says("The gateway does not answer.").await;
    assert!(chrome.text().await.contains("Second 1."), "the last known state");
    let installation = desk.installation.with("DASHBOARD_ADDRESS", &address.to_string());
    let _bot = serving(&installation).await;
    chrome.wait("!document.body.innerText.includes('does not answer')").await;
    assert!(!chrome.text().await.contains("You are not signed in"));
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn a_page_retries_while_discord_does_not_answer() {
    let desk = Desk::open().await;
    let chrome = Chrome::start().await;
    desk.sign_in(&chrome, ANN).await;
    desk.local.mention(CHANNEL, ANN, "slow 600");
    chrome.says("Second 1.").await;
    desk.local.faults().away(true);
    chrome.says("This page is not updating at the moment").await;
    desk.local.faults().away(false);
    chrome.wait("!document.body.innerText.includes('is not updating')").await;
    let seconds = "document.querySelector('.live').innerText";
    let before = chrome.eval(seconds).await;
    chrome.wait(&format!("{seconds} !== {before}")).await;
}

/// More windows than the connections that a browser opens to one host.
const WINDOWS: usize = 8;

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn more_windows_than_browser_connections_are_updated_and_can_be_used() {
    let desk = Desk::open().await;
    let chrome = Chrome::start().await;
    let base = desk.sign_in(&chrome, ANN).await;
    desk.local.mention(CHANNEL, ANN, "slow 600");
    chrome.says("Second 1.").await;
    let mut windows = vec![chrome.here().await];
    for _ in 1..WINDOWS {
        let window = chrome.window().await;
        chrome.open(&base).await;
        chrome.says("Second 1.").await;
        windows.push(window);
    }
    // A page with live updates shows new text without being reloaded.
    let seconds = "document.querySelector('.live').innerText";
    for window in &windows {
        chrome.switch(window).await;
        assert_eq!(chrome.eval("document.hidden").await, false);
        let before = chrome.eval(seconds).await;
        chrome.wait(&format!("{seconds} !== {before}")).await;
    }
    // A click still reaches the gateway, in the last window as in the first.
    chrome.click("button.stop").await;
    chrome.says("Stopped.").await;
    chrome.switch(&windows[0]).await;
    chrome.wait("!document.body.innerText.includes('Running')").await;
}
