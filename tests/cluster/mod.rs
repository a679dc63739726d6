//! Tests of nodes, their leases, the leader, messages and handovers, with a real PostgreSQL.

mod budgets;
mod handover;
mod load;
mod mail;
mod tls;
mod turns;

use std::time::Duration;

use aetheel_cluster::{
    Cluster, ClusterError, Handover, Inbox, JoinKind, LaneOwner, NodeOptions, ReceivedMessage,
};
use aetheel_dispatch::ClusterMessage;
use aetheel_model::id::ChannelId;

use crate::support::link::{Link, Way};
use crate::support::postgres::Postgres;

const BOT: u64 = 1_000_000_000_000_000_001;
/// Long enough that only the first renewal happens during a test, so that changes which a test
/// makes in the database remain.
const LEASE: Duration = Duration::from_secs(1_200);
const TIMEOUT: Duration = Duration::from_secs(60);

fn options(name: &str, identity: &str, lease: Duration) -> NodeOptions {
    NodeOptions {
        name: name.to_owned(),
        identity: identity.to_owned(),
        bot: BOT,
        lease,
        turn_lease: lease,
        takeover_grace: Duration::ZERO,
        labels: Vec::new(),
        files: "f1".to_owned(),
        components: "c1".to_owned(),
    }
}

async fn node(postgres: &Postgres, name: &str) -> Cluster {
    joined(postgres, options(name, name, LEASE)).await
}

async fn labelled(postgres: &Postgres, name: &str, label: &str) -> Cluster {
    let labels = vec![label.to_owned()];
    joined(postgres, NodeOptions { labels, ..options(name, name, LEASE) }).await
}

/// Joins, and waits for the first renewal.
async fn joined(postgres: &Postgres, options: NodeOptions) -> Cluster {
    let cluster = Cluster::join(&postgres.url(), options).await.unwrap();
    let mut peers = cluster.peers();
    let renewed = peers.wait_for(|peers| peers.live_nodes > 0);
    tokio::time::timeout(TIMEOUT, renewed).await.expect("a renewal").unwrap();
    cluster
}

/// Makes a node dead for all others. Its process does not know it yet.
fn declare_dead(postgres: &Postgres, name: &str) {
    postgres.ask(&format!(
        "update aetheel.node set lease = clock_timestamp() - interval '1 ms' where name = '{name}'"
    ));
}

fn letter(root: &str, body: &str) -> ClusterMessage {
    ClusterMessage {
        key: format!("{root} {body}"),
        root: root.to_owned(),
        thread: None,
        kind: "test".to_owned(),
        body: body.to_owned(),
        label: None,
    }
}

fn pinned(root: &str, body: &str, label: &str) -> ClusterMessage {
    ClusterMessage { label: Some(label.to_owned()), ..letter(root, body) }
}

/// Acknowledges a handover and releases its lanes. Returns the lanes.
async fn take_in(node: &Cluster, left: &Handover) -> Vec<String> {
    let opened = node.ack_handover(left, &[]).await.unwrap();
    node.release_lanes(&opened);
    opened
}

/// Returns the next messages that a node receives.
async fn receive(inbox: &mut Inbox) -> Vec<ReceivedMessage> {
    tokio::time::timeout(TIMEOUT, inbox.next()).await.expect("letters").unwrap()
}

/// Returns the bodies of messages.
fn bodies(letters: &[ReceivedMessage]) -> Vec<&str> {
    letters.iter().map(|letter| letter.body.as_str()).collect()
}

fn numbers(letters: &[ReceivedMessage]) -> Vec<i64> {
    letters.iter().map(|letter| letter.number).collect()
}

fn node_of(postgres: &Postgres, root: &str) -> String {
    postgres.ask(&format!("select node from aetheel.lane where root = '{root}'"))
}

