//! Tests of the two leases of a node: one to write to Discord, and a longer one for its turns.

use std::time::Duration;

use aetheel_cluster::{Cluster, ClusterError, JoinKind, LaneOwner, NodeOptions};
use aetheel_model::id::ChannelId;
use aetheel_runtime::lease::{Lease, boot_ms};

use super::{BOT, TIMEOUT, bodies, declare_dead, letter, node, options, receive};
use crate::support::link::{Link, Way};
use crate::support::postgres::Postgres;

const SHORT_LEASE: Duration = Duration::from_millis(400);
/// Longer than any test.
const TURN_LEASE: Duration = Duration::from_secs(3_600);

/// Joins through a connection that can be interrupted.
async fn linked(postgres: &Postgres, options: NodeOptions) -> (Cluster, Link, tempfile::TempDir) {
    let folder = tempfile::Builder::new().prefix("link").tempdir_in("/tmp").unwrap();
    let link = Link::to_postgres(folder.path(), postgres.folder());
    let cluster = Cluster::join(&postgres.url_by(folder.path()), options).await.unwrap();
    (cluster, link, folder)
}

fn with_turns(name: &str, lease: Duration) -> NodeOptions {
    NodeOptions { turn_lease: TURN_LEASE, ..options(name, name, lease) }
}

