//! Read-only links to turns: their content, their readers and their expiry.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{
    VIEW_CHANNEL, entries_with_secrets, event, status_text, text, turn_record, write_recording,
    write_records,
};
use crate::gateway::dashboard::{serving, with_dashboard};
use crate::support::browser::{Browser, Page, address};
use crate::support::discord::{ANN, BOB, CHANNEL, Fault, LocalDiscord, OTHER, OWNER};
use crate::support::program::{Installation, Program};

const TURN: &str = "/turns/aaaa0001";

/// Returns an installation with a turn that has ended.
fn with_turn(local: &LocalDiscord) -> Installation {
    let installation = with_dashboard(local);
    write_records(&installation, &[turn_record("aaaa0001", CHANNEL, 5, "x")]);
    let mut entries = entries_with_secrets();
    entries.push(text(&format!(
        "Ask <@{ANN}> in <#{CHANNEL}> or ann@example.com, see /home/ann/notes.txt and {OTHER}."
    )));
    entries.push(event(json!({"text": {"part": 1, "text": "helping", "parent": "a"}})));
    write_recording(&installation, "aaaa0001", "[ann]: please, says bob@example.com", &entries);
    installation
}

/// Makes a link to [`TURN`] and returns its path.
async fn make_link(browser: &Browser, span: &str) -> String {
    make_link_to(browser, TURN, span).await
}

/// Makes a link to a turn and returns its path.
async fn make_link_to(browser: &Browser, turn: &str, span: &str) -> String {
    let csrf = browser.get(turn).await.field("csrf");
    let sent = browser.post(&format!("{turn}/share"), &[("csrf", &csrf), ("span", span)]).await;
    assert_eq!((sent.status, sent.header("location")), (303, turn), "{sent:?}");
    let said = status_text(&browser.get(turn).await);
    let (_, key) = said.split_once("/shared/").unwrap_or_else(|| panic!("no link: {said}"));
    assert!(key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
    format!("/shared/{key}")
}

async fn signed_out_browser(bot: &Program) -> Browser {
    Browser::new(&format!("http://{}", address(bot).await))
}

/// Panics if a page differs from the page of an unknown link.
fn assert_unknown(page: &Page, unknown: &Page) {
    assert_eq!((page.status, &page.body), (404, &unknown.body));
}

#[tokio::test]
async fn a_link_shows_less_than_the_channel_and_works_until_it_is_ended() {
    let local = LocalDiscord::start().await;
    let installation = with_turn(&local);
    let mut bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let link = make_link(&ann, "day").await;
    let notice = local
        .wait_for_message(CHANNEL, |text| {
            text.contains("made a read-only link to the turn aaaa0001, until ")
        })
        .await;
    assert!(notice.content.starts_with("-# 🖥️ ann made"), "{}", notice.content);

    let outside = signed_out_browser(&bot).await;
    let unknown = outside.get(&format!("/shared/{}", "0".repeat(64))).await;
    let page = outside.get(&link).await;
    assert_eq!((page.status, page.header("x-robots-tag")), (200, "noindex, nofollow"));
    assert!(page.body.contains("name=\"robots\"") && page.header("set-cookie").is_empty());
    for shown in [
        "[Somebody]: please, says (e-mail address)",
        "I begin.",
        "I end.",
        "Edit",
        "leap",
        "Denied: not today",
        "Ask @somebody in #somewhere or (e-mail address), see ~/notes.txt and (id).",
    ] {
        assert!(page.body.contains(shown), "{shown}: {}", page.body);
    }
    let hidden = [
        "secretly thinking",
        "the input",
        "the output",
        "+new",
        "src/lib.rs",
        "make all",
        "Run it?",
        "helping",
        "ann@",
        "/home/ann",
        "[ann]",
        "#general",
        "$0.25",
        "1200 in",
        "csrf",
        "Sign out",
        "the system prompt",
        "href=\"/turns",
    ];
    for block in 0..12 {
        let part = outside.get(&format!("{link}/part/{block}")).await;
        for word in hidden {
            assert!(
                !page.body.contains(word) && !part.body.contains(word),
                "{word}: {}",
                page.body
            );
        }
        for id in [ANN, CHANNEL, OTHER] {
            assert!(!page.body.contains(&id.to_string()) && !part.body.contains(&id.to_string()));
        }
    }
    assert_eq!(outside.get(&format!("{link}/part/prompt")).await.status, 200);
    for path in ["/", "/turns", TURN] {
        assert_eq!(outside.get(path).await.status, 401, "a link gives access to nothing else");
    }
    let changed = link.replace(&link[8..12], if &link[8..12] == "0000" { "1111" } else { "0000" });
    assert_unknown(&outside.get(&changed).await, &unknown);

    // The link survives a restart, but its secret is not stored.
    let state = installation.path("config/state/shares.md");
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o600);
    let key = &link["/shared/".len()..];
    for (file, bytes) in installation.everything() {
        let found = bytes.windows(key.len()).any(|window| window == key.as_bytes());
        assert!(!found, "the secret is in {}", file.display());
    }
    assert!(
        !bot.stderr().contains(key) && !local.texts(CHANNEL).iter().any(|text| text.contains(key))
    );
    bot.signal(rustix::process::Signal::TERM);
    bot.ended().await;
    let bot = serving(&installation).await;
    let outside = signed_out_browser(&bot).await;
    assert_eq!(outside.get(&link).await.status, 200);

    // Every user who may write in the channel can end the link.
    let bob = Browser::signed_in(&local, CHANNEL, BOB).await;
    let page = bob.get(TURN).await;
    assert!(page.body.contains("A link by ann, valid until"), "{}", page.body);
    let (csrf, share) = (page.field("csrf"), page.field("share"));
    let form = [("csrf", csrf.as_str()), ("share", &share)];
    bob.post(&format!("{TURN}/unshare"), &form).await;
    assert_eq!(status_text(&bob.get(TURN).await), "That link is no longer valid.");
    assert_unknown(&outside.get(&link).await, &unknown);
    assert_unknown(&outside.get(&format!("{link}/part/1")).await, &unknown);
    local.wait_for_message(CHANNEL, |text| text.contains("bob ended a read-only link")).await;
    bob.post(&format!("{TURN}/unshare"), &form).await;
    assert_eq!(status_text(&bob.get(TURN).await), "That link is no longer valid.");
}