#[tokio::test]
async fn each_node_has_a_journal_and_files_of_its_own() {
    let postgres = Postgres::start();
    let (ann, bob) = (node(&postgres, "ann").await, node(&postgres, "bob").await);
    let (mut anns, mut bobs) = (ann.journal(), bob.journal());
    anns.append("one\n").await.unwrap();
    bobs.append("a\n").await.unwrap();
    anns.append("two\ntwo and a half\n").await.unwrap();
    assert_eq!(anns.read().await.unwrap(), "one\ntwo\ntwo and a half\n");
    assert_eq!(bobs.read().await.unwrap(), "a\n");
    anns.replace("all\n").await.unwrap();
    anns.append("four\n").await.unwrap();
    assert_eq!(anns.read().await.unwrap(), "all\nfour\n");
    assert_eq!(bobs.read().await.unwrap(), "a\n");
    ann.mirror().write("sessions.md", "# Of ann\n").await.unwrap();
    bob.mirror().write("sessions.md", "# Of bob\n").await.unwrap();
    let files = ann.mirror().read().await.unwrap();
    assert_eq!(files, [("sessions.md".to_owned(), "# Of ann\n".to_owned())]);
}

#[tokio::test]
async fn a_restarted_node_keeps_its_lanes_and_its_previous_process_can_write_nothing_more() {
    let postgres = Postgres::start();
    let before = node(&postgres, "ann").await;
    assert_eq!(before.join_kind(), JoinKind::First);
    before.confirm_local_state().await.unwrap();
    let mut lines = before.journal();
    lines.append("one\n").await.unwrap();
    before.mirror().write("sessions.md", "mine").await.unwrap();
    before.claim(&["channel:1".to_owned()]).await.unwrap();
    before.hold_messages("channel:1", true).await.unwrap();
    let after = node(&postgres, "ann").await;
    assert_eq!(after.join_kind(), JoinKind::Returning);
    assert!(after.first_number() > before.first_number());
    assert_eq!(lines.append("late\n").await, Err(ClusterError::Fenced));
    assert_eq!(lines.replace("late\n").await, Err(ClusterError::Fenced));
    assert_eq!(before.mirror().write("sessions.md", "late").await, Err(ClusterError::Fenced));
    let late = [letter("channel:1", "late")];
    assert_eq!(before.post(&late).await, Err(ClusterError::Fenced));
    assert_eq!(before.claim(&["channel:2".to_owned()]).await, Err(ClusterError::Fenced));
    let mut lines = after.journal();
    lines.append("two\n").await.unwrap();
    assert_eq!(lines.read().await.unwrap(), "one\ntwo\n");
    let files = after.mirror().read().await.unwrap();
    assert_eq!(files, [("sessions.md".to_owned(), "mine".to_owned())]);
    // Messages that the previous process held are released.
    after.post(&[letter("channel:1", "hello")]).await.unwrap();
    assert_eq!(bodies(&receive(&mut after.inbox()).await), ["hello"]);
    // This also holds after its lease, as long as no other node took over.
    declare_dead(&postgres, "ann");
    assert_eq!(node(&postgres, "ann").await.join_kind(), JoinKind::Returning);
    assert_eq!(after.journal().append("late\n").await, Err(ClusterError::Fenced));
}

#[tokio::test]
async fn a_node_counts_as_new_until_it_has_settled() {
    let postgres = Postgres::start();
    assert_eq!(node(&postgres, "ann").await.join_kind(), JoinKind::First);
    let again = node(&postgres, "ann").await;
    assert_eq!(again.join_kind(), JoinKind::First, "it may have died before it wrote anything");
    again.confirm_local_state().await.unwrap();
    assert_eq!(node(&postgres, "ann").await.join_kind(), JoinKind::Returning);
}

#[tokio::test]
async fn two_machines_cannot_have_one_name() {
    let postgres = Postgres::start();
    let _ann = node(&postgres, "ann").await;
    let refused = Cluster::join(&postgres.url(), options("ann", "other", LEASE)).await.err();
    let why = refused.expect("refused").to_string();
    assert!(why.contains("\"ann\"") && why.contains("NODE_NAME"), "{why}");
}

#[tokio::test]
async fn a_machine_with_the_name_of_a_dead_one_takes_over_its_lanes() {
    let postgres = Postgres::start();
    let ann = node(&postgres, "ann").await;
    ann.confirm_local_state().await.unwrap();
    ann.journal().append("one\n").await.unwrap();
    ann.claim(&["channel:1".to_owned()]).await.unwrap();
    declare_dead(&postgres, "ann");
    let other = Cluster::join(&postgres.url(), options("ann", "other", LEASE)).await.unwrap();
    assert_eq!(other.join_kind(), JoinKind::First);
    assert_eq!(other.journal().read().await.unwrap(), "");
    let left = other.handovers().await.unwrap();
    assert_eq!((left[0].from.as_str(), left[0].journal.as_str()), ("ann", "one\n"));
    assert_eq!(left[0].roots, ["channel:1"]);
    assert!(!other.has_open_lane("channel:1"));
    take_in(&other, &left[0]).await;
    assert!(other.has_open_lane("channel:1"));
    assert_eq!(ann.journal().append("late\n").await, Err(ClusterError::Fenced));
}

