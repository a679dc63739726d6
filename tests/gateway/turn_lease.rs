//! The database of a cluster is away for longer than the lease to speak: turns go on, and channels
//! of a dead machine in which one may still run are opened only when its agents have ended.

use std::fs;

use rustix::process::Signal;

use super::cluster::{agents, hearing, node};
use super::serving;
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER};
use crate::support::postgres::Postgres;
use crate::support::program::{Installation, Program};

const RAN_OUT: &str = "its lease has run out";
const GOES_ON: &str = "this node goes on with what another one had";
const WAITS: &str = "I have received this and am waiting for my database";

/// A machine whose turns outlive its lease by far.
fn patient(local: &LocalDiscord, postgres: &Postgres, name: &str, turns: &str) -> Installation {
    let node = node(local, postgres, name)
        .with("CLUSTER_LEASE_SECONDS", "2")
        .with("CLUSTER_TURN_LEASE_SECONDS", turns);
    let pinned = [CHANNEL, OTHER].map(|channel| format!("## channel {channel}\n- node: gpu\n"));
    fs::write(node.path("config/channels.md"), pinned.concat()).unwrap();
    node
}

/// Two machines: the first one has Discord's connection, and the second one serves the channels.
async fn two_patient(
    local: &LocalDiscord,
    postgres: &Postgres,
    turns: &str,
) -> [(Installation, Program); 2] {
    let one = patient(local, postgres, "one", turns);
    let first = hearing(&one).await;
    let two = patient(local, postgres, "two", turns).with("NODE_LABELS", "gpu");
    let second = serving(&two).await;
    [(one, first), (two, second)]
}

#[tokio::test]
async fn a_database_that_is_away_for_longer_than_the_lease_ends_no_turn() {
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
    assert_eq!(agents(&two), agent, "its agent goes on");
    assert_eq!(local.texts(CHANNEL), said, "and nothing of it is said");

    postgres.again();
    local.wait_for_message(CHANNEL, |text| text.ends_with("Second 8. There.")).await;
    local.wait_for_message(OTHER, |text| text.contains("You said: written meanwhile")).await;
    assert!(!first.is_over() && !second.is_over(), "no machine left");
    for program in [&first, &second] {
        assert!(!program.stderr().contains(GOES_ON), "nothing was taken over");
    }
    assert_eq!(local.texts(CHANNEL).len(), 1, "{:?}", local.texts(CHANNEL));
    assert_eq!(local.texts(OTHER).len(), 3, "{:?}", local.texts(OTHER));
    assert_eq!(local.logins().0, 1, "the connection to discord stayed");
}

#[tokio::test]
async fn a_channel_with_a_running_turn_is_opened_when_its_agent_has_ended_and_others_at_once() {
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
    assert_eq!(agents(&two).len(), 1, "the holder of the dead machine keeps its agent");
    let said = local.texts(CHANNEL);
    assert!(!said.iter().any(|text| text.contains("(interrupted)")), "{said:?}");

    let offer = local.wait_for_message(CHANNEL, |text| text.contains("(interrupted)")).await;
    assert!(agents(&two).is_empty(), "it has ended before people are asked");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: waits")).await;
    assert!(local.button(offer.id, "Try again").is_some());
}

#[tokio::test]
async fn a_channel_with_a_running_turn_is_opened_when_its_machine_starts_again() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    // Nobody waits for its end.
    let [(_one, first), (two, mut second)] = two_patient(&local, &postgres, "3600").await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    second.signal(Signal::KILL);
    second.ended().await;
    first.logs(GOES_ON).await;
    local.mention(CHANNEL, ANN, "waits");
    let _second = serving(&two).await;
    local.wait_for_message(CHANNEL, |text| text.contains("(interrupted)")).await;
    assert!(agents(&two).is_empty(), "it has ended before people are asked");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: waits")).await;
}

#[tokio::test]
async fn a_node_that_takes_over_and_starts_again_goes_on_waiting() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(one, mut first), (two, mut second)] = two_patient(&local, &postgres, "3600").await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    second.signal(Signal::KILL);
    second.ended().await;
    first.logs(GOES_ON).await;
    first.signal(Signal::KILL);
    first.ended().await;
    let _first = hearing(&one).await;
    local.mention(OTHER, ANN, "does not wait");
    local.wait_for_message(OTHER, |text| text.contains("You said: does not wait")).await;
    let said = local.texts(CHANNEL);
    assert!(!said.iter().any(|text| text.contains("(interrupted)")), "{said:?}");
    assert_eq!(agents(&two).len(), 1);
    let _second = serving(&two).await;
    local.wait_for_message(CHANNEL, |text| text.contains("(interrupted)")).await;
}
