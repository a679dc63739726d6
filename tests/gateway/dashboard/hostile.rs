//! Attacks: other users' turns, forged cookies and forms, other hosts, and output that contains
//! HTML.

use reqwest::Method;

use super::{installed, serving, with_dashboard};
use crate::support::browser::{Browser, address, well_formed};
use crate::support::discord::{ANN, BOB, CHANNEL, DIRECT, LocalDiscord, OTHER, OWNER};

const VIEW_CHANNEL: u64 = 1 << 10;
const SEND_MESSAGES: u64 = 1 << 11;
const READ_MESSAGE_HISTORY: u64 = 1 << 16;

#[tokio::test]
async fn nobody_sees_or_stops_turns_of_channels_hidden_in_discord() {
    let local = LocalDiscord::start().await;
    let installation =
        with_dashboard(&local).with("ALLOWED_USERS", &format!("{ANN},{BOB},{OWNER}"));
    let bot = serving(&installation).await;
    // Bob may not see the channel. Direct messages are visible only to their user.
    local.faults().deny(CHANNEL, BOB, VIEW_CHANNEL);
    let (ann, bob) = (
        Browser::signed_in(&local, OTHER, ANN).await,
        Browser::signed_in(&local, OTHER, BOB).await,
    );
    let owner = Browser::signed_in(&local, OTHER, OWNER).await;
    let mut events = bob.follow().await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.say(DIRECT, ANN, "slow 601");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.wait_for_message(DIRECT, |text| text.contains("Second 1.")).await;
    let page = ann.get("/").await;
    assert!(page.body.contains("slow 600") && page.body.contains("slow 601"), "{}", page.body);
    let seen = owner.get("/").await.body;
    assert!(seen.contains("slow 600") && !seen.contains("slow 601"), "{seen}");
    let nothing = bob.get("/").await;
    assert!(nothing.body.contains("No turn is running or waiting"), "{}", nothing.body);

    // Returns the fields of Ann's page, but with another session's token.
    let fields = |csrf: &str, lane: &str| -> Vec<(String, String)> {
        let (_, card) = page.body.split_once(&format!("value=\"{lane}\"")).unwrap();
        let turn = card.split_once("name=\"turn\" value=\"").unwrap().1;
        let turn = turn.split('"').next().unwrap();
        [("csrf", csrf), ("lane", lane), ("turn", turn), ("words", "stop it")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    };
    let csrf = nothing.field("csrf");
    for lane in [format!("channel:{CHANNEL}"), format!("channel:{DIRECT}")] {
        for path in ["/turns/stop", "/turns/steer", "/questions/answer"] {
            let fields = fields(&csrf, &lane);
            let fields: Vec<_> = fields.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!(bob.post(path, &fields).await.status, 303);
            assert!(bob.get("/").await.body.contains("That turn is no longer running."));
        }
    }
    // A wrong lane does not give access to a turn in another lane.
    let mut wrong = fields(&csrf, &format!("channel:{CHANNEL}"));
    wrong[1].1 = format!("channel:{OTHER}");
    let wrong: Vec<_> = wrong.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    bob.post("/turns/stop", &wrong).await;
    assert!(bob.get("/").await.body.contains("That turn is no longer running."));
    assert!(!bot.stderr().contains("stopped a turn"), "{}", bot.stderr());
    assert!(!local.texts(CHANNEL).iter().any(|text| text.contains("stop it")));
    local.mention(OTHER, BOB, "slow 602");
    let seen = |html: &str| {
        assert!(!html.contains("slow 600") && !html.contains("slow 601"), "{html}");
        html.contains("slow 602")
    };
    events.wait("cards", seen).await;
    let turn = events.wait("turn", |html| html.contains("Second")).await;
    assert!(turn.contains("Second 1."), "only Bob's turn is streamed, from its beginning: {turn}");
}

#[tokio::test]
async fn readers_can_only_look_and_users_without_read_permission_see_nothing() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let _bot = serving(&installation).await;
    let (ann, bob) = (
        Browser::signed_in(&local, OTHER, ANN).await,
        Browser::signed_in(&local, OTHER, BOB).await,
    );
    local.faults().deny(CHANNEL, BOB, SEND_MESSAGES);
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let theirs = bob.get("/").await;
    assert!(theirs.body.contains("slow 600") && !theirs.body.contains("Stop this turn"));
    let page = ann.get("/").await;
    let (lane, turn, csrf) = (page.field("lane"), page.field("turn"), theirs.field("csrf"));
    let fields = [("csrf", csrf.as_str()), ("lane", &lane), ("turn", &turn), ("words", "x")];
    for path in ["/turns/stop", "/turns/steer"] {
        bob.post(path, &fields).await;
        assert!(bob.get("/").await.body.contains("You are not allowed to do that there."));
    }
    local.faults().deny(CHANNEL, BOB, READ_MESSAGE_HISTORY);
    let mut events = bob.follow().await;
    events.wait("cards", |html| !html.contains("slow 600")).await;
}

#[tokio::test]
async fn a_member_who_leaves_the_server_is_signed_out() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let bot = serving(&installation).await;
    let bob = Browser::signed_in(&local, CHANNEL, BOB).await;
    let mut events = bob.follow().await;
    events.wait("cards", |_| true).await;
    local.faults().remove_member(BOB);
    while let Some((name, _)) = events.next().await {
        assert!(name == "cards" || name == "over", "{name}");
    }
    bot.logs("a user can no longer use the bot, and is signed out of the dashboard").await;
    assert_eq!(bob.get("/").await.status, 401, "the session was removed");
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
}

