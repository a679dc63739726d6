//! Turns that agents asked for at later times, on the pages of schedules and of a channel.

use std::fs;

use super::{serving, with_dashboard};
use crate::support::browser::{Browser, Page};
use crate::support::discord::{ANN, BOB, CHANNEL, DIRECT, LocalDiscord, OTHER, OWNER};

const SEND_MESSAGES: u64 = 1 << 11;

/// Sends the removal of a turn, and returns the answer.
async fn remove(browser: &Browser, lane: &str, id: &str, from: &str) -> Page {
    let csrf = browser.get("/channels").await.field("csrf");
    let fields = [("csrf", csrf.as_str()), ("lane", lane), ("id", id), ("from", from)];
    browser.post("/schedules/remove", &fields).await
}

/// Returns the text that the next page shows about the last form.
async fn said(browser: &Browser) -> String {
    let page = browser.get("/channels").await.body;
    let said = page.split_once("role=\"status\">").unwrap_or_else(|| panic!("{page}")).1;
    said.split('<').next().unwrap().to_owned()
}

#[tokio::test]
async fn owners_and_people_of_the_channel_see_and_remove_later_turns() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let channels = format!("## channel {CHANNEL}\n\n- host-tools: all\n");
    fs::write(installation.path("config/channels.md"), channels).unwrap();
    let bot = serving(&installation).await;
    local.faults().deny(CHANNEL, BOB, SEND_MESSAGES);
    let (ann, bob, olga) = (
        Browser::signed_in(&local, OTHER, ANN).await,
        Browser::signed_in(&local, OTHER, BOB).await,
        Browser::signed_in(&local, OTHER, OWNER).await,
    );
    let none = olga.get("/schedules").await.body;
    assert!(none.contains("No agent asked for a later turn"), "{none}");
    let evil = "</dd><script>alert(1)</script> @everyone \u{202e}";
    let (long, call) = ("x".repeat(900), "aetheel_schedule");
    let input = serde_json::json!({"cron": "0 9 * * 1-5", "text": format!("{evil} {long}")});
    local.mention(CHANNEL, ANN, &format!("call {call} {input}"));
    let asked = |local: &LocalDiscord| {
        local.messages(CHANNEL).into_iter().find(|message| local.asks(message.id))
    };
    let question = local.wait_for("a question", asked).await;
    local.press(question.id, OWNER, "Allow");
    local.wait_for_message(CHANNEL, |text| text.contains("The tool returned")).await;

    let page = olga.get("/schedules").await;
    for part in [
        "#general</bdi>: schedule",
        "<code>0 9 * * 1-5</code> UTC, until ",
        "<dt>Asked by</dt><dd dir=\"auto\">ann</dd>",
        "<dt>Allowed by</dt><dd dir=\"auto\">olga</dd>",
        "&lt;script&gt;alert(1)",
    ] {
        assert!(page.body.contains(part), "{part} is missing in\n{}", page.body);
    }
    assert!(!page.body.contains("<script>alert") && !page.body.contains('\u{202e}'));
    assert!(!page.body.contains(&"x".repeat(300)));
    assert_eq!(ann.get("/schedules").await.status, 404);
    let path = format!("/channels/{CHANNEL}");
    let (hers, theirs) = (ann.get(&path).await, bob.get(&path).await.body);
    assert!(hers.body.contains("Later turns of agents"), "{}", hers.body);
    assert!(theirs.contains("Later turns of agents"), "{theirs}");
    assert!(!theirs.contains("/schedules/remove"), "{theirs}");

    let (id, lane) = (hers.field("id"), format!("channel:{CHANNEL}"));
    let sent = remove(&bob, &lane, &id, "schedules").await;
    assert_eq!((sent.status, sent.header("location")), (303, path.as_str()));
    assert_eq!(said(&bob).await, "You are not allowed to do that there.");
    for (lane, id) in [
        (format!("channel:{OTHER}"), id.as_str()),
        ("console".to_owned(), &id),
        ("nonsense".to_owned(), &id),
        (lane.clone(), "0000000000"),
    ] {
        remove(&ann, &lane, id, "channel").await;
        assert_eq!(said(&ann).await, "There is no such turn any more.", "{lane} {id}");
    }
    assert!(!bot.stderr().contains("removed a later turn"), "{}", bot.stderr());
    let sent = remove(&ann, &lane, &id, "channel").await;
    assert_eq!((sent.status, sent.header("location")), (303, path.as_str()));
    assert_eq!(said(&ann).await, "Removed: the agent does not get this turn.");
    local
        .wait_for_message(CHANNEL, |text| text == "-# 🖥️ ann removed a later turn of the agent.")
        .await;
    assert!(olga.get("/schedules").await.body.contains("No agent asked for a later turn"));
}

#[tokio::test]
async fn an_owner_removes_a_later_turn_on_the_page_of_schedules() {
    let local = LocalDiscord::start().await;
    let users = format!("{ANN},{OWNER}");
    let installation = with_dashboard(&local).with("ALLOWED_USERS", &users);
    let tools = |channel: u64| format!("## channel {channel}\n\n- host-tools: all\n\n");
    let channels = tools(CHANNEL) + &tools(DIRECT);
    fs::write(installation.path("config/channels.md"), channels).unwrap();
    let _bot = serving(&installation).await;
    let olga = Browser::signed_in(&local, OTHER, OWNER).await;
    local.mention(CHANNEL, ANN, r#"call aetheel_remind {"in":"2h","text":"look again"}"#);
    local.wait_for_message(CHANNEL, |text| text.contains("The tool returned")).await;
    let page = olga.get("/schedules").await;
    assert!(page.body.contains("#general</bdi>: reminder"), "{}", page.body);
    let lane = format!("channel:{CHANNEL}");
    let sent = remove(&olga, &lane, &page.field("id"), "schedules").await;
    assert_eq!((sent.status, sent.header("location")), (303, "/schedules"));
    assert_eq!(said(&olga).await, "Removed: the agent does not get this turn.");
    // Direct messages of others are only counted.
    local.say(DIRECT, ANN, r#"call aetheel_remind {"in":"3h","text":"look later"}"#);
    local.wait_for_message(DIRECT, |text| text.contains("The tool returned")).await;
    let page = olga.get("/schedules").await.body;
    assert!(page.contains("And 1 more, or in channels that you cannot see."), "{page}");
    assert!(!page.contains("look later"), "{page}");
}
