//! Tests of people who use no mouse, and of people who write while the page changes.

use serde_json::{Value, json};

use super::Desk;
use crate::support::chrome::{Chrome, ENTER, SHIFT, TAB};
use crate::support::discord::{ANN, BOB, CHANNEL, OTHER};

/// Returns a selector for the focused element, and whether the element is visible.
const FOCUS: &str = "(() => {
    const at = document.activeElement, box = at.getBoundingClientRect(), style = getComputedStyle(at);
    const inside = box.width > 0 && box.left >= 0 && box.right <= innerWidth && box.top >= 0 && box.bottom <= innerHeight;
    return [at.tagName.toLowerCase() + '.' + at.className, at === document.body || inside && style.outlineStyle !== 'none'];
})()";

/// Presses Tab until an element with this selector has the focus. Every element on the way must be
/// visible.
async fn tab_to(chrome: &Chrome, wanted: &str) {
    let mut way = Vec::new();
    for _ in 0..40 {
        chrome.keys(&[TAB]).await;
        // A smooth scroll may still be in progress.
        let seen = chrome.wait(&format!("{FOCUS}[1] && {FOCUS}")).await;
        let name = seen[0].as_str().unwrap().to_owned();
        way.push(name.clone());
        if name == wanted {
            return;
        }
    }
    panic!("Tab never reaches {wanted}: {way:?}");
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn everything_can_be_reached_seen_and_done_with_the_keyboard() {
    let desk = Desk::open().await;
    let chrome = Chrome::start().await;
    let link = crate::support::browser::link(&desk.local, CHANNEL, ANN).await;
    chrome.open(&link).await;
    tab_to(&chrome, "button.main").await;
    chrome.keys(&[ENTER]).await;
    chrome.says("No turn is running or waiting").await;

    desk.local.mention(CHANNEL, ANN, "ask make");
    chrome.says("Run `make`?").await;
    tab_to(&chrome, "a.skip").await;
    chrome.keys(&[ENTER]).await;
    chrome.wait("document.activeElement.id === 'main'").await;
    chrome.keys(&[TAB]).await;
    chrome.wait("document.activeElement.closest('.card') !== null").await;
    let word = "document.activeElement.value";
    while chrome.eval(word).await != "allow" {
        tab_to(&chrome, "button.").await;
    }
    chrome.keys(&[ENTER]).await;
    chrome.says("Answered.").await;
    desk.local.wait_for_message(CHANNEL, |text| text.ends_with("Done, this once.")).await;

    desk.local.mention(CHANNEL, ANN, "slow 600");
    chrome.says("Second 1.").await;
    tab_to(&chrome, "button.stop").await;
    chrome.keys(&[SHIFT, TAB]).await;
    chrome.wait("document.activeElement.innerText === 'Send'").await;
    tab_to(&chrome, "button.stop").await;
    chrome.keys(&[ENTER]).await;
    chrome.says("Stopped.").await;
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn typed_text_and_focus_stay_while_the_page_changes() {
    let desk = Desk::open().await;
    let chrome = Chrome::start().await;
    desk.sign_in(&chrome, ANN).await;
    desk.local.mention(OTHER, ANN, "slow 600");
    desk.local.mention(CHANNEL, ANN, "slow 601");
    chrome.says("slow 601").await;
    let field = "[...document.querySelectorAll('.card')].find((card) => card.innerText.includes('slow 601')).querySelector('textarea')";
    chrome.eval(&format!("window.field = {field}, field.focus()")).await;
    chrome.type_in("half a ").await;
    chrome.eval("field.setSelectionRange(0, 4)").await;
    let here = "document.activeElement === field && field.isConnected && [field.value, field.selectionStart, field.selectionEnd]";
    // While somebody types, a turn ends and a question is inserted at the top.
    desk.local.mention(CHANNEL, BOB, "and then this");
    chrome.says("and then this · bob").await;
    assert_eq!(chrome.eval(here).await, json!(["half a ", 0, 4]));
    for _ in 0..2 {
        let seconds = "document.querySelector('.live').innerText";
        let before = chrome.eval(seconds).await;
        chrome.wait(&format!("{seconds} !== {before}")).await;
    }
    assert_eq!(chrome.eval(here).await, json!(["half a ", 0, 4]));
    desk.local.mention(crate::support::discord::THREAD, ANN, "ask make");
    chrome.says("Run `make`?").await;
    assert_eq!(chrome.eval(here).await, json!(["half a ", 0, 4]));
    chrome.eval("field.setSelectionRange(7, 7)").await;
    chrome.type_in("sentence").await;
    assert_eq!(chrome.eval("field.value").await, "half a sentence");

    // A button also keeps the focus.
    chrome.keys(&[TAB, TAB]).await;
    let on_stop = "document.activeElement.className";
    assert_eq!(chrome.eval(on_stop).await, "stop");
    desk.local.mention(CHANNEL, BOB, "and this too");
    chrome.says("and this too · bob").await;
    assert_eq!(chrome.eval(on_stop).await, "stop");

    // When a turn ends, text that somebody is typing is not lost.
    let stopped = desk.local.slash(CHANNEL, ANN, "stop", None);
    desk.local.answer_to(stopped).await;
    chrome.says("That turn is over. What you wrote was not sent: half a sentence").await;
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn the_scroll_position_stays_while_the_text_grows() {
    let desk = Desk::with(|installation| installation.with("DEMO_AGENT_DELAY_MS", "60")).await;
    let chrome = Chrome::start().await;
    chrome.view(320, 800).await;
    desk.sign_in(&chrome, ANN).await;
    desk.local.mention(CHANNEL, ANN, "long 1000000");
    let text = "document.querySelector('.text')";
    let grows = format!("{text}?.scrollHeight > {text}?.clientHeight + 200");
    chrome.wait(&grows).await;
    let end = format!("{text}.scrollTop + {text}.clientHeight >= {text}.scrollHeight - 8");
    assert_eq!(chrome.eval(&end).await, true, "the end is shown");
    chrome.eval(&format!("{text}.scrollTop = 40")).await;
    let now = async || chrome.eval(&format!("{text}.innerText")).await;
    for _ in 0..3 {
        let before = now().await;
        chrome.wait(&format!("{text}.innerText !== {before}")).await;
    }
    assert_eq!(chrome.eval(&format!("{text}.scrollTop")).await, Value::from(40));
    chrome.eval(&format!("{text}.scrollTop = {text}.scrollHeight")).await;
    let before = now().await;
    chrome.wait(&format!("{text}.innerText !== {before} && {end}")).await;
}