#[tokio::test]
async fn while_discord_is_away_nothing_is_shown_and_nobody_is_signed_out() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let _bot = serving(&installation).await;
    let bob = Browser::signed_in(&local, CHANNEL, BOB).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let csrf = ann.get("/").await.field("csrf");
    assert_eq!(bob.get("/").await.status, 200);
    local.faults().away(true);
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(500));
    while bob.get("/").await.status == 200 {
        looks.tick().await;
    }
    assert_eq!(bob.get("/").await.status, 503);
    let left = ann.post("/leave", &[("csrf", &csrf)]).await;
    assert_eq!(left.status, 200, "signing out is still possible");
    local.faults().away(false);
    while bob.get("/").await.status == 503 {
        looks.tick().await;
    }
    assert_eq!(bob.get("/").await.status, 200);
}

#[tokio::test]
async fn forged_cookies_forms_and_hosts_are_refused() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let bot = serving(&installation).await;
    let base = format!("http://{}", address(&bot).await);
    let (ann, bob) = (
        Browser::signed_in(&local, CHANNEL, ANN).await,
        Browser::signed_in(&local, CHANNEL, BOB).await,
    );
    for cookie in ["aetheel-dashboard=", "aetheel-dashboard=x", "aetheel-dashboard=0000", "other=1"]
    {
        let mut forger = Browser::new(&base);
        forger.cookie = cookie.to_owned();
        assert_eq!(forger.get("/").await.status, 401, "{cookie}");
        assert_eq!(forger.request(Method::GET, "/live").send().await.unwrap().status(), 401);
    }
    let csrf = bob.get("/").await.field("csrf");
    for csrf in ["", "0", &csrf] {
        let refused = ann.post("/leave", &[("csrf", csrf)]).await;
        assert_eq!(refused.status, 403, "{csrf}");
    }
    let own = ann.get("/").await.field("csrf");
    let sent = |name: &'static str, value: &'static str| {
        ann.request(Method::POST, "/leave")
            .header(name, value)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("csrf={own}"))
            .send()
    };
    for (name, value, status) in [
        ("origin", "https://evil.example", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("host", "evil.example", 421),
        ("host", "127.0.0.1", 421),
    ] {
        assert_eq!(sent(name, value).await.unwrap().status().as_u16(), status, "{name}: {value}");
    }
    let evil =
        ann.request(Method::GET, "/").header("host", "evil.example:80").send().await.unwrap();
    assert_eq!(evil.status(), 421);
    let long = "x".repeat(70_000);
    let too_long = ann.post("/turns/steer", &[("csrf", &own), ("words", &long)]).await;
    assert_eq!(too_long.status, 400);
    assert_eq!(ann.get("/turns/stop").await.status, 405, "a GET request changes nothing");
    assert_eq!(ann.get("/nowhere").await.status, 404);
    assert_eq!(ann.get("/").await.status, 200, "she is still signed in");
    let mut open = Vec::new();
    for _ in 0..12 {
        open.push(ann.follow().await);
    }
    let one_more = ann.request(Method::GET, "/live").send().await.unwrap();
    assert_eq!(one_more.status(), 503, "the streams of a session are limited");
    drop(open);
    // Guessing links is rate limited, and valid links still work.
    let guesser = Browser::new(&base);
    let mut last = 0;
    for _ in 0..25 {
        last = guesser.post("/enter", &[("link", "0123")]).await.status;
    }
    assert_eq!(last, 429);
    Browser::signed_in(&local, CHANNEL, ANN).await;
}

#[tokio::test]
async fn texts_of_agents_and_users_are_escaped() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let _bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let mut events = ann.follow().await;
    let evil = "ask <script>alert(1)</script>\"'><img src=x onerror=alert(2)> \u{202e}";
    local.mention(CHANNEL, ANN, evil);
    let cards = events.wait("cards", |html| html.contains("alert(1)")).await;
    assert!(!cards.contains("<script") && !cards.contains("<img"), "{cards}");
    assert!(cards.contains("&lt;script&gt;") && !cards.contains('\u{202e}'), "{cards}");
    let page = ann.get("/").await;
    assert!(page.body.contains("&lt;script&gt;alert(1)"), "{}", page.body);
    well_formed(&page.body);
    ann.send("/turns/stop", &[]).await;
    local.mention(CHANNEL, ANN, "<b>bold</b> </div></article><script>");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: ")).await;
    assert_eq!(ann.get("/").await.status, 200);

    // A page stays small although the texts are long and numerous.
    local.mention(CHANNEL, ANN, "slow 600");
    events.wait("turn", |html| html.contains("Second 1.")).await;
    for number in 0..20 {
        local.mention(CHANNEL, ANN, &format!("{number} {}", "<&>\"".repeat(200)));
    }
    events.wait("cards", |html| html.contains("and 15 more")).await;
    assert!(ann.get("/").await.body.len() < 20_000);
}

#[tokio::test]
async fn users_refused_by_the_access_lists_get_no_link() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local)
        .with("DASHBOARD_ADDRESS", "127.0.0.1:0")
        .with("ALLOWED_USERS", &ANN.to_string());
    let _bot = serving(&installation).await;
    let answer = local.answer_to(local.slash(CHANNEL, BOB, "dashboard", None)).await;
    assert_eq!(answer.content, "You may not use me here.");
    let mut many = String::new();
    for _ in 0..11 {
        many = local.answer_to(local.slash(CHANNEL, ANN, "dashboard", None)).await.content;
    }
    assert!(many.starts_with("You asked for too many links. Ask again in "), "{many}");
}
