//! Letters between the nodes of a cluster: how many a second can be posted, and how long one is on
//! its way. The server is the tests' own, which does not wait for the disk.

use std::time::{Duration, Instant};

use aetheel::cluster::{Cluster, Letter, NodeOptions};

use crate::postgres::Postgres;
use crate::report::{figure, part, spread};
use crate::times;

/// Letters of each figure.
const LETTERS: usize = 2_000;
/// Letters of a large batch, and lanes they are of.
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

fn letter(what: &str, number: usize) -> Letter {
    Letter {
        key: format!("{what} {number}"),
        root: format!("channel:{}", number % BATCH),
        thread: None,
        kind: "bench".to_owned(),
        body: format!("{{\"text\":\"{}\"}}", "x".repeat(1_000)),
        label: None,
    }
}

pub async fn measure() {
    part("Letters of a cluster, 1 kB each (PostgreSQL with fsync off)");
    let postgres = Postgres::start();
    let (hears, works) = (node(&postgres, "hears").await, node(&postgres, "works").await);
    let roots: Vec<String> = (0..BATCH).map(|lane| format!("channel:{lane}")).collect();
    works.claim(&roots).await.expect("its lanes");
    let count = times(LETTERS / BATCH) * BATCH;
    for size in [1, BATCH] {
        let letters: Vec<Letter> =
            (0..count).map(|number| letter(&size.to_string(), number)).collect();
        let begun = Instant::now();
        for batch in letters.chunks(size) {
            hears.post(batch).await.expect("posted");
        }
        let rate = count as f64 / begun.elapsed().as_secs_f64();
        figure(&format!("posted, {size} at a time"), &format!("{rate:.0}/s"));
    }
    let mut inbox = works.inbox();
    let mut left = 2 * count;
    let begun = Instant::now();
    while left > 0 {
        let letters = inbox.next().await.expect("letters");
        let numbers: Vec<i64> = letters.iter().map(|letter| letter.number).collect();
        works.done(&numbers).await.expect("checked off");
        left -= letters.len();
    }
    let rate = (2 * count) as f64 / begun.elapsed().as_secs_f64();
    figure("taken and checked off", &format!("{rate:.0}/s"));
    let mut on_their_way = Vec::new();
    for number in 0..times(500) {
        let begun = Instant::now();
        hears.post(&[letter("alone", number)]).await.expect("posted");
        let letters = inbox.next().await.expect("the letter");
        on_their_way.push(begun.elapsed());
        works.done(&[letters[0].number]).await.expect("checked off");
    }
    figure("from posting one to the node that takes it", &spread(&on_their_way));
}
