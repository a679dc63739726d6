//! Tests of the views for operators: conversations that wait, later turns of agents, reserved files
//! and the audit log, with a keyboard and without scripts.

use super::{Desk, WAITING, with_rules};
use crate::support::chrome::{Chrome, ENTER, TAB};
use crate::support::discord::{CHANNEL, LocalDiscord, OWNER};

/// Presses Tab until the focused element has this text or accessible name.
async fn tab_to(chrome: &Chrome, name: &str) {
    let focused = "(document.activeElement.ariaLabel || document.activeElement.innerText || document.activeElement.id)";
    for _ in 0..80 {
        chrome.keys(&[TAB]).await;
        if chrome.eval(focused).await.as_str().is_some_and(|text| text.starts_with(name)) {
            return;
        }
    }
    panic!("no {name} on {}", chrome.text().await);
}

async fn press(chrome: &Chrome, name: &str, says: &str) {
    tab_to(chrome, name).await;
    chrome.keys(&[ENTER]).await;
    chrome.says(says).await;
}

async fn decides_about_everything(chrome: Chrome) {
    let desk = Desk::with(with_rules).await;
    desk.wait_and_reserve("look <again>").await;
    let base = desk.sign_in(&chrome, OWNER).await;
    chrome.open(&base).await;
    chrome.says("The budget `demo` is used up").await;
    chrome.says("Reserved by ann in #general").await;
    press(&chrome, "Raise to 2 turns", "Done: Raise to 2 turns.").await;
    desk.local.wait_for_message(WAITING, |text| text.contains("You said: second")).await;
    chrome.open(&base).await;
    press(&chrome, "Release", "Released 1 claim").await;

    chrome.open(&format!("{base}/schedules")).await;
    chrome.says("look <again>").await;
    press(&chrome, "Remove: ", "Removed: the agent does not get this turn.").await;
    let removed = |local: &LocalDiscord| {
        let removed = "-# 🖥️ olga removed a later turn of the agent.";
        local.texts(CHANNEL).iter().any(|text| text == removed).then_some(())
    };
    desk.local.wait_for("the report", removed).await;

    chrome.open(&format!("{base}/audit")).await;
    chrome.says("gateway-started").await;
    press(&chrome, "Check the chain", "Complete, as of ").await;
    tab_to(&chrome, "person").await;
    chrome.type_in("olga").await;
    chrome.keys(&[ENTER]).await;
    // The form keeps the filter.
    let rows = "document.querySelector('table')?.innerText";
    let filtered = "location.search.includes('person=olga') && document.querySelector('#person')?.value === 'olga'";
    let rows = chrome.wait(&format!("{filtered} && {rows}")).await;
    let rows = rows.as_str().unwrap_or_default();
    assert!(rows.contains("remove-later-turn") && !rows.contains("gateway-started"), "{rows}");
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn operators_decide_about_everything_with_a_keyboard() {
    decides_about_everything(Chrome::start().await).await;
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn operators_decide_about_everything_without_script() {
    decides_about_everything(Chrome::without_script().await).await;
}
