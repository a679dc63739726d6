//! Tests of messages between nodes: each arrives once and in order, at the node that has its lane.

use std::collections::{BTreeMap, BTreeSet};

use aetheel_cluster::{Cluster, ClusterError, Load};
use aetheel_dispatch::ClusterMessage;
use aetheel_model::id::ChannelId;

use super::{bodies, declare_dead, labelled, letter, node, node_of, numbers, pinned, receive};
use crate::support::postgres::Postgres;

#[tokio::test]
async fn messages_of_two_posters_arrive_in_one_order_and_none_is_skipped() {
    let postgres = Postgres::start();
    let (ann, bob) = (node(&postgres, "ann").await, node(&postgres, "bob").await);
    ann.claim(&["channel:1".to_owned()]).await.unwrap();
    let posting = [("a", ann.clone()), ("b", bob.clone())].map(|(who, poster)| {
        tokio::spawn(async move {
            for number in 0..150 {
                let batch = [0, 1]
                    .map(|part| letter("channel:1", &format!("{who} {:04}", number * 2 + part)));
                poster.post(&batch).await.unwrap();
            }
        })
    });
    let mut inbox = ann.inbox();
    let mut all = Vec::new();
    while all.len() < 600 {
        let letters = receive(&mut inbox).await;
        ann.ack_messages(&numbers(&letters)).await.unwrap();
        all.extend(letters);
    }
    for posted in posting {
        posted.await.unwrap();
    }
    // If a message became visible after one with a higher number, it would be out of order.
    assert!(all.is_sorted_by(|one, next| one.number < next.number));
    for who in ["a", "b"] {
        let of_one: Vec<&str> =
            bodies(&all).into_iter().filter(|body| body.starts_with(who)).collect();
        assert_eq!(of_one.len(), 300);
        assert!(of_one.is_sorted(), "as they were posted");
    }
    assert_eq!(ann.in_flight_count("channel:1"), 0);
}

#[tokio::test]
async fn a_message_with_a_known_key_is_ignored() {
    let postgres = Postgres::start();
    let ann = node(&postgres, "ann").await;
    let keyed =
        |key: &str, body: &str| ClusterMessage { key: key.to_owned(), ..letter("channel:1", body) };
    let long = "k".repeat(10_000);
    let batch =
        [keyed("k1", "one"), keyed("k1", "twice"), keyed("k2", "two"), keyed(&long, "long")];
    ann.post(&batch).await.unwrap();
    ann.post(&batch).await.unwrap();
    let mut inbox = ann.inbox();
    let letters = receive(&mut inbox).await;
    assert_eq!(bodies(&letters), ["one", "two", "long"]);
    // Keys also remain known after the message was acknowledged, whatever lane the repeated message
    // names.
    ann.ack_messages(&numbers(&letters)).await.unwrap();
    let elsewhere = ClusterMessage { root: "channel:2".to_owned(), ..keyed("k1", "elsewhere") };
    ann.post(&[keyed("k2", "again"), elsewhere, keyed("k3", "three")]).await.unwrap();
    assert_eq!(bodies(&receive(&mut inbox).await), ["three"]);
}

#[tokio::test]
async fn keys_of_acknowledged_messages_are_kept_for_a_day_without_their_bodies() {
    let postgres = Postgres::start();
    let ann = node(&postgres, "ann").await;
    ann.post(&[letter("channel:1", "a secret"), letter("channel:1", "another")]).await.unwrap();
    let letters = receive(&mut ann.inbox()).await;
    ann.ack_messages(&numbers(&letters)).await.unwrap();
    let kept = || postgres.ask("select key, body from aetheel.mail");
    assert_eq!(kept(), "channel:1 a secret|\nchannel:1 another|");
    postgres
        .ask("update aetheel.mail set done = done - interval '25 hours' where key like '%secret'");
    // Each process deletes old keys when it starts, and from time to time.
    let short = super::options("bob", "bob", std::time::Duration::from_secs(2));
    let bob = Cluster::join(&postgres.url(), short).await.unwrap();
    let mut lease = bob.lease().watch();
    while kept() != "channel:1 another|" {
        tokio::time::timeout(super::TIMEOUT, lease.changed()).await.expect("a renewal").unwrap();
    }
}

