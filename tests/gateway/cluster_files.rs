//! Files of a directory that the machines of a cluster share.

use std::fs;
use std::time::Duration;

use super::cluster::{connected, node, node_of};
use super::serving;
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord, OTHER};
use crate::support::postgres::Postgres;

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
