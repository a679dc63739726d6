//! The start page: running and waiting turns, and the actions of users on them.

use std::time::Duration;

use super::{serving, with_dashboard};
use crate::support::browser::Browser;
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord, OTHER, OWNER};

#[tokio::test]
async fn everybody_who_may_see_a_turn_sees_it_grow() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let _bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let mut followers = Vec::new();
    for _ in 0..10 {
        followers.push(ann.follow().await);
    }
    local.mention(CHANNEL, ANN, "slow 600");
    for events in &mut followers {
        events.wait("cards", |html| html.contains("slow 600") && html.contains("#general")).await;
        events.wait("turn", |html| html.contains("Second 1.")).await;
        events.wait("turn", |html| html.contains("Second 2.")).await;
    }
    let page = ann.get("/").await;
    assert!(page.body.contains("Second 1.") && page.body.contains("Demo agent"), "{}", page.body);
    // Without the script, the page reloads only on request, so that typed text is not lost.
    assert!(!page.body.contains("http-equiv") && page.body.contains("href=\"?again\""));
    assert!(ann.get("/?again").await.body.contains("http-equiv=\"refresh\" content=\"5\""));
    local.mention(CHANNEL, BOB, "and then this");
    followers[0]
        .wait("cards", |html| html.contains("<bdi>and then this</bdi> · <bdi>bob</bdi>"))
        .await;

    assert_eq!(ann.send("/turns/stop", &[]).await, "Stopped.");
    local.wait_for_message(CHANNEL, |text| text == "-# 🖥️ ann stopped this turn.").await;
    followers[0].wait("cards", |html| !html.contains("slow 600")).await;
    local.wait_for_message(CHANNEL, |text| text.contains("You said: and then this")).await;
}

#[tokio::test]
async fn permitted_users_answer_a_question_and_discord_shows_who_did() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let _bot = serving(&installation).await;
    let (ann, bob) = (
        Browser::signed_in(&local, CHANNEL, ANN).await,
        Browser::signed_in(&local, CHANNEL, BOB).await,
    );
    let mut events = ann.follow().await;
    local.mention(CHANNEL, ANN, "ask make");
    events.wait("cards", |html| html.contains("Run `make`?") && html.contains("Deny")).await;
    let id = ann.get("/").await.field("question");
    let refused = bob.send("/questions/answer", &[("question", &id), ("word", "allow")]).await;
    assert!(refused.contains("may not answer this question"), "{refused}");
    let unknown = ann.send("/questions/answer", &[("question", &id), ("word", "rm")]).await;
    assert_eq!(unknown, "Choose one of the answers.");
    // A question that is answered early is never posted in Discord, so wait until it is there.
    let shown = |local: &LocalDiscord| {
        local.messages(CHANNEL).into_iter().find(|message| local.asks(message.id))
    };
    local.wait_for("the question", shown).await;
    let status = ann.send("/questions/answer", &[("question", &id), ("word", "allow")]).await;
    assert_eq!(status, "Answered.");
    local.wait_for_message(CHANNEL, |text| text.ends_with("✅ Allowed by ann")).await;
    local.wait_for_message(CHANNEL, |text| text == "Done, this once.").await;
    local
        .wait_for_message(CHANNEL, |text| {
            text.starts_with("-# 🖥️ ann answered") && text.ends_with(": allow.")
        })
        .await;

    local.mention(CHANNEL, ANN, "question");
    events.wait("cards", |html| html.contains("Which colour") && html.contains("Blue")).await;
    let id = ann.get("/").await.field("question");
    let one = [("question", id.as_str()), ("answer0", "teal")];
    let missing = ann.send("/questions/answer", &one).await;
    assert_eq!(missing, "Every question needs an answer.");
    let page = ann.get("/").await.body;
    let letters: Vec<&str> = page
        .split("name=\"answer1\" value=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let both = [("answer1", letters[0]), ("answer1", letters[2])];
    let status = ann.send("/questions/answer", &[&one[..], &both].concat()).await;
    assert_eq!(status, "Answered.");
    local
        .wait_for_message(CHANNEL, |text| {
            text.contains("You answered: colour teal; letters A and C.")
        })
        .await;
}

