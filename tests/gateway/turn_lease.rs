//! The database of a cluster is away for longer than a node's lease. Turns continue, and a dead
//! node's channels in which a turn may still run are taken over only when its agents have ended.

use std::fs;

use rustix::process::{Signal, kill_process};

use super::cluster::{agents, connected, node, node_of};
use super::serving;
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER};
use crate::support::postgres::Postgres;
use crate::support::program::{Installation, Program};

const RAN_OUT: &str = "its lease has run out";
const GOES_ON: &str = "this node continues the work of another node";
const WAITS: &str = "I have received this and am waiting for my database";

/// Returns a node whose turns may run much longer than its lease.
fn patient(local: &LocalDiscord, postgres: &Postgres, name: &str, turns: &str) -> Installation {
    let node = node(local, postgres, name)
        .with("CLUSTER_LEASE_SECONDS", "2")
        .with("CLUSTER_TURN_LEASE_SECONDS", turns);
    let pinned = [CHANNEL, OTHER].map(|channel| format!("## channel {channel}\n- node: gpu\n"));
    fs::write(node.path("config/channels.md"), pinned.concat()).unwrap();
    node
}

/// Starts two nodes. The first one is connected to Discord, and the second one serves the channels.
async fn two_patient(
    local: &LocalDiscord,
    postgres: &Postgres,
    turns: &str,
) -> [(Installation, Program); 2] {
    let one = patient(local, postgres, "one", turns);
    let first = connected(&one).await;
    let two = patient(local, postgres, "two", turns).with("NODE_LABELS", "gpu");
    let second = serving(&two).await;
    [(one, first), (two, second)]
}

#[tokio::test]
async fn an_outage_of_the_database_longer_than_the_lease_ends_no_turn() {
    let (local, mut postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(_one, mut first), (two, mut second)] = two_patient(&local, &postgres, "90").await;
    local.mention(OTHER, ANN, "hello");
    local.wait_for_message(OTHER, |text| text.contains("You said: hello")).await;
    local.mention(CHANNEL, ANN, "slow 8");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let agent = agents(&two);
    postgres.kill();
    first.logs(RAN_OUT).await;
    second.logs(RAN_OUT).await;
    let said = local.texts(CHANNEL);
    let question = local.mention(OTHER, ANN, "written meanwhile");
    let word = local.wait_for_message(OTHER, |text| text.starts_with(WAITS)).await;
    assert_eq!(word.reply_to, Some(question));
    assert_eq!(agents(&two), agent, "its agent keeps running");
    assert_eq!(local.texts(CHANNEL), said, "and its output is not posted");

    postgres.again();
    local.wait_for_message(CHANNEL, |text| text.ends_with("Second 8. There.")).await;
    local.wait_for_message(OTHER, |text| text.contains("You said: written meanwhile")).await;
    assert!(!first.is_over() && !second.is_over(), "no node exited");
    for program in [&first, &second] {
        assert!(!program.stderr().contains(GOES_ON), "nothing was taken over");
    }
    assert_eq!(local.texts(CHANNEL).len(), 1, "{:?}", local.texts(CHANNEL));
    assert_eq!(local.texts(OTHER).len(), 3, "{:?}", local.texts(OTHER));
}

#[tokio::test]
async fn a_takeover_waits_only_for_channels_with_a_running_turn() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(_one, first), (two, mut second)] = two_patient(&local, &postgres, "25").await;
    local.mention(OTHER, ANN, "hello");
    local.wait_for_message(OTHER, |text| text.contains("You said: hello")).await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    second.signal(Signal::KILL);
    second.ended().await;
    first.logs(GOES_ON).await;
    local.mention(CHANNEL, ANN, "waits");
    local.mention(OTHER, ANN, "does not wait");
    local.wait_for_message(OTHER, |text| text.contains("You said: does not wait")).await;
    assert_eq!(agents(&two).len(), 1, "the dead node's holder keeps its agent");
    let said = local.texts(CHANNEL);
    assert!(!said.iter().any(|text| text.contains("(interrupted)")), "{said:?}");

    let offer = local.wait_for_message(CHANNEL, |text| text.contains("(interrupted)")).await;
    assert!(agents(&two).is_empty(), "the agent has ended before the user is asked");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: waits")).await;
    assert!(local.button(offer.id, "Try again").is_some());
}

#[tokio::test]
async fn a_channel_with_a_running_turn_is_taken_over_when_its_machine_starts_without_the_agent() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    // The test does not wait for the end of this lease.
    let [(_one, first), (two, mut second)] = two_patient(&local, &postgres, "3600").await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    second.signal(Signal::KILL);
    second.ended().await;
    first.logs(GOES_ON).await;
    for holder in two.holders() {
        kill_process(holder, Signal::KILL).unwrap();
    }
    local.mention(CHANNEL, ANN, "waits");
    let _second = serving(&two).await;
    local.wait_for_message(CHANNEL, |text| text.contains("(interrupted)")).await;
    assert!(agents(&two).is_empty(), "the agent has ended before the user is asked");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: waits")).await;
}

#[tokio::test]
async fn a_node_that_took_over_keeps_waiting_after_its_own_restart_and_gives_the_channel_back() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(one, mut first), (two, mut second)] = two_patient(&local, &postgres, "3600").await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    second.signal(Signal::KILL);
    second.ended().await;
    first.logs(GOES_ON).await;
    first.signal(Signal::KILL);
    first.ended().await;
    let first = connected(&one).await;
    local.mention(OTHER, ANN, "does not wait");
    local.wait_for_message(OTHER, |text| text.contains("You said: does not wait")).await;
    let said = local.texts(CHANNEL);
    assert!(!said.iter().any(|text| text.contains("(interrupted)")), "{said:?}");
    assert_eq!(agents(&two).len(), 1);
    let second = serving(&two).await;
    first.logs("a channel returns to its machine, whose agent continues").await;
    second.logs(GOES_ON).await;
    assert_eq!(node_of(&postgres, CHANNEL), "two");
    assert_eq!(agents(&two).len(), 1);
    let said = local.texts(CHANNEL);
    assert!(!said.iter().any(|text| text.contains("(interrupted)")), "{said:?}");
}
