//! Messages between the nodes of a cluster: how many can be posted per second, and their delay. The
//! server is that of the tests, which does not sync to disk.

use std::time::{Duration, Instant};

use aetheel_cluster::{Cluster, NodeOptions};
use aetheel_dispatch::ClusterMessage;

use crate::postgres::Postgres;
use crate::report::{figure, part, spread};
use crate::times;

/// Messages for each figure.
const LETTERS: usize = 2_000;
/// Messages of a large batch, and the number of lanes they belong to.
const BATCH: usize = 100;

async fn node(postgres: &Postgres, name: &str) -> Cluster {
    let options = NodeOptions {
        name: name.to_owned(),
        identity: name.to_owned(),
        bot: 1,
        turn_lease: Duration::from_secs(90),
        takeover_grace: Duration::ZERO,
        lease: Duration::from_secs(30),
        labels: Vec::new(),
        files: String::new(),
        components: String::new(),
    };
    Cluster::join(&postgres.url(), options).await.expect("a node")
}

fn letter(what: &str, number: usize) -> ClusterMessage {
    ClusterMessage {
        key: format!("{what} {number}"),
        root: format!("channel:{}", number % BATCH),
        thread: None,
        kind: "bench".to_owned(),
        body: format!("{{\"text\":\"{}\"}}", "x".repeat(1_000)),
        label: None,
    }
}

pub async fn measure() {
    part("messages between nodes, 1 kB each (PostgreSQL with fsync off)");
    let postgres = Postgres::start();
    let (leader, worker) = (node(&postgres, "leader").await, node(&postgres, "worker").await);
    let roots: Vec<String> = (0..BATCH).map(|lane| format!("channel:{lane}")).collect();
    worker.claim(&roots).await.expect("the lanes are free");
    let count = times(LETTERS / BATCH) * BATCH;
    for size in [1, BATCH] {
        let letters: Vec<ClusterMessage> =
            (0..count).map(|number| letter(&size.to_string(), number)).collect();
        let begun = Instant::now();
        for batch in letters.chunks(size) {
            leader.post(batch).await.expect("posted");
        }
        let rate = count as f64 / begun.elapsed().as_secs_f64();
        figure(&format!("posted, {size} at a time"), &format!("{rate:.0}/s"));
    }
    let mut inbox = worker.inbox();
    let mut left = 2 * count;
    let begun = Instant::now();
    while left > 0 {
        let letters = inbox.next().await.expect("letters");
        let numbers: Vec<i64> = letters.iter().map(|letter| letter.number).collect();
        worker.ack_messages(&numbers).await.expect("acknowledged");
        left -= letters.len();
    }
    let rate = (2 * count) as f64 / begun.elapsed().as_secs_f64();
    figure("received and acknowledged", &format!("{rate:.0}/s"));
    let mut delays = Vec::new();
    for number in 0..times(500) {
        let begun = Instant::now();
        leader.post(&[letter("alone", number)]).await.expect("posted");
        let letters = inbox.next().await.expect("the letter");
        delays.push(begun.elapsed());
        worker.ack_messages(&[letters[0].number]).await.expect("acknowledged");
    }
    figure("from posting a message to the node that receives it", &spread(&delays));
}
