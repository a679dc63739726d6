//! Tests with many messages and two nodes, one of which dies: no message is lost, handled twice or
//! out of order.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use aetheel_cluster::{Cluster, ClusterError, JournalLines};
use aetheel_dispatch::ClusterMessage;

use super::{TIMEOUT, declare_dead, letter, node, numbers, take_in};
use crate::support::postgres::Postgres;

const LANES: usize = 100;
const MESSAGES: usize = 20_000;
const BATCH: usize = 100;

/// Handles messages like a node: messages that its journal does not contain are added to it, then
/// all are acknowledged.
struct Worker {
    cluster: Cluster,
    lines: JournalLines,
    known: HashSet<String>,
    /// Handled messages in order.
    journal: String,
}

impl Worker {
    fn of(cluster: Cluster) -> Self {
        let lines = cluster.journal();
        Self { cluster, lines, known: HashSet::new(), journal: String::new() }
    }

    /// Imports the journals of other nodes, which come before everything else.
    async fn import_handovers(&mut self) {
        for left in self.cluster.handovers().await.unwrap() {
            self.known.extend(left.journal.lines().map(str::to_owned));
            self.journal.insert_str(0, &left.journal);
            take_in(&self.cluster, &left).await;
        }
    }

    /// Works until the journal has `until` lines or the node dies. After `dies_after` lines it dies
    /// between writing the journal and acknowledging the messages.
    async fn work(&mut self, until: usize, dies_after: usize, kill: impl Fn()) {
        let mut inbox = self.cluster.inbox();
        while self.journal.lines().count() < until {
            let letters = tokio::time::timeout(TIMEOUT, inbox.next()).await.expect("letters");
            let letters = letters.unwrap();
            let fresh: String = letters
                .iter()
                .filter(|letter| self.known.insert(letter.body.clone()))
                .map(|letter| format!("{}\n", letter.body))
                .collect();
            if !fresh.is_empty() {
                self.lines.append(&fresh).await.unwrap();
                self.journal += &fresh;
            }
            if self.journal.lines().count() >= dies_after {
                kill();
                let numbers = numbers(&letters);
                assert_eq!(self.cluster.ack_messages(&numbers).await, Err(ClusterError::Fenced));
                assert_eq!(self.lines.append("late\n").await, Err(ClusterError::Fenced));
                return;
            }
            self.cluster.ack_messages(&numbers(&letters)).await.unwrap();
        }
    }
}

/// Posts the messages of some lanes. No other task posts to these lanes.
async fn post(cluster: Cluster, lanes: std::ops::Range<usize>) {
    let all: Vec<ClusterMessage> = (0..MESSAGES / LANES)
        .flat_map(|number| lanes.clone().map(move |lane| (lane, number)))
        .map(|(lane, number)| letter(&format!("channel:{lane}"), &format!("{lane} {number}")))
        .collect();
    for batch in all.chunks(BATCH) {
        cluster.post(batch).await.unwrap();
        // A request whose response was lost is repeated.
        if batch[0].body.ends_with('0') {
            cluster.post(batch).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_messages_are_handled_once_and_in_order_although_a_node_dies() {
    let postgres = Arc::new(Postgres::start());
    let (ann, bob) = (node(&postgres, "ann").await, node(&postgres, "bob").await);
    let (poster, other) = (node(&postgres, "poster").await, node(&postgres, "other").await);
    postgres.ask("update aetheel.node set draining = true where name in ('poster', 'other')");
    let posts = [
        tokio::spawn(post(poster.clone(), 0..LANES / 2)),
        tokio::spawn(post(other.clone(), LANES / 2..LANES)),
    ];
    let dying = tokio::spawn({
        let postgres = Arc::clone(&postgres);
        async move {
            // The node was not taken over yet, but its start number is no longer current.
            let kill = || {
                declare_dead(&postgres, "ann");
                postgres.ask(
                    "update aetheel.node set start = nextval('aetheel.start') where name = 'ann'",
                );
            };
            Worker::of(ann).work(usize::MAX, MESSAGES / 5, kill).await;
        }
    });
    let working = tokio::spawn({
        let mut worker = Worker::of(bob.clone());
        async move {
            worker.work(MESSAGES / 5, usize::MAX, || ()).await;
            worker
        }
    });
    dying.await.unwrap();
    let mut survivor = working.await.unwrap();
    assert_eq!(bob.claim_dead().await, Ok(1));
    survivor.import_handovers().await;
    survivor.work(MESSAGES, usize::MAX, || ()).await;
    for posted in posts {
        posted.await.unwrap();
    }
    let mut lanes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for line in survivor.journal.lines() {
        let (lane, number) = line.split_once(' ').unwrap();
        lanes.entry(lane).or_default().push(number.parse().unwrap());
    }
    assert_eq!(lanes.len(), LANES);
    for (lane, numbers) in lanes {
        assert!(numbers.into_iter().eq(0..MESSAGES / LANES), "lane {lane}");
    }
    assert_eq!(postgres.ask("select count(*) from aetheel.mail where done is null"), "0");
    assert_eq!(postgres.ask("select count(*) from aetheel.mail"), MESSAGES.to_string());
}
