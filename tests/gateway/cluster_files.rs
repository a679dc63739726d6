//! Files of a directory that the machines of a cluster share.

use std::fs;
use std::time::Duration;

use super::cluster::{connected, node, node_of};
use super::serving;
use crate::support::browser::Browser;
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord, OTHER};
use crate::support::postgres::Postgres;
use crate::support::program::LIMIT;

const SEND_MESSAGES: u64 = 1 << 11;

#[tokio::test]
async fn a_claim_in_a_shared_directory_is_known_on_the_other_machine() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let shared = tempfile::tempdir().unwrap();
    let root = shared.path().canonicalize().unwrap().display().to_string();
    let machine = |name: &str, label: &str| {
        let node = node(&local, &postgres, name);
        let node = node.with("NODE_LABELS", label).with("PROJECT_ROOTS", &root);
        let channels = format!(
            "## project site\n- directory: {root}\n- shared-directory: yes\n\n## channel {CHANNEL}\n- project: site\n- node: gpu\n\n## channel {OTHER}\n- project: site\n- node: cpu\n"
        );
        fs::write(node.path("config/channels.md"), channels).unwrap();
        node
    };
    let (one, two) = (machine("one", "cpu"), machine("two", "gpu"));
    let _first = connected(&one).await;
    let _second = serving(&two).await;
    let claim = async |channel, user, value: Option<&str>| {
        local.answer_to(local.slash(channel, user, "claim", value)).await.content
    };
    let taken = claim(CHANNEL, ANN, Some("paths:=a.rs")).await;
    assert!(taken.starts_with("Reserved for "), "{taken}");
    assert_eq!(node_of(&postgres, CHANNEL), "two");
    let known = async {
        while !claim(OTHER, BOB, None).await.contains("by ann, in another conversation") {}
    };
    tokio::time::timeout(Duration::from_secs(60), known).await.expect("the claim is known");
    assert_eq!(node_of(&postgres, OTHER), "one");
    let refused = claim(OTHER, BOB, Some("paths:=*.rs")).await;
    assert!(refused.contains("is reserved by ann"), "{refused}");
}

#[tokio::test]
async fn the_dashboard_of_one_machine_shows_and_releases_the_claims_of_another() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let machine = |name: &str, label: &str| {
        let node = node(&local, &postgres, name).with("NODE_LABELS", label);
        let channels =
            format!("## channel {CHANNEL}\n- node: gpu\n\n## channel {OTHER}\n- node: cpu\n");
        fs::write(node.path("config/channels.md"), channels).unwrap();
        node
    };
    let one = machine("one", "cpu").with("DASHBOARD_ADDRESS", "127.0.0.1:0");
    let two = machine("two", "gpu");
    let first = connected(&one).await;
    let second = serving(&two).await;
    let claim = async |channel, user, value: Option<&str>| {
        local.answer_to(local.slash(channel, user, "claim", value)).await.content
    };
    // The directories are not shared, so this machine only shows the claim.
    let taken = claim(CHANNEL, ANN, Some("paths:=<b>.rs")).await;
    assert!(taken.starts_with("Reserved for "), "{taken}");
    assert_eq!(node_of(&postgres, CHANNEL), "two");
    local.faults().deny(CHANNEL, BOB, SEND_MESSAGES);
    let (ann, bob) = (
        Browser::signed_in(&local, OTHER, ANN).await,
        Browser::signed_in(&local, OTHER, BOB).await,
    );
    let known = async {
        loop {
            let page = ann.get("/").await;
            if page.body.contains("Reserved files") {
                return page;
            }
        }
    };
    let page = tokio::time::timeout(LIMIT, known).await.expect("the claim is known");
    assert!(page.body.contains("<code>&lt;b&gt;.rs</code>"), "{}", page.body);
    assert!(page.body.contains("(on machine two)"), "{}", page.body);
    let (id, lane) = (page.field("claim"), format!("channel:{CHANNEL}"));
    let other = claim(OTHER, ANN, None).await;
    assert_eq!(other, "No files are reserved here.");
    let refused = claim(OTHER, BOB, Some(&format!("release:={id}"))).await;
    assert!(refused.contains("this claim was taken in another conversation"), "{refused}");
    let release = async |browser: &Browser| {
        let csrf = browser.get("/channels").await.field("csrf");
        let fields = [("csrf", csrf.as_str()), ("claim", &id), ("lane", &lane)];
        assert_eq!(browser.post("/claims/release", &fields).await.status, 303);
        browser.get("/").await.body
    };
    let theirs = release(&bob).await;
    assert!(theirs.contains("You are not allowed to do that there."), "{theirs}");
    assert!(claim(CHANNEL, ANN, None).await.contains(&id));
    let hers = release(&ann).await;
    assert!(hers.contains("Released 1 claim") && !hers.contains("Reserved files"), "{hers}");
    second.logs("reserved files were released on another machine").await;
    assert_eq!(claim(CHANNEL, ANN, None).await, "No files are reserved here.");
    assert!(!first.stderr().contains("cannot save"), "{}", first.stderr());
}