/// Waits until a lease has expired.
async fn wait_for_expiry(lease: &Lease) {
    let waiting = async {
        while lease.is_valid() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.expect("the end of a lease");
}

/// Returns the lane in which a turn had begun.
fn waiting() -> [String; 1] {
    ["channel:1".to_owned()]
}

async fn opened(node: &Cluster) -> Vec<String> {
    let opening = async {
        loop {
            let opened = node.open_waiting_lanes(&waiting()).await.unwrap();
            if !opened.is_empty() {
                node.release_lanes(&opened);
                return opened;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, opening).await.expect("an open lane")
}

/// Returns two nodes: `ann` had `channel:1`, where a turn had begun, and `channel:2`. `bob` has
/// taken over both.
async fn taken_over(postgres: &Postgres) -> (Cluster, Cluster) {
    let ann = super::joined(postgres, with_turns("ann", super::LEASE)).await;
    ann.confirm_local_state().await.unwrap();
    ann.claim(&["channel:1".to_owned(), "channel:2".to_owned()]).await.unwrap();
    let bob = super::joined(postgres, with_turns("bob", super::LEASE)).await;
    declare_dead(postgres, "ann");
    assert_eq!(bob.claim_dead().await, Ok(1));
    let left = bob.handovers().await.unwrap().remove(0);
    let begun = ["channel:1".to_owned()];
    let closed = bob.waiting_lanes().await.unwrap();
    assert_eq!(closed.len(), 2, "a process that starts now leaves both to the next import");
    // A call whose response was lost is repeated.
    for _ in 0..2 {
        assert_eq!(bob.ack_handover(&left, &begun).await.unwrap(), ["channel:2"]);
    }
    bob.release_lanes(&["channel:2".to_owned()]);
    (ann, bob)
}

#[tokio::test]
async fn a_node_continues_when_the_database_returns_after_its_lease() {
    let postgres = Postgres::start();
    let (ann, link, _folder) = linked(&postgres, with_turns("ann", SHORT_LEASE)).await;
    ann.claim(&["channel:1".to_owned()]).await.unwrap();
    let mut lines = ann.journal();
    lines.append("one\n").await.unwrap();
    link.set(Way::Cut);
    wait_for_expiry(&ann.lease()).await;
    assert!(matches!(lines.append("two\n").await, Err(ClusterError::Away(_))));
    assert!(!ann.lease().is_ended() && ann.turn_lease().is_valid());
    let gone = format!("select count(*) from aetheel.node where bot = {BOT} and lease <= now()");
    while postgres.ask(&gone) != "1" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    link.set(Way::Open);
    tokio::time::timeout(TIMEOUT, ann.lease().wait_until_valid()).await.expect("its lease");
    lines.append("two, again\n").await.unwrap();
    assert_eq!(lines.read().await.unwrap(), "one\ntwo, again\n");
    ann.post(&[letter("channel:1", "hello")]).await.unwrap();
    assert_eq!(bodies(&receive(&mut ann.inbox()).await), ["hello"]);
}

#[tokio::test]
async fn a_call_during_a_short_lapse_of_the_lease_can_be_repeated() {
    let postgres = Postgres::start();
    let ann = node(&postgres, "ann").await;
    ann.lease().set(1);
    let late = [letter("channel:1", "hello")];
    assert!(matches!(ann.post(&late).await, Err(ClusterError::Away(_))));
    assert!(matches!(ann.journal().append("one\n").await, Err(ClusterError::Away(_))));
    assert!(matches!(ann.owner_of(ChannelId::discord(1)).await, Err(ClusterError::Away(_))));
    // The renewal was already under way.
    ann.lease().extend(boot_ms() + 60_000);
    ann.post(&late).await.unwrap();
    ann.journal().append("one\n").await.unwrap();
}

#[tokio::test]
async fn a_node_that_was_taken_over_while_it_had_no_database_is_fenced() {
    let postgres = Postgres::start();
    let (ann, link, _folder) = linked(&postgres, with_turns("ann", SHORT_LEASE)).await;
    ann.claim(&["channel:1".to_owned()]).await.unwrap();
    let bob = node(&postgres, "bob").await;
    link.set(Way::Cut);
    wait_for_expiry(&ann.lease()).await;
    declare_dead(&postgres, "ann");
    assert_eq!(bob.claim_dead().await, Ok(1));
    link.set(Way::Open);
    tokio::time::timeout(TIMEOUT, ann.lease().wait_until_ended()).await.expect("its end");
    assert!(!ann.turn_lease().is_valid(), "its agents end too");
    assert_eq!(ann.journal().append("late\n").await, Err(ClusterError::Fenced));
}

#[tokio::test]
async fn a_lane_with_a_begun_turn_is_opened_when_the_turn_lease_has_expired() {
    let postgres = Postgres::start();
    let (_ann, bob) = taken_over(&postgres).await;
    bob.post(&[letter("channel:1", "waits"), letter("channel:2", "does not")]).await.unwrap();
    let mut inbox = bob.inbox();
    assert_eq!(bodies(&receive(&mut inbox).await), ["does not"]);
    assert!(!bob.has_open_lane("channel:1"));
    assert_eq!(bob.open_waiting_lanes(&waiting()).await.unwrap(), [""; 0]);
    let closed = bob.waiting_lanes().await.unwrap();
    assert_eq!(closed.iter().map(|row| row.root.as_str()).collect::<Vec<_>>(), ["channel:1"]);

    postgres.ask("update aetheel.lane set waits_until = clock_timestamp() where not open");
    // A call whose response was lost is repeated. Otherwise the lane's events would not begin.
    for _ in 0..2 {
        assert_eq!(bob.open_waiting_lanes(&waiting()).await.unwrap(), ["channel:1"]);
    }
    // The events that waited are not in the queue yet.
    assert_eq!(bob.owner_of(ChannelId::discord(1)).await, Ok(LaneOwner::Moving));
    bob.post(&[letter("channel:2", "next")]).await.unwrap();
    assert_eq!(bodies(&receive(&mut inbox).await), ["next"]);
    assert!(!bob.has_open_lane("channel:1"));
    bob.release_lanes(&waiting());
    assert_eq!(bob.owner_of(ChannelId::discord(1)).await, Ok(LaneOwner::ThisNode));
    assert_eq!(bodies(&receive(&mut inbox).await), ["waits"]);
    assert_eq!(bob.waiting_lanes().await.unwrap(), []);
}

#[tokio::test]
async fn a_lane_with_a_begun_turn_is_opened_when_the_other_machine_reports_its_end() {
    let postgres = Postgres::start();
    let (_ann, bob) = taken_over(&postgres).await;
    // Reports of other machines do not matter.
    bob.report_agents_ended(&[]).await.unwrap();
    node(&postgres, "cyd").await.report_agents_ended(&[]).await.unwrap();
    assert_eq!(bob.open_waiting_lanes(&waiting()).await.unwrap(), [""; 0]);
    let back = Cluster::join(&postgres.url(), with_turns("ann", SHORT_LEASE)).await.unwrap();
    assert_eq!(back.join_kind(), JoinKind::Replaced);
    back.report_agents_ended(&[]).await.unwrap();
    assert_eq!(opened(&bob).await, ["channel:1"]);
}

#[tokio::test]
async fn a_machine_gets_a_lane_back_whose_agent_it_still_has() {
    let postgres = Postgres::start();
    let (_ann, bob) = taken_over(&postgres).await;
    bob.post(&[letter("channel:1", "waits")]).await.unwrap();
    let closed = bob.closed_messages().await.unwrap();
    assert_eq!(
        closed.iter().map(|(closed, _)| closed.body.as_str()).collect::<Vec<_>>(),
        ["waits"]
    );
    let back = Cluster::join(&postgres.url(), with_turns("ann", super::LEASE)).await.unwrap();
    let waiting_for_ann = back.lanes_waiting_for_this_machine().await.unwrap();
    assert_eq!(waiting_for_ann.len(), 1, "{waiting_for_ann:?}");
    assert_eq!(bob.wanted_lanes().await.unwrap(), []);
    assert_eq!(bob.give_back("channel:1", "", &[]).await, Ok(None), "nobody wants it yet");
    back.report_agents_ended(&waiting()).await.unwrap();
    postgres.ask("update aetheel.lane set waits_until = clock_timestamp() where not open");
    assert_eq!(bob.open_waiting_lanes(&waiting()).await.unwrap(), [""; 0], "its agent runs");
    assert_eq!(bob.wanted_lanes().await.unwrap(), waiting_for_ann);
    // A call whose response was lost is repeated.
    for _ in 0..2 {
        let given = bob.give_back("channel:1", "lines\n", &[]).await.unwrap();
        assert_eq!(given.as_deref(), Some("ann"));
    }
    assert_eq!(bob.open_waiting_lanes(&waiting()).await.unwrap(), [""; 0]);
    let left = back.handovers().await.unwrap().remove(0);
    assert_eq!((left.from.as_str(), left.journal.as_str()), ("bob", "lines\n"));
    assert_eq!(back.ack_handover(&left, &waiting()).await.unwrap(), waiting(), "its own agent");
    back.release_lanes(&waiting());
    assert_eq!(bodies(&receive(&mut back.inbox()).await), ["waits"]);
}

#[tokio::test]
async fn a_wanted_lane_is_opened_when_the_machine_dies_or_gives_it_up() {
    for gives_up in [true, false] {
        let postgres = Postgres::start();
        let (_ann, bob) = taken_over(&postgres).await;
        // Joined with its first renewal, which could otherwise follow its declared death.
        let back = super::joined(&postgres, with_turns("ann", super::LEASE)).await;
        back.report_agents_ended(&waiting()).await.unwrap();
        if gives_up {
            back.report_agents_ended(&[]).await.unwrap();
        } else {
            declare_dead(&postgres, "ann");
            postgres.ask("update aetheel.node set turns = lease where name = 'ann'");
        }
        assert_eq!(bob.give_back("channel:1", "", &[]).await, Ok(None));
        postgres.ask("update aetheel.lane set waits_until = clock_timestamp() where not open");
        assert_eq!(opened(&bob).await, ["channel:1"]);
        assert_eq!(back.lanes_waiting_for_this_machine().await.unwrap(), []);
    }
}

#[tokio::test]
async fn a_lane_that_waits_for_a_machine_still_waits_for_it_on_the_next_node() {
    let postgres = Postgres::start();
    let (_ann, _bob) = taken_over(&postgres).await;
    let cyd = node(&postgres, "cyd").await;
    declare_dead(&postgres, "bob");
    assert_eq!(cyd.claim_dead().await, Ok(1));
    let left = cyd.handovers().await.unwrap().remove(0);
    let begun = ["channel:1".to_owned()];
    assert_eq!(cyd.ack_handover(&left, &begun).await.unwrap(), ["channel:2"]);
    let back = Cluster::join(&postgres.url(), with_turns("bob", super::LEASE)).await.unwrap();
    back.report_agents_ended(&[]).await.unwrap();
    // A third of the lease is left after a report, and an hour before it.
    let ends = "select waits_for, waits_until > now() + interval '10 minutes' from aetheel.lane";
    assert_eq!(postgres.ask(&format!("{ends} where root = 'channel:1'")), "ann|t");
    let back = Cluster::join(&postgres.url(), with_turns("ann", super::LEASE)).await.unwrap();
    back.report_agents_ended(&[]).await.unwrap();
    assert_eq!(postgres.ask(&format!("{ends} where root = 'channel:1'")), "ann|f");
    postgres.ask("update aetheel.lane set waits_until = clock_timestamp() where not open");
    assert_eq!(opened(&cyd).await, ["channel:1"]);
}

#[tokio::test]
async fn a_node_learns_that_another_one_became_the_leader() {
    let postgres = Postgres::start();
    let (ann, bob) = (node(&postgres, "ann").await, node(&postgres, "bob").await);
    ann.become_leader().await.unwrap();
    assert_eq!((ann.is_leader().await, bob.is_leader().await), (Ok(true), Ok(false)));
    declare_dead(&postgres, "ann");
    bob.become_leader().await.unwrap();
    assert_eq!((ann.is_leader().await, bob.is_leader().await), (Ok(false), Ok(true)));
}

#[tokio::test]
async fn a_node_joins_a_slow_database() {
    let postgres = Postgres::start();
    let folder = tempfile::Builder::new().prefix("link").tempdir_in("/tmp").unwrap();
    let link = Link::to_postgres(folder.path(), postgres.folder());
    link.set(Way::Slow);
    // The lease of the default configuration.
    let options = with_turns("ann", Duration::from_secs(6));
    let url = postgres.url_by(folder.path());
    let joining = Cluster::join(&url, options);
    let ann = tokio::time::timeout(TIMEOUT, joining).await.expect("no repeated attempts").unwrap();
    let mut renewed = ann.lease().watch();
    tokio::time::timeout(TIMEOUT, renewed.changed()).await.expect("a renewal").unwrap();
    assert!(ann.lease().is_valid());
}

#[tokio::test]
async fn a_slow_database_makes_no_node_leave() {
    let postgres = Postgres::start();
    // The lease of the default configuration.
    let (ann, link, _folder) = linked(&postgres, with_turns("ann", Duration::from_secs(6))).await;
    link.set(Way::Slow);
    let lease = ann.lease();
    let mut renewed = lease.watch();
    for _ in 0..6 {
        let renewed = tokio::time::timeout(TIMEOUT, renewed.changed()).await;
        renewed.expect("a renewal").unwrap();
        assert!(lease.is_valid() && !lease.is_ended());
    }
}
