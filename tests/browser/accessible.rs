//! Tests of accessibility with axe: WCAG 2.2, levels A and AA.

use serde_json::{Value, json};

use super::{Desk, MACHINE, PAGES, TURN, with_rules};
use crate::support::browser::link;
use crate::support::chrome::Chrome;
use crate::support::discord::{ANN, BOB, CHANNEL, OWNER};

const RULES: [&str; 6] = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa"];

/// Checks the current page in the light and the dark scheme.
async fn look(chrome: &Chrome, axe: &str, what: &str) {
    for scheme in ["light", "dark"] {
        chrome.scheme(scheme).await;
        chrome.eval(&format!("{axe}; true")).await;
        let options =
            json!({"runOnly": {"type": "tag", "values": RULES}, "resultTypes": ["violations"]});
        let found = chrome.eval(&format!("axe.run(document, {options})")).await;
        let passed = found["passes"].as_array().map_or(0, Vec::len);
        assert!(passed > 5, "{what}: axe checked nothing: {found}");
        let told: Vec<String> = found["violations"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|rule| rule["nodes"].as_array().unwrap().iter().map(move |node| (rule, node)))
            .map(|(rule, node)| {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                format!(
                    "{}: {}\n{}",
                    rule["id"],
                    text(&node["html"]),
                    text(&node["failureSummary"])
                )
            })
            .collect();
        assert!(told.is_empty(), "{what} in {scheme}:\n{}", told.join("\n"));
    }
}

fn axe() -> String {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/target/browser/node_modules/axe-core/axe.min.js");
    std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("{path}: {error}; run `make test-browser`"))
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn no_page_has_accessibility_problems_idle_busy_or_on_a_phone() {
    let axe = axe();
    let desk = Desk::with(|installation| {
        let agents = format!(
            "## Cron Jobs\n\n### yearly\n\n- expression: `0 9 1 1 *`\n- channel: <#{CHANNEL}>\n\ncount the sheep\n\n## Hooks\n\n### startup\n\n- instruction: say hello\n"
        );
        std::fs::write(installation.path("config/agents.md"), agents).unwrap();
        with_rules(installation)
    })
    .await;
    let chrome = Chrome::start().await;
    let base = desk.sign_in(&chrome, OWNER).await;
    desk.wait_and_reserve("look again").await;
    for prompt in ["plan", "think twice", "tool cargo test", "hello"] {
        desk.local.mention(CHANNEL, OWNER, prompt);
    }
    desk.local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
    for state in ["idle", "busy"] {
        if state == "busy" {
            desk.busy("cargo test").await;
        }
        for page in PAGES {
            desk.show(&chrome, &base, page).await;
            if page.name == "now" && state == "busy" {
                chrome.says("Second").await;
            }
            look(&chrome, &axe, &format!("{} {state}", page.name)).await;
            chrome.view(320, 800).await;
            look(&chrome, &axe, &format!("{} {state} on a phone", page.name)).await;
            chrome.view(1280, 800).await;
        }
    }
    // A turn with many parts, all unfolded, and a link that shares it.
    desk.find(&chrome, &format!("{base}/turns?q=worked"), TURN).await;
    chrome.click(TURN).await;
    chrome
        .eval("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        .await;
    look(&chrome, &axe, "an unfolded transcript").await;
    chrome.click("form[action$='/share'] button").await;
    chrome.says("This is the link").await;
    let link = "document.querySelector('.said').innerText.split(' ').pop()";
    let link = chrome.eval(link).await.as_str().unwrap().to_owned();
    look(&chrome, &axe, "a transcript with a link").await;
    chrome.open(&link).await;
    chrome.says("This is a read-only copy.").await;
    look(&chrome, &axe, "a shared turn").await;
    // The last step of a recorded turn, with its messages.
    desk.find(&chrome, &format!("{base}/turns"), TURN).await;
    chrome.click(TURN).await;
    chrome.click(MACHINE).await;
    chrome.click(".steps a[rel=last]").await;
    chrome.says("Messages in Discord").await;
    look(&chrome, &axe, "the last step").await;
    // A page with a message, and without some entries of the menu.
    chrome.open(&base).await;
    chrome.click("button.stop").await;
    chrome.says("Stopped.").await;
    look(&chrome, &axe, "what is said").await;
    let chrome = Chrome::start().await;
    desk.sign_in(&chrome, BOB).await;
    // This person's view of other people's turns has no such link.
    for page in PAGES.iter().filter(|page| page.name != "machine") {
        desk.show(&chrome, &base, page).await;
        let text = chrome.text().await;
        assert_eq!(text.contains("There is no such page."), page.of_owners, "{}", page.name);
        look(&chrome, &axe, &format!("{} of somebody who owns nothing", page.name)).await;
    }
}

#[tokio::test]
#[ignore = "needs Chromium: make test-browser"]
async fn pages_before_the_sign_in_have_no_accessibility_problems() {
    let axe = axe();
    let desk = Desk::open().await;
    let chrome = Chrome::start().await;
    let link = link(&desk.local, CHANNEL, ANN).await;
    let base = link.split_once("/enter/").unwrap().0.to_owned();
    for path in ["/", "/nowhere", "/enter/0123"] {
        chrome.open(&format!("{base}{path}")).await;
        look(&chrome, &axe, path).await;
    }
    chrome.open(&link).await;
    look(&chrome, &axe, "the way in").await;
    chrome.click("main button").await;
    chrome.click(".leave button").await;
    chrome.says("You are signed out").await;
    look(&chrome, &axe, "the way out").await;
}
