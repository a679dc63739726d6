//! Conversations that wait for the end of a usage limit or at the cap of a budget.

use std::fs;

use super::{installed, serving, with_dashboard};
use crate::gateway::limits::{LIMITS, printed, with_agent};
use crate::support::browser::Browser;
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord, OTHER, OWNER};

const SEND_MESSAGES: u64 = 1 << 11;
const VIEW_CHANNEL: u64 = 1 << 10;

/// Returns the value of the button with a label.
fn button(page: &str, label: &str) -> String {
    let (before, _) = page
        .split_once(&format!("\"><bdi>{label}</bdi></button>"))
        .unwrap_or_else(|| panic!("no button {label}\n{page}"));
    before.rsplit("value=\"").next().unwrap().to_owned()
}

/// Sends a decision, and returns the text that the page shows afterwards.
async fn decide(browser: &Browser, lane: &str, offer: &str) -> String {
    decide_again(browser, lane, offer, "1").await
}

/// Sends a decision as [`decide`] does. `round` tells it apart from the same form, which would count
/// as a double click.
async fn decide_again(browser: &Browser, lane: &str, offer: &str, round: &str) -> String {
    let csrf = browser.get("/").await.field("csrf");
    let fields = [("csrf", csrf.as_str()), ("lane", lane), ("offer", offer), ("round", round)];
    let sent = browser.post("/waits/decide", &fields).await;
    assert_eq!((sent.status, sent.header("location")), (303, "/"), "{sent:?}");
    let page = browser.get("/").await.body;
    let said = page.split_once("role=\"status\">").unwrap_or_else(|| panic!("{page}")).1;
    said.split('<').next().unwrap().to_owned()
}

#[tokio::test]
async fn people_of_the_channel_end_the_wait_for_a_limit_and_others_do_not() {
    let (backend, limit, answer, text, replacement) = LIMITS[0];
    let refused = printed(backend, limit).replace(text, replacement);
    let local = LocalDiscord::start().await;
    let installation =
        with_agent(installed(&local), (backend, 10_800), &refused, &printed(backend, answer))
            .with("AGENT_BACKEND", backend)
            .with("DASHBOARD_ADDRESS", "127.0.0.1:0");
    let bot = serving(&installation).await;
    local.faults().deny(CHANNEL, BOB, SEND_MESSAGES);
    let ann = Browser::signed_in(&local, OTHER, ANN).await;
    let bob = Browser::signed_in(&local, OTHER, BOB).await;
    let mut events = ann.follow().await;
    local.mention(CHANNEL, ANN, "hello <script>");
    let cards = events.wait("cards", |html| html.contains("has reached a usage limit")).await;
    assert!(cards.contains("Try now") && cards.contains("hello &lt;script&gt;"), "{cards}");
    let page = ann.get("/").await.body;
    assert!(page.contains("has reached a usage limit (Claude, 5 hours)."), "{page}");
    assert!(page.contains("#general") && page.contains("Prompts have waited since "), "{page}");
    let lane = format!("channel:{CHANNEL}");
    let (try_now, cancel) = (button(&page, "Try now"), button(&page, "Cancel"));

    // Bob can read the channel, but not write there.
    let theirs = bob.get("/").await.body;
    assert!(theirs.contains("usage limit") && !theirs.contains("Try now"), "{theirs}");
    let refusal = decide(&bob, &lane, &try_now).await;
    assert_eq!(refusal, "You are not allowed to do that there.");
    // He may write elsewhere, but the decision belongs to its own channel.
    let gone = "This conversation no longer waits, or it waits for something else.";
    for (lane, offer) in [
        (format!("channel:{OTHER}"), try_now.as_str()),
        ("console".to_owned(), &try_now),
        ("nonsense".to_owned(), &try_now),
        (lane.clone(), "lm-0-0-now"),
        (lane.clone(), ""),
    ] {
        assert_eq!(decide(&bob, &lane, offer).await, gone, "{lane} {offer}");
    }
    local.faults().deny(CHANNEL, BOB, VIEW_CHANNEL);
    let mut hidden = bob.follow().await;
    hidden.wait("cards", |html| !html.contains("usage limit")).await;
    assert_eq!(decide(&bob, &lane, &cancel).await, gone);
    // A form of another session has no effect.
    let forged = [("csrf", "0"), ("lane", lane.as_str()), ("offer", &cancel)];
    assert_eq!(ann.post("/waits/decide", &forged).await.status, 403);
    assert!(!bot.stderr().contains("a user decided about a lane"), "{}", bot.stderr());

    assert_eq!(decide(&ann, &lane, &try_now).await, "Done: Try now.");
    let did = "-# 🖥️ ann chose \"Try now\" for the prompts that wait.";
    local.wait_for_message(CHANNEL, |text| text == did).await;
    let later = || fs::read_to_string(installation.path("workspace/runs/later")).ok();
    assert_eq!(local.wait_for("the second run", |_| later()).await, "again\n");
    events.wait("cards", |html| !html.contains("usage limit")).await;
    assert_eq!(decide_again(&ann, &lane, &try_now, "2").await, gone, "a second press");
}

#[tokio::test]
async fn only_owners_raise_a_budget_for_prompts_that_wait() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let budgets = "## team\n- cap: 1 turns a day\n";
    fs::write(installation.path("config/budgets.md"), budgets).unwrap();
    let _bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, OTHER, ANN).await;
    let olga = Browser::signed_in(&local, OTHER, OWNER).await;
    local.mention(CHANNEL, ANN, "first");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: first")).await;
    local.mention(CHANNEL, ANN, "second");
    local.wait_for_message(CHANNEL, |text| text.contains("Your message waits")).await;
    let theirs = ann.get("/").await.body;
    assert!(theirs.contains("The budget `team` is used up"), "{theirs}");
    assert!(theirs.contains("An owner can raise the budget."), "{theirs}");
    assert!(!theirs.contains("/waits/decide"), "{theirs}");
    let page = olga.get("/").await.body;
    let (raise, lane) = (button(&page, "Raise to 2 turns"), format!("channel:{CHANNEL}"));
    let refusal = decide(&ann, &lane, &raise).await;
    assert_eq!(refusal, "You are not allowed to do that there.");
    assert_eq!(decide(&olga, &lane, &raise).await, "Done: Raise to 2 turns.");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: second")).await;
}
