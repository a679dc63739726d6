//! Hostile texts in the fields of waits, reserved files, later turns and audit entries: HTML,
//! characters that reorder text, line breaks and very long words. Also the buttons of these fields.

use std::fs;

use serde_json::json;

use super::{serving, with_dashboard};
use crate::support::browser::{Browser, well_formed};
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord, OTHER, OWNER};

const SEND_MESSAGES: u64 = 1 << 11;
const EVIL: &str = "</p></code><script>alert(1)</script>\"'><img%20src=x>\u{202e}\u{2067}&amp;";

/// Returns a hostile text for a state file, in which it is between backticks.
fn evil(with_breaks: bool) -> String {
    let breaks = if with_breaks { "%0A%0D%0A%09%1B[31m" } else { "" };
    let (long, text) = ("w".repeat(700), EVIL.replace(' ', "%20"));
    format!("{text}{breaks}{long}")
}

/// Checks that a page shows hostile texts as harmless, short text.
fn is_harmless(page: &str) {
    well_formed(page);
    assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
    for part in ["<script>alert", "<img", "\u{202e}", "\u{2067}", "\u{1b}", "[31m"] {
        assert!(!page.contains(part), "{part:?} in\n{page}");
    }
    assert!(!page.contains(&"w".repeat(301)), "{page}");
}

/// Returns the text that the next page shows about the last form.
async fn said(browser: &Browser) -> String {
    let page = browser.get("/channels").await.body;
    let said = page.split_once("role=\"status\">").unwrap_or_else(|| panic!("{page}")).1;
    said.split('<').next().unwrap().to_owned()
}

#[tokio::test]
async fn reserved_files_are_shown_harmless_and_released_by_people_of_the_channel() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let state = installation.path("config/state");
    fs::create_dir_all(&state).unwrap();
    let (text, path) = (evil(true), format!("src/{}", EVIL.replace("%20", "")));
    let directory = installation.path("workspace");
    let claim = format!(
        "- `c1` in `{}` lane `channel:{CHANNEL}` holder `lane` name `{text}` until `2999-01-01T00:00:00Z` reason `{text}` paths `{path}` `{}`.\n",
        directory.display(),
        "w".repeat(150),
    );
    fs::write(state.join("claims.md"), claim).unwrap();
    let bot = serving(&installation).await;
    local.faults().deny(CHANNEL, BOB, SEND_MESSAGES);
    let (ann, bob) = (
        Browser::signed_in(&local, OTHER, ANN).await,
        Browser::signed_in(&local, OTHER, BOB).await,
    );
    let (hers, theirs) = (ann.get("/").await.body, bob.get("/").await.body);
    for page in [&hers, &theirs] {
        assert!(page.contains("Reserved files"), "{page}");
        is_harmless(page);
    }
    assert!(hers.contains("/claims/release") && !theirs.contains("/claims/release"), "{theirs}");
    let lane = format!("channel:{CHANNEL}");
    let release = async |browser: &Browser, lane: &str, claim: &str| {
        let csrf = browser.get("/channels").await.field("csrf");
        let fields = [("csrf", csrf.as_str()), ("lane", lane), ("claim", claim)];
        assert_eq!(browser.post("/claims/release", &fields).await.status, 303);
        said(browser).await
    };
    assert_eq!(release(&bob, &lane, "c1").await, "You are not allowed to do that there.");
    for (lane, id) in [(lane.as_str(), EVIL), ("nonsense", "c1"), ("console", "c1")] {
        assert_eq!(release(&ann, lane, id).await, "That claim has ended.", "{lane} {id}");
    }
    assert!(!bot.stderr().contains("a user released reserved files"), "{}", bot.stderr());
    release(&ann, &lane, "c1").await;
    let did = "-# 🖥️ ann released reserved files.";
    local.wait_for_message(CHANNEL, |text| text == did).await;
    assert!(!ann.get("/").await.body.contains("Reserved files"));
}

#[tokio::test]
async fn names_of_budgets_and_waiting_prompts_are_shown_harmless() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let name = format!("x{}{}", EVIL.replace("%20", "/"), "w".repeat(700));
    let budgets = format!("## {name}\n- cap: 1 turns a day\n");
    fs::write(installation.path("config/budgets.md"), budgets).unwrap();
    let _bot = serving(&installation).await;
    let olga = Browser::signed_in(&local, OTHER, OWNER).await;
    local.mention(CHANNEL, ANN, "first");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: first")).await;
    let prompt = format!("{}\n\n{}", EVIL.replace("%20", " "), "w".repeat(700));
    local.mention(CHANNEL, ANN, &prompt);
    local.wait_for_message(CHANNEL, |text| text.contains("Your message waits")).await;
    let page = olga.get("/").await.body;
    assert!(page.contains("This conversation waits") && page.contains("Raise to"), "{page}");
    is_harmless(&page);
}

#[tokio::test]
async fn later_turns_and_audit_entries_are_shown_harmless() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let state = installation.path("config/state");
    fs::create_dir_all(&state).unwrap();
    let text = evil(true);
    let later = format!(
        "- `0123456789` lane `channel:{CHANNEL}` reminder next `2999-01-01T00:00:00Z` until `2999-01-02T00:00:00Z` naps 0 asker `-` parent `-` cron `{text}` zone `{text}` for `{text}` allowed `{text}` prompt `{text}`.\n"
    );
    fs::write(state.join("agent-schedules.md"), later).unwrap();
    let plain = EVIL.replace("%20", " ") + "\n\r\n\u{1b}[31m" + &"w".repeat(700);
    let entry = json!({
        "number": 1, "time": "2020-02-05T10:00:00Z", "kind": plain,
        "fields": {
            "lane": plain, "name": plain, "person": plain, "outcome": plain, "digest": plain,
            plain.as_str(): plain,
        },
    });
    let _bot = serving(&installation).await;
    let olga = Browser::signed_in(&local, OTHER, OWNER).await;
    let page = olga.get("/schedules").await.body;
    assert!(page.contains("<dt>Asked by</dt>") && page.contains("<dt>Prompt</dt>"), "{page}");
    is_harmless(&page);
    is_harmless(&olga.get(&format!("/channels/{CHANNEL}")).await.body);
    // Somebody wrote this file while the gateway runs. The hash is the last part of an entry.
    let entry = entry.to_string();
    let hash = "0".repeat(64);
    let entry = format!("{},\"hash\":\"{hash}\"}}", entry.strip_suffix('}').unwrap());
    fs::write(state.join("audit/2020-02.jsonl"), format!("{entry}\n{plain}\n")).unwrap();
    let page = olga.get("/audit?day=2020-02-05").await.body;
    assert!(page.contains("this line is not an entry"), "{page}");
    is_harmless(&page);
}