#[tokio::test]
async fn unacknowledged_messages_are_redelivered_to_the_next_process() {
    let postgres = Postgres::start();
    let before = node(&postgres, "ann").await;
    before.confirm_local_state().await.unwrap();
    before.post(&["1", "2", "3"].map(|body| letter("channel:1", body))).await.unwrap();
    let mut inbox = before.inbox();
    let letters = receive(&mut inbox).await;
    assert_eq!(bodies(&letters), ["1", "2", "3"]);
    assert_eq!(before.in_flight_count("channel:1"), 3);
    before.ack_messages(&[letters[1].number]).await.unwrap();
    assert_eq!(before.in_flight_count("channel:1"), 2);
    // The message is not delivered to this process again.
    before.post(&[letter("channel:1", "4")]).await.unwrap();
    assert_eq!(bodies(&receive(&mut inbox).await), ["4"]);
    let after = node(&postgres, "ann").await;
    let rest = receive(&mut after.inbox()).await;
    assert_eq!(bodies(&rest), ["1", "3", "4"]);
    assert_eq!(before.ack_messages(&numbers(&rest)).await, Err(ClusterError::Fenced));
}

#[tokio::test]
async fn any_message_body_arrives_unchanged() {
    let postgres = Postgres::start();
    let ann = node(&postgres, "ann").await;
    let hostile =
        ["'; drop table aetheel.mail; --", "{\"a\":\"\\u0000\"}", "\\", "é\u{10ffff}", ""];
    let mut letters = hostile.map(|body| letter("cron:'x'; --", body)).to_vec();
    letters.push(ClusterMessage { key: "nul \0".to_owned(), ..letter("channel:1", "a\0b") });
    letters.push(letter("channel:1", &"x".repeat(3_000_000)));
    ann.post(&letters).await.unwrap();
    let come = receive(&mut ann.inbox()).await;
    assert_eq!(bodies(&come)[..5], hostile);
    assert_eq!(come[5].body, "a\u{fffd}b");
    assert_eq!(come[6].body.len(), 3_000_000);
    assert_eq!(come[0].root.as_deref(), Some("cron:'x'; --"));
}

#[tokio::test]
async fn hundreds_of_new_lanes_are_distributed_by_the_free_slots_of_nodes() {
    let postgres = Postgres::start();
    let (ann, bob) = (node(&postgres, "ann").await, node(&postgres, "bob").await);
    let cyd = node(&postgres, "cyd").await;
    postgres.ask("update aetheel.node set room = 300 where name = 'ann'");
    postgres.ask("update aetheel.node set room = 100 where name = 'bob'");
    postgres.ask("update aetheel.node set room = 1000, draining = true where name = 'cyd'");
    let letters: Vec<ClusterMessage> =
        (0..300).map(|number| letter(&format!("channel:{number}"), "hello")).collect();
    cyd.post(&letters).await.unwrap();
    let lanes = || postgres.ask("select node, count(*) from aetheel.lane group by node order by 1");
    // Equal remaining slots: 300 - x = 100 - (300 - x)
    assert_eq!(lanes(), "ann|250\nbob|50");
    assert_eq!(receive(&mut ann.inbox()).await.len(), 250);
    assert_eq!(receive(&mut bob.inbox()).await.len(), 50);
    // A lane stays on its node, however many free slots the others have.
    postgres.ask("update aetheel.node set room = 100000 where name = 'bob'");
    let again: Vec<ClusterMessage> =
        (0..300).map(|number| letter(&format!("channel:{number}"), "again")).collect();
    cyd.post(&again).await.unwrap();
    assert_eq!(lanes(), "ann|250\nbob|50");
}

#[tokio::test]
async fn a_pinned_lane_goes_to_a_node_with_its_label_if_one_is_alive() {
    let postgres = Postgres::start();
    let gpu = labelled(&postgres, "gpu", "cuda").await;
    let ann = node(&postgres, "ann").await;
    postgres.ask("update aetheel.node set room = 50 where name = 'ann'");
    // The first message of a batch that names a label decides.
    let batch =
        [letter("channel:1", "a"), pinned("channel:1", "b", "cuda"), letter("channel:2", "c")];
    ann.post(&batch).await.unwrap();
    assert_eq!(
        (node_of(&postgres, "channel:1"), node_of(&postgres, "channel:2")),
        ("gpu".into(), "ann".into())
    );
    assert_eq!(bodies(&receive(&mut gpu.inbox()).await), ["a", "b"]);
    ann.post(&[pinned("channel:3", "x", "tpu")]).await.unwrap();
    assert_eq!(node_of(&postgres, "channel:3"), "ann", "no node has it");
    declare_dead(&postgres, "gpu");
    ann.post(&[pinned("channel:4", "x", "cuda")]).await.unwrap();
    assert_eq!(node_of(&postgres, "channel:4"), "ann");
}

