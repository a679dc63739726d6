//! Tests of handovers: a node takes over everything of another node, once.

use aetheel_cluster::{Cluster, ClusterError, Handover, JoinKind};
use aetheel_model::id::ChannelId;

use super::{
    bodies, declare_dead, labelled, letter, node, node_of, numbers, pinned, receive, take_in,
};
use crate::support::postgres::Postgres;

fn file(name: &str, body: &str) -> (String, String) {
    (name.to_owned(), body.to_owned())
}

/// Returns the only handover that waits for this node.
async fn only_handover(node: &Cluster) -> Handover {
    let mut left = node.handovers().await.unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
    left.remove(0)
}

#[tokio::test]
async fn one_of_two_nodes_takes_over_a_dead_one_which_can_write_nothing_more() {
    let postgres = Postgres::start();
    let ann = node(&postgres, "ann").await;
    ann.confirm_local_state().await.unwrap();
    let mut lines = ann.journal();
    lines.append("one\n").await.unwrap();
    lines.append("two\n").await.unwrap();
    ann.mirror().write("sessions.md", "# Sessions\n").await.unwrap();
    ann.mirror().write("discord.md", "").await.unwrap();
    let threaded = aetheel_dispatch::ClusterMessage {
        thread: Some(ChannelId::discord(12)),
        ..letter("channel:1", "in hand")
    };
    ann.post(&[threaded, letter("channel:2", "x")]).await.unwrap();
    let mut anns = ann.inbox();
    let in_hand = receive(&mut anns).await;
    let (bob, cyd) = (node(&postgres, "bob").await, node(&postgres, "cyd").await);
    assert_eq!(bob.claim_dead().await, Ok(0), "it is alive");

    declare_dead(&postgres, "ann");
    let (bobs, cyds) = tokio::join!(bob.claim_dead(), cyd.claim_dead());
    assert_eq!(bobs.unwrap() + cyds.unwrap(), 1);
    assert_eq!(bob.claim_dead().await, Ok(0));
    let (heir, other) =
        if node_of(&postgres, "channel:1") == "bob" { (&bob, &cyd) } else { (&cyd, &bob) };
    assert_eq!(other.handovers().await.unwrap(), []);
    let left = only_handover(heir).await;
    assert_eq!(
        left,
        Handover {
            id: left.id,
            from: "ann".to_owned(),
            roots: vec!["channel:1".to_owned(), "channel:2".to_owned()],
            threads: vec![(ChannelId::discord(12), "channel:1".to_owned())],
            journal: "one\ntwo\n".to_owned(),
            files: vec![file("discord.md", ""), file("sessions.md", "# Sessions\n")],
        }
    );
    // A node that was suspended and does not know of the handover yet.
    assert!(ann.lease().is_valid());
    assert_eq!(lines.append("late\n").await, Err(ClusterError::Fenced));
    assert_eq!(lines.replace("late\n").await, Err(ClusterError::Fenced));
    assert_eq!(ann.mirror().write("sessions.md", "late").await, Err(ClusterError::Fenced));
    assert_eq!(ann.post(&[letter("channel:1", "late")]).await, Err(ClusterError::Fenced));
    assert_eq!(ann.broadcast("late", "").await, Err(ClusterError::Fenced));
    assert_eq!(ann.ack_messages(&numbers(&in_hand)).await, Err(ClusterError::Fenced));
    assert_eq!(ann.claim_dead().await, Err(ClusterError::Fenced));
    assert_eq!(ann.transfer_lane("channel:1", "", &[]).await, Err(ClusterError::Fenced));
    assert_eq!(ann.confirm_local_state().await, Err(ClusterError::Fenced));
    assert_eq!(ann.journal().read().await.unwrap(), "");

    // Messages wait until the handover is imported.
    let mut inbox = heir.inbox();
    other.post(&[letter("channel:1", "waits")]).await.unwrap();
    heir.claim(&["channel:9".to_owned()]).await.unwrap();
    other.post(&[letter("channel:9", "does not")]).await.unwrap();
    assert_eq!(bodies(&receive(&mut inbox).await), ["does not"]);
    assert!(!heir.has_open_lane("channel:1"));
    // A call whose response was lost is repeated.
    for _ in 0..2 {
        assert_eq!(take_in(heir, &left).await, left.roots);
    }
    assert!(heir.has_open_lane("channel:1") && heir.has_open_lane("channel:2"));
    assert_eq!(bodies(&receive(&mut inbox).await), ["in hand", "x", "waits"]);
    assert_eq!(heir.handovers().await.unwrap(), []);

    // The dead node returns, and starts without lanes.
    let back = node(&postgres, "ann").await;
    assert_eq!(back.join_kind(), JoinKind::Replaced);
    assert_eq!(
        node(&postgres, "ann").await.join_kind(),
        JoinKind::Replaced,
        "until it has settled"
    );
    let back = node(&postgres, "ann").await;
    back.confirm_local_state().await.unwrap();
    assert_eq!(back.my_lanes().await.unwrap(), []);
    assert_eq!(node(&postgres, "ann").await.join_kind(), JoinKind::Returning);
}

