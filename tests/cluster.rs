//! Nodes, their leases and the seat, on a real PostgreSQL.

use std::time::Duration;

use aetheel::cluster::{Cluster, ClusterError, NodeOptions, Seat};

use crate::support::postgres::Postgres;

const BOT: u64 = 1_000_000_000_000_000_001;

fn options(name: &str, identity: &str, lease: Duration) -> NodeOptions {
    NodeOptions { name: name.to_owned(), identity: identity.to_owned(), bot: BOT, lease }
}

async fn node(postgres: &Postgres, name: &str) -> Cluster {
    let lease = Duration::from_secs(30);
    Cluster::join(&postgres.url(), options(name, name, lease)).await.unwrap()
}

#[tokio::test]
async fn one_node_serves_and_the_next_reads_all_that_it_wrote_and_nothing_that_it_did_not() {
    let postgres = Postgres::start();
    let (ann, bob) = (node(&postgres, "ann").await, node(&postgres, "bob").await);
    assert_eq!(ann.take_seat().await, Ok(Seat::First));
    let mut lines = ann.lines();
    lines.append("one\n").await.unwrap();
    lines.append("two\ntwo and a half\n").await.unwrap();
    ann.mirror().write("sessions.md", "# Of ann\n").await.unwrap();
    ann.settled().await.unwrap();
    assert_eq!(bob.lines().append("not yet\n").await, Err(ClusterError::Fenced));
    assert_eq!(bob.mirror().write("sessions.md", "not yet").await, Err(ClusterError::Fenced));

    ann.leave().await;
    assert_eq!(bob.take_seat().await, Ok(Seat::Followed("ann".to_owned())));
    assert_eq!(lines.append("late\n").await, Err(ClusterError::Fenced));
    assert_eq!(lines.replace("late\n").await, Err(ClusterError::Fenced));
    assert_eq!(ann.mirror().write("sessions.md", "late").await, Err(ClusterError::Fenced));
    let mut lines = bob.lines();
    assert_eq!(lines.read().await.unwrap(), "one\ntwo\ntwo and a half\n");
    assert_eq!(
        bob.mirror().read().await.unwrap(),
        [("sessions.md".to_owned(), "# Of ann\n".to_owned())]
    );
    lines.append("three\n").await.unwrap();
    lines.replace("all\n").await.unwrap();
    lines.append("four\n").await.unwrap();
    assert_eq!(lines.read().await.unwrap(), "all\nfour\n");
}

#[tokio::test]
async fn a_node_that_starts_again_keeps_its_seat_and_its_earlier_life_writes_nothing_more() {
    let postgres = Postgres::start();
    let before = node(&postgres, "ann").await;
    assert_eq!(before.take_seat().await, Ok(Seat::First));
    before.settled().await.unwrap();
    let bob = node(&postgres, "bob").await;
    let mut lines = before.lines();
    lines.append("one\n").await.unwrap();
    let after = node(&postgres, "ann").await;
    assert_eq!(after.take_seat().await, Ok(Seat::Kept));
    assert_eq!(lines.append("late\n").await, Err(ClusterError::Fenced));
    let mut lines = after.lines();
    lines.append("two\n").await.unwrap();
    assert_eq!(lines.read().await.unwrap(), "one\ntwo\n");
    before.lease().over().await;
    assert!(after.lease().lasts());

    // One that died before it had taken everything over, and starts again, takes it over then.
    after.leave().await;
    assert_eq!(bob.take_seat().await, Ok(Seat::Followed("ann".to_owned())));
    let again = node(&postgres, "bob").await;
    assert_eq!(again.take_seat().await, Ok(Seat::Followed("ann".to_owned())));
}

#[tokio::test]
async fn two_machines_cannot_have_one_name() {
    let postgres = Postgres::start();
    let _ann = node(&postgres, "ann").await;
    let lease = Duration::from_secs(30);
    let refused = Cluster::join(&postgres.url(), options("ann", "other", lease)).await.err();
    let why = refused.expect("refused").to_string();
    assert!(why.contains("\"ann\"") && why.contains("NODE_NAME"), "{why}");
}