#[tokio::test]
async fn links_end_when_their_creator_loses_access_the_recording_is_gone_or_they_are_revoked() {
    let local = LocalDiscord::start().await;
    let installation = with_turn(&local).with("ALLOWED_USERS", &format!("{ANN},{BOB},{OWNER}"));
    let bot = serving(&installation).await;
    let outside = signed_out_browser(&bot).await;
    let unknown = outside.get("/shared/none").await;
    let ann = Browser::signed_in(&local, OTHER, ANN).await;
    let bob = Browser::signed_in(&local, OTHER, BOB).await;
    let (first, second, bobs) = (
        make_link(&ann, "hour").await,
        make_link(&ann, "week").await,
        make_link(&bob, "day").await,
    );
    for link in [&first, &second, &bobs] {
        assert_eq!(outside.get(link).await.status, 200);
    }
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(500));
    local.faults().deny(CHANNEL, BOB, VIEW_CHANNEL);
    while outside.get(&bobs).await.status == 200 {
        looks.tick().await;
    }
    bot.logs_where("the end of the link", |line| {
        line["message"]
            .as_str()
            .is_some_and(|text| text.contains("the creator of a link cannot see its turn"))
    })
    .await;
    local.faults().deny(CHANNEL, BOB, 0);
    assert_unknown(&outside.get(&bobs).await, &unknown);
    assert_eq!(outside.get(&first).await.status, 200, "the link of another user still works");

    let answer = local.answer_to(local.slash(OTHER, ANN, "dashboard", Some("revoke"))).await;
    assert!(answer.content.starts_with("Done"), "{}", answer.content);
    assert_unknown(&outside.get(&first).await, &unknown);
    assert_unknown(&outside.get(&second).await, &unknown);

    let ann = Browser::signed_in(&local, OTHER, ANN).await;
    let link = make_link(&ann, "hour").await;
    assert_eq!(outside.get(&link).await.status, 200);
    // While Discord cannot confirm the creator's permissions, the link shows nothing, but it stays
    // valid.
    local.faults().away(true);
    while outside.get(&link).await.status == 200 {
        looks.tick().await;
    }
    assert_unknown(&outside.get(&link).await, &unknown);
    local.faults().away(false);
    while outside.get(&link).await.status != 200 {
        looks.tick().await;
    }

    let recording = installation.path("recordings/2026-11-23/aaaa0001.jsonl");
    let text = fs::read(&recording).unwrap();
    fs::remove_file(&recording).unwrap();
    assert_unknown(&outside.get(&link).await, &unknown);
    fs::write(&recording, text).unwrap();
    assert_unknown(&outside.get(&link).await, &unknown);
}