#[tokio::test]
async fn a_node_that_returns_before_it_is_taken_over_keeps_everything() {
    let postgres = Postgres::start();
    let ann = node(&postgres, "ann").await;
    ann.confirm_local_state().await.unwrap();
    ann.journal().append("one\n").await.unwrap();
    ann.claim(&["channel:1".to_owned()]).await.unwrap();
    let bob = node(&postgres, "bob").await;
    declare_dead(&postgres, "ann");
    let back = node(&postgres, "ann").await;
    assert_eq!(back.join_kind(), JoinKind::Returning);
    assert_eq!(bob.claim_dead().await, Ok(0));
    assert!(back.journal().read().await.unwrap() == "one\n" && back.has_open_lane("channel:1"));
}

#[tokio::test]
async fn a_returning_node_is_either_taken_over_or_keeps_everything() {
    let postgres = Postgres::start();
    let bob = node(&postgres, "bob").await;
    for _ in 0..20 {
        let ann = node(&postgres, "ann").await;
        ann.confirm_local_state().await.unwrap();
        ann.journal().append("x\n").await.unwrap();
        declare_dead(&postgres, "ann");
        let (adopted, back) = tokio::join!(bob.claim_dead(), node(&postgres, "ann"));
        let journal = back.journal().read().await.unwrap();
        if adopted.unwrap() == 1 {
            assert_eq!((back.join_kind(), journal.as_str()), (JoinKind::Replaced, ""));
            let left = only_handover(&bob).await;
            assert!(left.journal.contains("x\n"));
            take_in(&bob, &left).await;
        } else {
            assert_eq!(back.join_kind(), JoinKind::Returning);
            assert!(journal.ends_with("x\n"));
        }
    }
}

#[tokio::test]
async fn handovers_that_a_dead_node_had_not_imported_pass_to_the_next_one_oldest_first() {
    let postgres = Postgres::start();
    let (ann, bob) = (node(&postgres, "ann").await, node(&postgres, "bob").await);
    ann.journal().append("of ann\n").await.unwrap();
    ann.claim(&["channel:1".to_owned()]).await.unwrap();
    bob.claim(&["channel:2".to_owned()]).await.unwrap();
    bob.broadcast("ready", "{}").await.unwrap();
    declare_dead(&postgres, "ann");
    assert_eq!(bob.claim_dead().await, Ok(1));
    // Bob had imported Ann's lines into his journal already, but had not confirmed the handover.
    bob.journal().append("of bob, and of ann\n").await.unwrap();
    declare_dead(&postgres, "bob");
    let cyd = node(&postgres, "cyd").await;
    assert_eq!(cyd.claim_dead().await, Ok(1));
    let left = cyd.handovers().await.unwrap();
    let journals: Vec<&str> = left.iter().map(|left| left.journal.as_str()).collect();
    assert_eq!(journals, ["of ann\n", "of bob, and of ann\n"]);
    assert_eq!(left[1].roots, ["channel:1", "channel:2"]);
    cyd.post(&["channel:1", "channel:2"].map(|root| letter(root, "hello"))).await.unwrap();
    let mut inbox = cyd.inbox();
    // Only the messages to every node arrive. The lane waits for both handovers.
    take_in(&cyd, &left[0]).await;
    assert_eq!(bodies(&receive(&mut inbox).await), ["{}", "{}"]);
    assert!(!cyd.has_open_lane("channel:1"));
    take_in(&cyd, &left[1]).await;
    assert_eq!(bodies(&receive(&mut inbox).await), ["hello", "hello"]);
}

