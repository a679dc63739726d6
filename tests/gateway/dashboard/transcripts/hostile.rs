//! Users who look for hidden turns, and agents and files whose texts contain HTML.

use serde_json::json;

use super::{
    VIEW_CHANNEL, entries_with_secrets, event, listed_turns, text, turn_record, write_recording,
    write_records,
};
use crate::gateway::dashboard::{serving, with_dashboard};
use crate::support::browser::Browser;
use crate::support::discord::{ANN, BOB, CHANNEL, DIRECT, LocalDiscord, OTHER, OWNER};

const SEND_MESSAGES: u64 = 1 << 11;
const SCRIPT: &str =
    "</div></pre><script>alert(1)</script><img src=x onerror=alert(2)>\" onload=\"alert(3)";

#[tokio::test]
async fn a_hidden_turn_looks_like_one_that_does_not_exist() {
    let local = LocalDiscord::start().await;
    let installation =
        with_dashboard(&local).with("ALLOWED_USERS", &format!("{ANN},{BOB},{OWNER}"));
    write_records(
        &installation,
        &[turn_record("aaaa0001", CHANNEL, 5, "x"), turn_record("aaaa0002", DIRECT, 4, "y")],
    );
    write_recording(&installation, "aaaa0001", "x", &entries_with_secrets());
    write_recording(&installation, "aaaa0002", "y", &entries_with_secrets());
    let bot = serving(&installation).await;
    local.faults().deny(CHANNEL, BOB, VIEW_CHANNEL);
    let bob = Browser::signed_in(&local, OTHER, BOB).await;
    let owner = Browser::signed_in(&local, OTHER, OWNER).await;
    let nothing = bob.get("/turns/bbbb9999").await;
    assert_eq!(nothing.status, 404);
    for turn in ["aaaa0001", "aaaa0002"] {
        for path in [
            format!("/turns/{turn}"),
            format!("/turns/{turn}/part/1"),
            format!("/turns/{turn}?from=3"),
        ] {
            let page = bob.get(&path).await;
            assert_eq!((page.status, &page.body), (404, &nothing.body), "{path}");
        }
    }
    assert_eq!(owner.get("/turns/aaaa0002").await.body, nothing.body, "only Ann sees it");
    assert!(listed_turns(&bob.get("/turns?q=answer").await).is_empty());
    let csrf = bob.get("/turns").await.field("csrf");
    for path in ["/turns/aaaa0001/share", "/turns/aaaa0001/unshare"] {
        let page = bob.post(path, &[("csrf", &csrf), ("span", "day"), ("share", "")]).await;
        assert_eq!((page.status, &page.body), (404, &nothing.body));
    }
    let stranger =
        Browser::new(&format!("http://{}", crate::support::browser::address(&bot).await));
    for path in ["/turns", "/turns/aaaa0001", "/turns/aaaa0001/part/1"] {
        assert_eq!(stranger.get(path).await.status, 401, "{path}");
    }
}