#[tokio::test]
async fn without_the_database_a_node_stops_before_others_may_take_over() {
    let mut postgres = Postgres::start();
    let lease = Duration::from_secs(3);
    // On a machine that stalls for longer than the lease, the node is fenced before its first line.
    let (ann, mut lines) = loop {
        let ann = Cluster::join(&postgres.url(), options("ann", "ann", lease)).await.unwrap();
        let mut lines = ann.journal();
        match lines.append("one\n").await {
            Ok(()) => break (ann, lines),
            Err(error) => {
                assert!(matches!(error, ClusterError::Away(_) | ClusterError::Fenced), "{error}");
            }
        }
    };
    postgres.kill();
    let lost = lines.append("lost\n").await;
    assert!(matches!(lost, Err(ClusterError::Away(_) | ClusterError::Fenced)), "{lost:?}");
    ann.lease().wait_until_ended().await;
    assert_eq!(lines.append("late\n").await, Err(ClusterError::Fenced));
    assert_eq!(ann.inbox().next().await, Err(ClusterError::Fenced));
    postgres.again();
    assert_eq!(lines.append("later\n").await, Err(ClusterError::Fenced));
    assert_eq!(postgres.ask("select string_agg(lines, '') from aetheel.journal"), "one");
}

#[tokio::test]
async fn a_killed_server_that_returns_in_time_only_causes_a_delay() {
    let mut postgres = Postgres::start();
    // Long enough even if the machine restarts the server slowly.
    let ann = joined(&postgres, options("ann", "ann", Duration::from_secs(60))).await;
    let mut lines = ann.journal();
    lines.append("one\n").await.unwrap();
    let mut inbox = ann.inbox();
    ann.post(&[letter("channel:1", "before")]).await.unwrap();
    assert_eq!(bodies(&receive(&mut inbox).await), ["before"]);
    postgres.kill();
    assert!(matches!(lines.append("two\n").await, Err(ClusterError::Away(_))));
    let late = [letter("channel:1", "after")];
    assert!(matches!(ann.post(&late).await, Err(ClusterError::Away(_))));
    postgres.again();
    lines.append("two, again\n").await.unwrap();
    assert_eq!(lines.read().await.unwrap(), "one\ntwo, again\n");
    ann.post(&late).await.unwrap();
    assert_eq!(bodies(&receive(&mut inbox).await), ["after"]);
    assert!(ann.lease().is_valid());
}

#[tokio::test]
async fn a_connection_lost_while_idle_is_replaced_without_a_failure() {
    let postgres = Postgres::start();
    let folder = tempfile::Builder::new().prefix("link").tempdir_in("/tmp").unwrap();
    let link = Link::to_postgres(folder.path(), postgres.folder());
    let url = postgres.url_by(folder.path());
    let ann = Cluster::join(&url, options("ann", "ann", LEASE)).await.unwrap();
    let mut lines = ann.journal();
    for round in 0..10 {
        lines.append(&format!("line {round}\n")).await.unwrap();
        ann.post(&[letter("channel:1", &round.to_string())]).await.unwrap();
        link.set(Way::Cut);
        link.set(Way::Open);
    }
    let text: String = (0..10).map(|round| format!("line {round}\n")).collect();
    assert_eq!(lines.read().await.unwrap(), text);
    assert_eq!(bodies(&receive(&mut ann.inbox()).await).len(), 10);
}

#[tokio::test]
async fn a_command_before_the_first_start_of_a_node_says_what_to_do() {
    let postgres = Postgres::start();
    let asked = [
        Cluster::nodes(&postgres.url()).await.err(),
        Cluster::request_drain(&postgres.url(), "ann", true).await.err(),
    ];
    for refused in asked {
        let why = refused.expect("refused").to_string();
        assert!(why.contains("no tables yet; hint: start the first node"), "{why}");
    }
}