#[tokio::test]
async fn a_draining_node_gets_new_lanes_only_if_no_other_is_alive() {
    let postgres = Postgres::start();
    let (ann, bob) = (node(&postgres, "ann").await, node(&postgres, "bob").await);
    assert_eq!(Cluster::request_drain(&postgres.url(), "ann", true).await, Ok(true));
    assert_eq!(Cluster::request_drain(&postgres.url(), "cyd", true).await, Ok(false));
    postgres.ask("update aetheel.node set room = 50 where name = 'ann'");
    ann.post(&[letter("channel:1", "x")]).await.unwrap();
    assert_eq!(node_of(&postgres, "channel:1"), "bob");
    declare_dead(&postgres, "bob");
    assert_eq!(ann.claim_dead().await, Ok(0), "the command takes over nothing");
    ann.post(&[letter("channel:2", "x")]).await.unwrap();
    assert_eq!(node_of(&postgres, "channel:2"), "ann", "people are answered");
    drop(bob);
}

#[tokio::test]
async fn a_request_to_drain_survives_a_crash_and_ends_when_the_node_leaves() {
    let postgres = Postgres::start();
    let short = |name| super::options(name, name, std::time::Duration::from_secs(2));
    let ann = Cluster::join(&postgres.url(), short("ann")).await.unwrap();
    let mut peers = ann.peers();
    Cluster::request_drain(&postgres.url(), "ann", true).await.unwrap();
    tokio::time::timeout(super::TIMEOUT, peers.wait_for(|peers| peers.drain_requested))
        .await
        .unwrap()
        .unwrap();
    let again = Cluster::join(&postgres.url(), short("ann")).await.unwrap();
    let drain = "select drain from aetheel.node";
    assert_eq!(postgres.ask(drain), "t");
    again.leave().await;
    assert_eq!(postgres.ask(drain), "f");
}

#[tokio::test]
async fn a_message_to_all_reaches_each_living_node_in_order() {
    let postgres = Postgres::start();
    let (ann, bob) = (node(&postgres, "ann").await, node(&postgres, "bob").await);
    let _cyd = node(&postgres, "cyd").await;
    declare_dead(&postgres, "cyd");
    // The node cannot return with its turns.
    postgres.ask("update aetheel.node set turns = lease where name = 'cyd'");
    bob.claim(&["channel:1".to_owned()]).await.unwrap();
    ann.post(&[letter("channel:1", "before")]).await.unwrap();
    ann.broadcast("ready", "{}").await.unwrap();
    ann.broadcast("ready", "{}").await.unwrap();
    ann.post(&[letter("channel:1", "after")]).await.unwrap();
    let (anns, bobs) = (receive(&mut ann.inbox()).await, receive(&mut bob.inbox()).await);
    assert_eq!(bodies(&anns), ["{}", "{}"]);
    assert_eq!((anns[0].root.as_deref(), anns[0].kind.as_str()), (None, "ready"));
    assert_eq!(bodies(&bobs), ["before", "{}", "{}", "after"]);
    assert_eq!(postgres.ask("select count(*) from aetheel.mail where node = 'cyd'"), "0");
}

#[tokio::test]
async fn messages_arrive_although_their_notifications_are_lost() {
    let postgres = Postgres::start();
    let ann = node(&postgres, "ann").await;
    let mut inbox = ann.inbox();
    ann.post(&[letter("channel:1", "first")]).await.unwrap();
    assert_eq!(bodies(&receive(&mut inbox).await), ["first"]);
    // A lost notification: the message is written without the function that sends one.
    postgres.ask(&format!(
        "insert into aetheel.mail (bot, key, root, kind, body) values ({}, 'k', 'channel:1', 'test', 'second')",
        super::BOT
    ));
    assert_eq!(bodies(&receive(&mut inbox).await), ["second"]);
    // All connections are closed, including the one that listens.
    postgres.ask(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'aetheel'",
    );
    let retried = async || while ann.post(&[letter("channel:1", "third")]).await.is_err() {};
    tokio::time::timeout(super::TIMEOUT, retried()).await.unwrap();
    assert_eq!(bodies(&receive(&mut inbox).await), ["third"]);
}