#[tokio::test]
async fn a_message_to_the_agent_is_posted_with_its_author_and_answered() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let _bot = serving(&installation).await;
    let olga = Browser::signed_in(&local, CHANNEL, OWNER).await;
    local.mention(CHANNEL, ANN, "slow 3");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    assert_eq!(
        olga.send("/turns/steer", &[("words", "  ")]).await,
        "Write what the agent should know."
    );
    let status = olga.send("/turns/steer", &[("words", "and **hurry** @everyone")]).await;
    assert_eq!(status, "Sent to the agent.");
    let quoted = local
        .wait_for_message(CHANNEL, |text| text.ends_with("\n-# 🖥️ olga in the dashboard"))
        .await;
    assert!(quoted.content.starts_with("> 💬 and \\*\\*hurry\\*\\*"), "{}", quoted.content);
    // The demo agent does not read messages while it works.
    let answer = local.wait_for_message(CHANNEL, |text| text.contains("You said: and ")).await;
    assert_eq!(answer.reply_to, Some(quoted.id));
}

#[tokio::test]
async fn a_form_sent_twice_is_processed_once_and_completely_even_if_the_browser_hangs_up() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let _bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let page = ann.get("/").await;
    let (csrf, lane, turn) = (page.field("csrf"), page.field("lane"), page.field("turn"));
    let own = [("csrf", csrf.as_str()), ("lane", &lane), ("turn", &turn)];
    // Discord executes requests at once and answers later.
    local.faults().latency(Duration::from_millis(500));
    let words = async |words: &str| {
        ann.post("/turns/steer", &[&own[..], &[("words", words)]].concat()).await.status
    };
    assert_eq!(tokio::join!(words("only once"), words("only once")), (303, 303));
    assert!(ann.get("/").await.body.contains("Sent to the agent."));
    // The browser hangs up when the message is in Discord but has not been passed to the agent.
    let hurried = |text: &str| text.starts_with("> 💬 hurry");
    tokio::select! {
        _ = words("hurry") => panic!("the request ended before the message appeared"),
        _ = local.wait_for_message(CHANNEL, hurried) => {}
    }
    assert_eq!(ann.send("/turns/stop", &[]).await, "Stopped.");
    for part in ["You said: only once", "You said: hurry"] {
        local.wait_for_message(CHANNEL, |text| text.contains(part)).await;
    }
    let texts = local.texts(CHANNEL);
    for part in ["> 💬 only once", "You said: only once", "> 💬 hurry", "You said: hurry"] {
        assert_eq!(texts.iter().filter(|text| text.contains(part)).count(), 1, "{part}: {texts:?}");
    }
}

#[tokio::test]
async fn reserved_files_are_shown_and_released_by_people_of_their_channel() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let bot = serving(&installation).await;
    let take = local.slash(CHANNEL, ANN, "claim", Some("paths:=src/<b>.rs"));
    local.answer_to(take).await;
    // Bob may not see the channel.
    local.faults().deny(CHANNEL, BOB, 1 << 10);
    let ann = Browser::signed_in(&local, OTHER, ANN).await;
    let bob = Browser::signed_in(&local, OTHER, BOB).await;
    let page = ann.get("/").await;
    assert!(page.body.contains("<code>src/&lt;b&gt;.rs</code>"), "{}", page.body);
    assert!(page.body.contains("Reserved by ann in #general for "), "{}", page.body);
    let hidden = bob.get("/").await;
    assert!(!hidden.body.contains("Reserved files"), "{}", hidden.body);
    let (claim, lane) = (page.field("claim"), format!("channel:{CHANNEL}"));
    let fields = |csrf: &str, lane: &str| {
        [("csrf", csrf.to_owned()), ("claim", claim.clone()), ("lane", lane.to_owned())]
    };
    for lane in [lane.clone(), format!("channel:{OTHER}")] {
        let sent = fields(&hidden.field("csrf"), &lane);
        let sent: Vec<_> = sent.iter().map(|(name, value)| (*name, value.as_str())).collect();
        bob.post("/claims/release", &sent).await;
        assert!(bob.get("/").await.body.contains("That claim has ended."));
    }
    assert!(ann.get("/").await.body.contains("Reserved files"));
    assert!(!bot.stderr().contains("released reserved files"), "{}", bot.stderr());
    let sent = fields(&page.field("csrf"), &lane);
    let sent: Vec<_> = sent.iter().map(|(name, value)| (*name, value.as_str())).collect();
    ann.post("/claims/release", &sent).await;
    assert!(ann.get("/").await.body.contains("Released 1 claim"));
    assert!(!ann.get("/").await.body.contains("Reserved files"));
    local.wait_for_message(CHANNEL, |text| text == "-# 🖥️ ann released reserved files.").await;
}