#[tokio::test]
async fn a_read_only_server_counts_as_unreachable() {
    let postgres = Postgres::start();
    let ann = node(&postgres, "ann").await;
    postgres.read_only(true);
    // Sessions of the database learn of the restart one after the other.
    loop {
        match ann.journal().append("x\n").await {
            Ok(()) => tokio::task::yield_now().await,
            Err(error) => break assert!(matches!(error, ClusterError::Away(_)), "{error}"),
        }
    }
}

#[tokio::test]
async fn every_node_knows_which_node_has_a_channel() {
    let postgres = Postgres::start();
    let (ann, bob) = (node(&postgres, "ann").await, node(&postgres, "bob").await);
    assert_eq!(
        ann.owner_of(ChannelId::discord(1)).await,
        Ok(LaneOwner::Unassigned("channel:1".to_owned()))
    );
    ann.claim(&["channel:1".to_owned()]).await.unwrap();
    let in_thread = ClusterMessage {
        thread: Some(ChannelId::discord(12)),
        ..letter("channel:1", "in a thread")
    };
    bob.post(&[in_thread]).await.unwrap();
    for channel in [1, 12] {
        assert_eq!(ann.owner_of(ChannelId::discord(channel)).await, Ok(LaneOwner::ThisNode));
        assert_eq!(bob.owner_of(ChannelId::discord(channel)).await, Ok(LaneOwner::OtherNode));
    }
    ann.hold_messages("channel:1", true).await.unwrap();
    assert_eq!(ann.owner_of(ChannelId::discord(1)).await, Ok(LaneOwner::Moving));
    assert_eq!(ann.owner_of(ChannelId::discord(12)).await, Ok(LaneOwner::Moving));
    let heir = ann.transfer_lane("channel:1", "", &[]).await.unwrap();
    assert_eq!(heir.as_deref(), Some("bob"));
    assert_eq!(ann.owner_of(ChannelId::discord(1)).await, Ok(LaneOwner::OtherNode));
    assert_eq!(
        bob.owner_of(ChannelId::discord(12)).await,
        Ok(LaneOwner::Moving),
        "it has not been assigned yet"
    );
    let left = bob.handovers().await.unwrap();
    take_in(&bob, &left[0]).await;
    assert_eq!(bob.owner_of(ChannelId::discord(12)).await, Ok(LaneOwner::ThisNode));
}

#[tokio::test]
async fn simultaneous_new_channels_are_distributed_although_load_reports_are_late() {
    let postgres = Postgres::start();
    let ann = node(&postgres, "ann").await;
    let _others = (node(&postgres, "bob").await, node(&postgres, "cyd").await);
    for channel in 0..6 {
        // A report that was made before the channel was assigned, and arrived afterwards.
        postgres.ask("update aetheel.node set room = 6, reported = clock_timestamp()");
        ann.post(&[letter(&format!("channel:{channel}"), "x")]).await.unwrap();
    }
    let lanes = "select string_agg(count::text, ' ') from (select count(*) from aetheel.lane group by node) as lanes";
    assert_eq!(postgres.ask(lanes), "2 2 2");
}

#[tokio::test]
async fn tables_of_a_newer_program_are_used_if_compatible_and_never_changed() {
    let postgres = Postgres::start();
    drop(node(&postgres, "ann").await);
    postgres.ask("update aetheel.form set version = 7, since = 1");
    drop(node(&postgres, "ann").await);
    assert_eq!(postgres.ask("select version, since from aetheel.form"), "7|1");
    postgres.ask("update aetheel.form set since = 7");
    let refused = Cluster::join(&postgres.url(), options("bob", "bob", LEASE)).await.err();
    let why = refused.expect("refused").to_string();
    assert!(why.contains("newer Aetheel") && why.contains("upgrade this node"), "{why}");
}

/// The tables of the fifth version of the schema, the last one with components of backends.
const FIFTH_SCHEMA: &str = concat!(
    "begin; create schema aetheel;
     create table aetheel.form (one bool primary key default true check (one), version int not null, since int not null);
     insert into aetheel.form (version, since) values (5, 1);",
    include_str!("../../crates/cluster/src/schema/1.sql"),
    include_str!("../../crates/cluster/src/schema/2.sql"),
    include_str!("../../crates/cluster/src/schema/3.sql"),
    include_str!("../../crates/cluster/src/schema/4.sql"),
    include_str!("../../crates/cluster/src/schema/5.sql"),
    "commit;"
);