#[tokio::test]
async fn a_lane_that_is_handed_over_continues_on_the_other_node() {
    let postgres = Postgres::start();
    let ann = node(&postgres, "ann").await;
    ann.claim(&["channel:1".to_owned(), "channel:2".to_owned()]).await.unwrap();
    ann.post(&[letter("channel:1", "first")]).await.unwrap();
    let mut anns = ann.inbox();
    let first = receive(&mut anns).await;

    ann.hold_messages("channel:1", true).await.unwrap();
    assert!(!ann.has_open_lane("channel:1"));
    assert_eq!(ann.in_flight_count("channel:1"), 1);
    ann.post(&[letter("channel:1", "second"), letter("channel:2", "other")]).await.unwrap();
    assert_eq!(bodies(&receive(&mut anns).await), ["other"]);
    // There is no other node.
    assert_eq!(ann.transfer_lane("channel:1", "lines\n", &[]).await, Ok(None));
    assert!(!ann.has_open_lane("channel:1"), "still paused");
    ann.hold_messages("channel:1", false).await.unwrap();
    let second = receive(&mut anns).await;
    assert_eq!(bodies(&second), ["second"]);
    assert!(ann.has_open_lane("channel:1"));

    let bob = node(&postgres, "bob").await;
    ann.hold_messages("channel:1", true).await.unwrap();
    ann.ack_messages(&numbers(&first)).await.unwrap();
    ann.ack_messages(&numbers(&second)).await.unwrap();
    assert_eq!(ann.in_flight_count("channel:1"), 0);
    ann.post(&[letter("channel:1", "third")]).await.unwrap();
    let files = [file("sessions.md", "line\n")];
    let handed = ann.transfer_lane("channel:1", "lines\n", &files).await;
    assert_eq!(handed, Ok(Some("bob".to_owned())));
    assert_eq!(
        ann.transfer_lane("channel:1", "lines\n", &files).await,
        handed,
        "the repeated call has no effect"
    );
    let left = only_handover(&bob).await;
    assert_eq!((left.from.as_str(), left.journal.as_str()), ("ann", "lines\n"));
    assert_eq!((&left.roots[..], &left.files[..]), (&["channel:1".to_owned()][..], &files[..]));
    // The lane cannot be handed over again before it was imported.
    assert_eq!(bob.transfer_lane("channel:1", "", &[]).await, Ok(None));
    bob.claim(&["channel:3".to_owned()]).await.unwrap();
    bob.post(&[letter("channel:3", "here")]).await.unwrap();
    let mut bobs = bob.inbox();
    assert_eq!(bodies(&receive(&mut bobs).await), ["here"]);
    take_in(&bob, &left).await;
    let third = receive(&mut bobs).await;
    assert_eq!(bodies(&third), ["third"]);
    bob.ack_messages(&numbers(&third)).await.unwrap();

    // The lane is handed back. That it was paused on this node before no longer matters.
    assert_eq!(bob.transfer_lane("channel:1", "", &[]).await, Ok(Some("ann".to_owned())));
    take_in(&ann, &only_handover(&ann).await).await;
    assert!(ann.has_open_lane("channel:1"));
    bob.post(&[letter("channel:1", "fourth")]).await.unwrap();
    assert_eq!(bodies(&receive(&mut anns).await), ["fourth"]);
}

#[tokio::test]
async fn a_lane_is_handed_over_to_a_node_with_its_label_and_never_to_a_draining_one() {
    let postgres = Postgres::start();
    let ann = labelled(&postgres, "ann", "cuda").await;
    ann.post(&["channel:1", "channel:2"].map(|root| pinned(root, "x", "cuda"))).await.unwrap();
    let (big, gpu) = (node(&postgres, "big").await, labelled(&postgres, "gpu", "cuda").await);
    postgres.ask("update aetheel.node set room = 100 where name = 'big'");
    assert_eq!(ann.transfer_lane("channel:1", "", &[]).await, Ok(Some("gpu".to_owned())));
    Cluster::request_drain(&postgres.url(), "gpu", true).await.unwrap();
    assert_eq!(ann.transfer_lane("channel:2", "", &[]).await, Ok(Some("big".to_owned())));
    Cluster::request_drain(&postgres.url(), "big", true).await.unwrap();
    ann.post(&[letter("channel:3", "x")]).await.unwrap();
    assert_eq!(ann.transfer_lane("channel:3", "", &[]).await, Ok(None));
    assert!(ann.has_open_lane("channel:3"), "it was not paused before");
    assert_eq!(ann.transfer_lane("channel:8", "", &[]).await, Ok(None), "there is no such lane");
    drop((big, gpu));
}

#[tokio::test]
async fn renewals_report_dead_nodes_and_pending_handovers() {
    let postgres = Postgres::start();
    let options = super::options("bob", "bob", std::time::Duration::from_secs(2));
    let bob = Cluster::join(&postgres.url(), options).await.unwrap();
    let (ann, cyd) = (node(&postgres, "ann").await, node(&postgres, "cyd").await);
    ann.journal().append("one\n").await.unwrap();
    ann.leave().await;
    cyd.leave().await;
    let mut peers = bob.peers();
    let gone = peers.wait_for(|peers| peers.live_nodes == 1 && peers.dead_nodes == 1);
    tokio::time::timeout(super::TIMEOUT, gone).await.expect("the node learns of it").unwrap();
    assert_eq!(bob.claim_dead().await, Ok(1), "the other one left nothing");
    let come = peers.wait_for(|peers| peers.dead_nodes == 0 && peers.handovers == 1);
    tokio::time::timeout(super::TIMEOUT, come).await.expect("the node learns of it").unwrap();
}

#[tokio::test]
async fn after_a_database_outage_nodes_have_time_to_return_before_a_takeover() {
    let postgres = Postgres::start();
    let ann = node(&postgres, "ann").await;
    ann.claim(&["channel:1".to_owned()]).await.unwrap();
    let grace = std::time::Duration::from_secs(3_600);
    let patient =
        super::NodeOptions { takeover_grace: grace, ..super::options("bob", "bob", super::LEASE) };
    let bob = super::joined(&postgres, patient).await;
    declare_dead(&postgres, "ann");
    assert_eq!(bob.claim_dead().await, Ok(0), "the database has just started");
    let cyd = node(&postgres, "cyd").await;
    assert_eq!(cyd.claim_dead().await, Ok(1), "without a grace");
}