#[tokio::test]
async fn texts_of_agents_and_users_stay_text() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let mut hostile = turn_record("aaaa0001", CHANNEL, 5, SCRIPT);
    for name in ["name", "backend", "agent-version", "component"] {
        hostile[name] = json!(SCRIPT);
    }
    hostile["how"] = json!({"failed": SCRIPT});
    hostile["usage"]["models"] = json!([{"model": SCRIPT, "input": 1, "output": 1, "cached": 0, "cache-write": 0, "cost-usd": null}]);
    let mut bare = turn_record("aaaa0002", CHANNEL, 4, SCRIPT);
    bare["answered"] = json!(SCRIPT);
    bare.as_object_mut().unwrap().remove("recording");
    write_records(&installation, &[hostile, bare]);
    let tool = |kind: &str| json!({"id": "a", "parent": null, "kind": kind, "native-name": SCRIPT, "title": SCRIPT, "target": SCRIPT, "input": SCRIPT});
    let diffs = json!([
        {"path": SCRIPT, "change": "renamed", "old-path": SCRIPT, "old-text": SCRIPT, "new-text": format!("{SCRIPT}\n{SCRIPT}"), "unified": null},
        {"path": SCRIPT, "old-text": null, "new-text": null, "unified": format!("--- a\n+{SCRIPT}\n-{SCRIPT}")},
    ]);
    let entries = [
        text(SCRIPT),
        event(json!({"thinking": {"part": 0, "text": SCRIPT}})),
        event(json!({"text": {"part": 1, "text": SCRIPT, "parent": "a"}})),
        event(json!({"tool-start": tool("bash")})),
        event(json!({"tool-output": {"id": "a", "text": SCRIPT}})),
        event(
            json!({"tool-end": {"id": "a", "status": "ok", "output": null, "exit-code": null, "diffs": diffs}}),
        ),
        event(json!({"plan": [{"text": SCRIPT, "status": "done"}]})),
        event(
            json!({"task": {"id": "x", "kind": "agent", "title": SCRIPT, "status": "done", "tool": null, "background": false, "summary": SCRIPT}}),
        ),
        event(
            json!({"artifact": {"name": SCRIPT, "media-type": SCRIPT, "body": {"link": "javascript:alert(4)"}, "tool": null}}),
        ),
        event(json!({"notice": SCRIPT})),
        event(json!({"retry": {"kind": "other", "message": SCRIPT}})),
        json!({"out": {"ask": {"ask": 1, "session": 1, "turn": 1, "title": SCRIPT, "kind": {"permission": tool("bash")}, "always-label": SCRIPT, "diffs": diffs}}}),
        json!({"in": {"command": {"answer": {"ask": 1, "decision": {"deny": SCRIPT}}}}}),
        json!({"out": {"ask": {"ask": 2, "session": 1, "turn": 1, "title": SCRIPT, "kind": {"plan-approval": SCRIPT}, "always-label": null}}}),
        json!({"out": {"ask": {"ask": 4, "session": 1, "turn": 1, "title": SCRIPT, "kind": {"sign-in": SCRIPT}, "always-label": null}}}),
        json!({"cut": SCRIPT}),
        json!({"out": {"turn-done": {"session": 1, "turn": 1, "outcome": "completed", "text": null, "usage": null}}}),
        json!({"out": {"session-ready": {"session": 1, "native-id": SCRIPT, "model": SCRIPT, "title": SCRIPT}}}),
    ];
    write_recording(&installation, "aaaa0001", SCRIPT, &entries);
    let _bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    // `Browser` checks that every page is well-formed and has no inline scripts.
    let mut pages = vec![
        ann.get("/turns").await,
        ann.get(&format!("/turns?q={}", "%3Cscript%3E%22%27%3E")).await,
        ann.get("/turns/aaaa0001").await,
        ann.get("/turns/aaaa0002").await,
    ];
    for part in 0..12 {
        pages.push(ann.get(&format!("/turns/aaaa0001/part/{part}")).await);
    }
    pages.push(ann.get("/turns/aaaa0001/part/prompt").await);
    for page in &pages {
        assert!(!page.body.contains("<script>") && !page.body.contains("<img"), "{}", page.body);
    }
    assert!(pages[2].body.contains("&lt;script&gt;alert(1)"), "{}", pages[2].body);
}

