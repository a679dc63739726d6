//! Tests of words without spaces, right-to-left names, phones and large fonts.

use serde_json::json;

use super::{Desk, PAGES, with_rules};
use crate::support::chrome::Chrome;
use crate::support::discord::{CHANNEL, NOOR, OWNER};
use crate::support::program::Installation;

/// Returns text with a word that is wider than any line, right-to-left text, and an emoji of many
/// code points.
fn words() -> String {
    format!(
        "{} \u{645}\u{631}\u{62d}\u{628}\u{627} \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} {}",
        "x".repeat(300),
        "<&>\"".repeat(40)
    )
}

/// Fills the operator's own files with text that is as long.
fn with_long_files(installation: Installation) -> Installation {
    let words = words();
    let agents = format!(
        "## Cron Jobs\n\n### {}\n\n- expression: `0 9 1 1 *`\n- channel: <#{CHANNEL}>\n\n{words}\n\n## Hooks\n\n### startup\n\n- instruction: {words}\n",
        "y".repeat(90)
    );
    std::fs::write(installation.path("config/agents.md"), agents).unwrap();
    with_rules(installation)
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn nothing_is_wider_than_a_phone_or_a_page_at_four_times_zoom() {
    let desk = Desk::with(with_long_files).await;
    // At 200 % and 400 %, 1280 pixels become 640 and 320. The font size alone may also be doubled.
    for (letters, widths) in [(16, &[320, 640][..]), (32, &[640, 1280])] {
        let chrome = Chrome::with_font_size(letters).await;
        let base = desk.sign_in(&chrome, OWNER).await;
        if letters == 16 {
            for prompt in [format!("tool {}", words()), words()] {
                desk.local.mention(CHANNEL, NOOR, &prompt);
            }
            desk.local.wait_for_message(CHANNEL, |text| text.contains("You said: ")).await;
            desk.wait_and_reserve(&words()).await;
            desk.busy(&words()).await;
        }
        for page in PAGES {
            desk.show(&chrome, &base, page).await;
            for width in widths {
                chrome.view(*width, 800).await;
                let wider = "(() => {
                    const width = document.documentElement.clientWidth, right = (one) => one.getBoundingClientRect().right;
                    const found = [...document.querySelectorAll('body *')].filter((one) => right(one) > width + 1 && !one.closest('.wide table, header nav'));
                    return [document.documentElement.scrollWidth - width, found.map((one) => one.outerHTML.slice(0, 200))];
                })()";
                let found = chrome.eval(wider).await;
                let at = format!("{} at {width} with letters of {letters}", page.name);
                assert_eq!(found, json!([0, []]), "{at}");
            }
        }
    }
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn a_right_to_left_name_does_not_change_the_order_of_other_text() {
    let desk = Desk::open().await;
    let chrome = Chrome::start().await;
    desk.sign_in(&chrome, NOOR).await;
    desk.local.mention(CHANNEL, NOOR, "slow 600 \u{645}\u{631}\u{62d}\u{628}\u{627}");
    chrome.says("Second 1.").await;
    // From left to right: the person, the agent, and the time.
    let lefts = "(() => {
        const head = document.querySelector('.head'), walk = document.createTreeWalker(head, NodeFilter.SHOW_TEXT), found = [];
        while (walk.nextNode()) {
            const range = document.createRange();
            range.selectNodeContents(walk.currentNode);
            found.push([walk.currentNode.data, range.getBoundingClientRect().left]);
        }
        return found;
    })()";
    let found = chrome.eval(lefts).await;
    let parts = found.as_array().unwrap();
    assert!(parts.len() >= 5, "{found}");
    for pair in parts.windows(2) {
        let (left, right) = (pair[0][1].as_f64().unwrap(), pair[1][1].as_f64().unwrap());
        assert!(left < right, "{} is to the right of {} in {found}", pair[0][0], pair[1][0]);
    }
}