#[tokio::test]
async fn a_node_counts_itself_out_before_others_may_follow_when_the_database_is_away() {
    let mut postgres = Postgres::start();
    let lease = Duration::from_secs(3);
    let ann = Cluster::join(&postgres.url(), options("ann", "ann", lease)).await.unwrap();
    assert_eq!(ann.take_seat().await, Ok(Seat::First));
    ann.settled().await.unwrap();
    postgres.kill();
    let mut lines = ann.lines();
    assert!(matches!(lines.append("lost\n").await, Err(ClusterError::Away(_))));
    ann.lease().over().await;
    assert_eq!(lines.append("late\n").await, Err(ClusterError::Fenced));
    postgres.again();
    // By the server's clock its lease may last a while yet; it does not come back.
    let bob = node(&postgres, "bob").await;
    assert_eq!(bob.take_seat().await, Ok(Seat::Followed("ann".to_owned())));
    assert_eq!(bob.lines().read().await.unwrap(), "");
}

#[tokio::test]
async fn a_server_that_is_killed_and_comes_back_in_time_is_only_waited_for() {
    let mut postgres = Postgres::start();
    let ann = node(&postgres, "ann").await;
    assert_eq!(ann.take_seat().await, Ok(Seat::First));
    let mut lines = ann.lines();
    lines.append("one\n").await.unwrap();
    postgres.kill();
    assert!(matches!(lines.append("two\n").await, Err(ClusterError::Away(_))));
    postgres.again();
    lines.append("two, again\n").await.unwrap();
    assert_eq!(lines.read().await.unwrap(), "one\ntwo, again\n");
    assert!(ann.lease().lasts());
}

#[tokio::test]
async fn tables_of_a_newer_program_are_used_while_they_may_be_and_never_changed() {
    let postgres = Postgres::start();
    drop(node(&postgres, "ann").await);
    postgres.ask("update aetheel.form set version = 7, since = 1");
    drop(node(&postgres, "ann").await);
    assert_eq!(postgres.ask("select version, since from aetheel.form"), "7|1");
    postgres.ask("update aetheel.form set since = 7");
    let lease = Duration::from_secs(30);
    let refused = Cluster::join(&postgres.url(), options("bob", "bob", lease)).await.err();
    let why = refused.expect("refused").to_string();
    assert!(why.contains("newer Aetheel") && why.contains("upgrade this node"), "{why}");
}

#[tokio::test]
async fn many_nodes_make_the_tables_at_the_same_time_and_one_of_them_serves() {
    let postgres = Postgres::start();
    let names: Vec<String> = (0..8).map(|number| format!("n{number}")).collect();
    let lease = Duration::from_secs(30);
    let joining = names.iter().map(|name| {
        let (url, options) = (postgres.url(), options(name, name, lease));
        tokio::spawn(async move { Cluster::join(&url, options).await })
    });
    let mut nodes = Vec::new();
    for joined in joining.collect::<Vec<_>>() {
        nodes.push(joined.await.unwrap().unwrap());
    }
    let (told, mut served) = tokio::sync::mpsc::unbounded_channel();
    for node in nodes {
        let told = told.clone();
        tokio::spawn(async move {
            let seat = node.take_seat().await.unwrap();
            node.settled().await.unwrap();
            told.send((node, seat)).unwrap();
        });
    }
    let mut before: Option<String> = None;
    for _ in 0..names.len() {
        let served_by = tokio::time::timeout(Duration::from_secs(120), served.recv()).await;
        let (node, seat) = served_by.expect("the next one").unwrap();
        assert!(served.try_recv().is_err(), "one at a time");
        assert_eq!(seat, before.map_or(Seat::First, Seat::Followed));
        before = Some(node.name().to_owned());
        node.leave().await;
    }
}