#[tokio::test]
async fn no_address_and_no_record_can_read_files_outside_of_the_recordings() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let outside = installation.path("config/secret.jsonl");
    write_recording(&installation, "aaaa0001", "not for you", &entries_with_secrets());
    std::fs::rename(installation.path("recordings/2026-11-23/aaaa0001.jsonl"), &outside).unwrap();
    std::os::unix::fs::symlink(&outside, installation.path("recordings/2026-11-23/link.jsonl"))
        .unwrap();
    let absolute = outside.display().to_string();
    let names = [
        "../config/secret.jsonl",
        "2026-11-23/../../config/secret.jsonl",
        &absolute,
        "2026-11-23/link.jsonl",
    ];
    let lines = names.iter().enumerate().map(|(at, name)| {
        let mut line = turn_record("aaaa0001", CHANNEL, 20 - at as i64, "x");
        line["turn"] = json!(format!("cccc000{at}"));
        line["recording"] = json!(name);
        line
    });
    write_records(&installation, &lines.collect::<Vec<_>>());
    let _bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    for at in 0..names.len() {
        let page = ann.get(&format!("/turns/cccc000{at}")).await.body;
        assert!(page.contains("has an invalid name"), "{page}");
        assert!(!page.contains("not for you"), "{page}");
    }
    let long = "a".repeat(3_000);
    let strange = [
        "..%2f..%2fetc%2fpasswd",
        "aaaa0001%00",
        "cccc0000%0a",
        "*",
        "cccc0000%2fpart%2f0",
        &long,
        "%ff",
    ];
    for turn in strange {
        for path in
            [format!("/turns/{turn}"), format!("/turns/{turn}/part/0"), format!("/shared/{turn}")]
        {
            let page = ann.get(&path).await;
            assert!((400..500).contains(&page.status), "{path}: {}", page.status);
        }
    }
    for part in ["..", "-1", "99999999999999999999", "prompt%2f..", "0%00"] {
        assert!(ann.get(&format!("/turns/cccc0000/part/{part}")).await.status >= 400, "{part}");
    }
    for from in ["18446744073709551615", "-1", "x", "999"] {
        assert_eq!(ann.get(&format!("/turns/cccc0000?from={from}")).await.status, 200, "{from}");
    }
}

#[tokio::test]
async fn links_are_made_and_ended_only_by_valid_forms_of_permitted_users() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    write_records(&installation, &[turn_record("aaaa0001", CHANNEL, 5, "x")]);
    write_recording(&installation, "aaaa0001", "x", &entries_with_secrets());
    let _bot = serving(&installation).await;
    local.faults().deny(CHANNEL, BOB, SEND_MESSAGES);
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let bob = Browser::signed_in(&local, OTHER, BOB).await;
    let csrf = ann.get("/turns/aaaa0001").await.field("csrf");
    let share = "/turns/aaaa0001/share";
    for forged in ["", "0000", &bob.get("/turns").await.field("csrf")] {
        for path in [share, "/turns/aaaa0001/unshare"] {
            assert_eq!(ann.post(path, &[("csrf", forged), ("span", "day")]).await.status, 403);
        }
    }
    let elsewhere = ann
        .request(reqwest::Method::POST, share)
        .header("origin", "https://evil.example")
        .header("sec-fetch-site", "cross-site")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("csrf={csrf}&span=day"));
    assert_eq!(elsewhere.send().await.unwrap().status(), 403);
    assert_ne!(ann.get(share).await.status, 200, "a GET request makes no link");
    for span in ["", "year", "-1"] {
        ann.post(share, &[("csrf", &csrf), ("span", span)]).await;
        let page = ann.get("/turns/aaaa0001").await;
        assert_eq!(super::status_text(&page), "Choose how long the link is valid.");
    }
    let page = bob.get("/turns/aaaa0001").await;
    assert!(page.status == 200 && !page.body.contains("Make a read-only link"), "{}", page.body);
    let theirs = bob.get("/turns").await.field("csrf");
    bob.post(share, &[("csrf", &theirs), ("span", "day")]).await;
    assert_eq!(
        super::status_text(&bob.get("/turns/aaaa0001").await),
        "You are not allowed to do that there."
    );
    assert!(!installation.read("state/shares.md").contains("aaaa0001"));
    assert!(!local.texts(CHANNEL).iter().any(|text| text.contains("read-only")));
}