#[tokio::test]
async fn a_node_knows_its_lanes_and_the_database_knows_the_lane_of_each_thread() {
    let postgres = Postgres::start();
    let short = super::options("ann", "ann", std::time::Duration::from_secs(2));
    let (ann, bob) =
        (Cluster::join(&postgres.url(), short).await.unwrap(), node(&postgres, "bob").await);
    bob.claim(&["channel:7".to_owned()]).await.unwrap();
    ann.claim(&["channel:1".to_owned(), "channel:7".to_owned(), "channel:1".to_owned()])
        .await
        .unwrap();
    assert!(
        ann.has_open_lane("channel:1")
            && !ann.has_open_lane("channel:7")
            && bob.has_open_lane("channel:7")
    );
    let in_thread = |thread: u64, body: &str| ClusterMessage {
        thread: Some(ChannelId::discord(thread)),
        ..letter("channel:1", body)
    };
    bob.post(&[in_thread(u64::MAX, "a"), in_thread(12, "b"), in_thread(12, "c")]).await.unwrap();
    let lanes = ann.my_lanes().await.unwrap();
    assert_eq!(lanes.len(), 1);
    assert_eq!((lanes[0].root.as_str(), lanes[0].threads.len()), ("channel:1", 2));
    assert_eq!(ann.find_root(ChannelId::discord(12)).await, Ok(Some("channel:1".to_owned())));
    assert_eq!(bob.find_root(ChannelId::discord(u64::MAX)).await, Ok(Some("channel:1".to_owned())));
    assert_eq!(bob.find_root(ChannelId::discord(7)).await, Ok(Some("channel:7".to_owned())));
    assert_eq!(bob.find_root(ChannelId::discord(8)).await, Ok(None));
    // The node learns of lanes that others assign to it at its next renewal.
    postgres.ask("update aetheel.node set draining = true where name = 'bob'");
    bob.post(&[letter("cron:daily", "x")]).await.unwrap();
    let mut lease = ann.lease().watch();
    while !ann.has_open_lane("cron:daily") {
        tokio::time::timeout(super::TIMEOUT, lease.changed()).await.expect("a renewal").unwrap();
    }
}

#[tokio::test]
async fn a_load_is_written_with_the_next_renewal_and_can_be_read_from_outside() {
    let postgres = Postgres::start();
    let short = super::options("ann", "ann", std::time::Duration::from_secs(2));
    let ann = Cluster::join(&postgres.url(), short).await.unwrap();
    let gpu = labelled(&postgres, "gpu", "cuda").await;
    let load = Load {
        free_slots: f64::NAN,
        running: 3,
        waiting: u32::MAX,
        draining: true,
        files: "f2".to_owned(),
        components: "c2".to_owned(),
    };
    ann.report(load.clone());
    gpu.post(&[letter("channel:1", "x"), letter("channel:2", "y"), letter("channel:2", "z")])
        .await
        .unwrap();
    gpu.become_leader().await.unwrap();
    let mut lease = ann.lease().watch();
    let nodes = loop {
        let nodes = Cluster::nodes(&postgres.url()).await.unwrap();
        if nodes[0].load.running == 3 && ann.peers().borrow().leader.is_some() {
            break nodes;
        }
        tokio::time::timeout(super::TIMEOUT, lease.changed()).await.expect("a renewal").unwrap();
    };
    let names: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["ann", "gpu"]));
    assert_eq!(
        nodes[0].load,
        Load { free_slots: 0.0, waiting: u32::try_from(i32::MAX).unwrap(), ..load }
    );
    assert_eq!((nodes[0].is_leader, nodes[1].is_leader), (false, true));
    assert_eq!(nodes[1].labels, ["cuda"]);
    let counts: BTreeMap<&str, (u64, u64)> = nodes
        .iter()
        .map(|node| (node.name.as_str(), (node.work.lanes, node.work.messages)))
        .collect();
    assert_eq!(counts.values().map(|(lanes, _)| lanes).sum::<u64>(), 2);
    assert_eq!(counts.values().map(|(_, letters)| letters).sum::<u64>(), 3);
    let peers = ann.peers().borrow().clone();
    assert_eq!((peers.live_nodes, peers.leader.as_deref()), (2, Some("gpu")));
}