#[tokio::test]
async fn a_link_expires_and_an_operator_can_disable_links() {
    let local = LocalDiscord::start().await;
    let installation = with_turn(&local);
    let mut bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let link = make_link(&ann, "hour").await;
    let unknown = signed_out_browser(&bot).await.get("/shared/none").await;
    bot.signal(rustix::process::Signal::TERM);
    bot.ended().await;

    // As if the hour had passed.
    let state = installation.path("config/state/shares.md");
    let kept = fs::read_to_string(&state).unwrap();
    let until = kept.split("until `").nth(1).unwrap().split('`').next().unwrap();
    fs::write(&state, kept.replace(until, "2026-01-01T00:00:00Z")).unwrap();
    let mut bot = serving(&installation).await;
    assert_unknown(&signed_out_browser(&bot).await.get(&link).await, &unknown);
    bot.signal(rustix::process::Signal::TERM);
    bot.ended().await;

    fs::write(&state, &kept).unwrap();
    let installation = installation.with("DASHBOARD_SHARING", "off");
    let bot = serving(&installation).await;
    assert_unknown(&signed_out_browser(&bot).await.get(&link).await, &unknown);
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let page = ann.get(TURN).await;
    assert!(!page.body.contains("Make a read-only link"), "{}", page.body);
    let csrf = page.field("csrf");
    ann.post(&format!("{TURN}/share"), &[("csrf", &csrf), ("span", "day")]).await;
    assert_eq!(status_text(&ann.get(TURN).await), "Turns cannot be shared here.");
}

#[tokio::test]
async fn a_third_request_with_a_link_waits_for_one_of_two() {
    const SLOW: Duration = Duration::from_secs(2);
    const OTHER_TURN: &str = "/turns/aaaa0002";
    let local = LocalDiscord::start().await;
    let installation = with_turn(&local);
    write_records(&installation, &[turn_record("aaaa0002", OTHER, 5, "y")]);
    write_recording(&installation, "aaaa0002", "[ann]: please", &entries_with_secrets());
    let mut bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let links = [make_link(&ann, "day").await, make_link_to(&ann, OTHER_TURN, "day").await];
    // Permissions are cached for a while, but not over a restart.
    bot.signal(rustix::process::Signal::TERM);
    bot.ended().await;
    let bot = serving(&installation).await;
    let outside = signed_out_browser(&bot).await;
    let lookups = |local: &LocalDiscord, channel: u64| {
        let path = format!("/channels/{channel}");
        let looks = local.requests();
        looks.iter().filter(|look| look.method == "GET" && look.path.ends_with(&path)).count()
    };
    let before = [CHANNEL, OTHER].map(|channel| lookups(&local, channel));
    for channel in [CHANNEL, OTHER] {
        let path = format!("/channels/{channel}");
        local.faults().next("GET", &path, Fault::Slow(SLOW), 20);
    }
    let began = Instant::now();
    let requests = links.map(|link| {
        let outside = outside.clone();
        tokio::spawn(async move { outside.get(&link).await.status })
    });
    let both = |local: &LocalDiscord| {
        let now = [CHANNEL, OTHER].map(|channel| lookups(local, channel));
        (now[0] > before[0] && now[1] > before[1]).then_some(())
    };
    local.wait_for("both lookups", both).await;
    assert_eq!(outside.get(&format!("/shared/{}", "0".repeat(64))).await.status, 404);
    assert!(began.elapsed() >= SLOW, "the request did not wait: {:?}", began.elapsed());
    local.faults().clear();
    for request in requests {
        assert_eq!(request.await.unwrap(), 200);
    }
}