#[tokio::test]
async fn a_node_shares_the_tables_of_a_version_that_kept_components_in_them() {
    let postgres = Postgres::start();
    assert!(postgres.psql(FIFTH_SCHEMA).status.success());
    let send = format!("select aetheel.hand_out({BOT}, 'x.wasm', '00', '\\x00', null, 'old')");
    assert!(postgres.psql(&send).status.success());
    drop(node(&postgres, "ann").await);
    assert_eq!(postgres.ask("select version, since from aetheel.form"), "6|1");
    // A node of the earlier version reads this with each renewal.
    let read = "select coalesce(max(number), 0) from aetheel.component";
    assert_eq!(postgres.ask(read), "0");
    let refused = postgres.psql(&send);
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && why.contains("on each machine"), "{why}");
    assert_eq!(postgres.ask(read), "0");
}

#[tokio::test]
async fn many_nodes_create_the_tables_at_the_same_time_and_one_becomes_the_leader() {
    let postgres = Postgres::start();
    let names: Vec<String> = (0..8).map(|number| format!("n{number}")).collect();
    let joining = names.iter().map(|name| {
        let (url, options) = (postgres.url(), options(name, name, LEASE));
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
            node.become_leader().await.unwrap();
            told.send(node).unwrap();
        });
    }
    let mut before: Option<Cluster> = None;
    for _ in 0..names.len() {
        let served_by = tokio::time::timeout(TIMEOUT, served.recv()).await;
        let node = served_by.expect("the next one").unwrap();
        assert!(served.try_recv().is_err(), "one at a time");
        node.write_leader_file("schedules.md", node.name()).await.unwrap();
        if let Some(before) = before.replace(node.clone()) {
            assert_eq!(before.write_leader_file("x.md", "").await, Err(ClusterError::Fenced));
        }
        node.leave().await;
    }
}

#[tokio::test]
async fn logins_and_files_of_the_leader_are_for_the_current_leader_only() {
    let postgres = Postgres::start();
    let (ann, bob) = (node(&postgres, "ann").await, node(&postgres, "bob").await);
    let now = jiff::Timestamp::now().as_millisecond();
    assert_eq!(ann.record_login(now).await, Err(ClusterError::Fenced), "there is no leader");
    ann.become_leader().await.unwrap();
    let day = 24 * 60 * 60 * 1_000;
    ann.record_login(now - day - 60_000).await.unwrap();
    ann.record_login(now - 5).await.unwrap();
    ann.record_login(now - 5).await.unwrap();
    assert_eq!(bob.record_login(now).await, Err(ClusterError::Fenced));
    assert_eq!(bob.write_leader_file("schedules.md", "bob").await, Err(ClusterError::Fenced));
    assert_eq!(bob.leader_file("schedules.md").await, Ok(None));
    ann.write_leader_file("schedules.md", "1").await.unwrap();
    ann.write_leader_file("schedules.md", "2").await.unwrap();
    assert_eq!(bob.leader_file("schedules.md").await, Ok(Some("2".to_owned())));

    // A node that restarts is still the leader: no other node becomes it meanwhile.
    let again = node(&postgres, "ann").await;
    assert_eq!(ann.record_login(now).await, Err(ClusterError::Fenced));
    again.become_leader().await.unwrap();
    again.resign_leader().await.unwrap();
    assert_eq!(again.record_login(now).await, Err(ClusterError::Fenced));
    bob.become_leader().await.unwrap();
    bob.record_login(now).await.unwrap();
    assert_eq!(bob.logins().await.unwrap(), [now - 5, now - 5, now]);

    // A dead leader is replaced when its lease has expired.
    let waiting = tokio::spawn({
        let again = again.clone();
        async move { again.become_leader().await }
    });
    bob.write_leader_file("schedules.md", "3").await.unwrap();
    declare_dead(&postgres, "bob");
    tokio::time::timeout(TIMEOUT, waiting).await.expect("it becomes the leader").unwrap().unwrap();
    assert_eq!(bob.write_leader_file("schedules.md", "4").await, Err(ClusterError::Fenced));
    assert_eq!(again.leader_file("schedules.md").await, Ok(Some("3".to_owned())));
}
