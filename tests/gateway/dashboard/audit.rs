//! The page of the audit log.

use std::fs;

use serde_json::json;

use super::{serving, with_dashboard};
use crate::support::browser::Browser;
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OWNER};

/// Returns a line with the form of an entry, whose hash is wrong.
fn line(number: u64, fields: &serde_json::Value) -> String {
    let mut text = json!({
        "number": number, "time": "2020-02-05T10:00:00Z", "kind": "turn-ended", "fields": fields,
    })
    .to_string();
    text.pop();
    format!("{text},\"hash\":\"{}\"}}\n", "0".repeat(64))
}

#[tokio::test]
async fn an_owner_filters_the_entries_and_checks_the_chain() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let _bot = serving(&installation).await;
    let olga = Browser::signed_in(&local, CHANNEL, OWNER).await;
    local.mention(CHANNEL, ANN, "the secret plan");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: the secret plan")).await;
    let lane = format!("channel:{CHANNEL}");
    let seen = async |query: &str| olga.get(&format!("/audit{query}")).await.body;
    let ended = format!("?kind=turn-ended&person=AN&lane={lane}");
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(100));
    while !seen(&ended).await.contains("<td>turn-ended</td>") {
        looks.tick().await;
    }
    let page = seen("").await;
    for part in ["<td>gateway-started</td>", "<td>prompt-accepted</td>", "<bdi>ann</bdi>", &lane] {
        assert!(page.contains(part), "{part} is missing in\n{page}");
    }
    assert!(!page.contains("secret plan"), "{page}");
    // The newest entry comes first.
    assert!(page.find("turn-ended</td>") < page.find("gateway-started</td>"), "{page}");
    let filtered = seen(&ended).await;
    assert!(!filtered.contains("<td>prompt-accepted</td>"), "{filtered}");
    assert!(filtered.contains("outcome: done"), "{filtered}");
    for nothing in ["?person=nobody", "?day=2001-01-01", "?lane=console", "?kind=nonsense"] {
        assert!(seen(nothing).await.contains("There are no such entries."), "{nothing}");
    }
    assert!(seen("?day=yesterday").await.contains("Write the day as in 2026-11-26."));

    assert!(page.contains("The chain was not checked here"), "{page}");
    let csrf = olga.get("/audit").await.field("csrf");
    // The same form within a second would count as a double click.
    let check = async |round: &str| {
        let fields = [("csrf", csrf.as_str()), ("round", round)];
        assert_eq!(olga.post("/audit/check", &fields).await.status, 303);
        while seen("").await.contains("The check is running") {
            tokio::task::yield_now().await;
        }
        seen("").await
    };
    let complete = check("1").await;
    assert!(complete.contains("✅ Complete, as of "), "{complete}");

    // Hostile texts in a file that somebody wrote, on several pages.
    let evil = "<script>alert(1)</script>\"'><img src=x> @everyone \u{202e}";
    let fields = json!({
        "lane": "channel:77", "name": evil, "person": evil, "outcome": evil.repeat(20),
        evil: evil, "sha256": "f".repeat(64),
    });
    let lines: String = (1..=45).map(|number| line(number, &fields)).collect();
    let folder = installation.path("config/state/audit");
    fs::write(folder.join("2020-02.jsonl"), lines + "torn\n").unwrap();
    let mut path = "?lane=channel:77&day=2020-02-05".to_owned();
    let mut rows = Vec::new();
    loop {
        let page = seen(&path).await;
        assert!(!page.contains("<script>alert") && !page.contains("<img"), "{page}");
        assert!(!page.contains('\u{202e}'), "{page}");
        assert!(!page.contains(&"f".repeat(13)), "{page}");
        rows.push(page.matches("<td>turn-ended</td>").count());
        if rows.len() == 1 {
            let torn = "state/audit/2020-02.jsonl, byte ";
            assert!(page.contains(torn) && page.contains("this line is not an entry"), "{page}");
        }
        let Some((before, _)) = page.split_once("\">Earlier entries</a>") else { break };
        let link = before.rsplit("href=\"/audit").next().unwrap().replace("&amp;", "&");
        assert!(link.contains("lane=channel%3A77"), "{link}");
        path = link;
    }
    assert_eq!(rows, [19, 20, 6]);
    let damaged = check("2").await;
    assert!(damaged.contains("⚠️ Damaged, as of "), "{damaged}");
    assert!(damaged.contains("state/audit/2020-02.jsonl line 1"), "{damaged}");
    assert!(damaged.contains("Next step: compare the file with a backup"), "{damaged}");

    // A file that cannot be read.
    fs::create_dir(folder.join("2020-01.jsonl")).unwrap();
    let unreadable = seen("?day=2020-01-05").await;
    assert!(unreadable.contains("2020-01.jsonl"), "{unreadable}");
    assert!(unreadable.contains("Next step: make its files readable"), "{unreadable}");
    let failed = check("3").await;
    assert!(failed.contains("failed: 2020-01.jsonl"), "{failed}");
}

#[tokio::test]
async fn the_audit_log_does_not_exist_for_others() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let page = ann.get("/").await;
    assert!(!page.body.contains("/audit"), "{}", page.body);
    assert_eq!(ann.get("/audit").await.status, 404);
    assert_eq!(ann.get("/audit?kind=turn-ended").await.status, 404);
    let csrf = page.field("csrf");
    assert_eq!(ann.post("/audit/check", &[("csrf", &csrf)]).await.status, 404);
    assert!(!bot.stderr().contains("had the audit log checked"), "{}", bot.stderr());
    let olga = Browser::signed_in(&local, CHANNEL, OWNER).await;
    assert_eq!(olga.post("/audit/check", &[("csrf", "0")]).await.status, 403);
    assert_eq!(olga.get("/audit/check").await.status, 405);
    let positions = ["x", "2026-13.0", "2026-01.-1", "2026-01.99999999999999999999", "2026-01.5"];
    for before in positions {
        assert_eq!(olga.get(&format!("/audit?before={before}")).await.status, 200, "{before}");
    }
}
