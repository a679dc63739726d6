//! A machine returns after others took over its channels, while its holder kept the agents.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::cluster::{agents, connected, node, node_of};
use super::serving;
use crate::support::discord::{ANN, CHANNEL, LocalDiscord};
use crate::support::postgres::Postgres;
use crate::support::program::{Installation, Program};

/// How long a user waits before pressing a button again that had no effect.
const PRESS_INTERVAL: Duration = Duration::from_secs(4);
const GOES_ON: &str = "this node continues the work of another node";

/// Starts two nodes. The second one serves `CHANNEL`, and its agents outlive its lease.
async fn two(local: &LocalDiscord, postgres: &Postgres) -> [(Installation, Program); 2] {
    let with_turns = |name| node(local, postgres, name).with("CLUSTER_TURN_LEASE_SECONDS", "120");
    let one = with_turns("one");
    let first = connected(&one).await;
    let two = with_turns("two").with("NODE_LABELS", "gpu");
    let second = serving(&two).await;
    [(one, first), (two, second)]
}

#[tokio::test]
async fn an_answer_that_was_finished_after_the_lease_is_delivered_once() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(_one, first), (two, mut second)] = two(&local, &postgres).await;
    local.mention(CHANNEL, ANN, "the colour is green");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: the colour is green")).await;
    local.mention(CHANNEL, ANN, "slow 3");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    second.signal(Signal::KILL);
    second.ended().await;
    let line = first.logs(GOES_ON).await;
    assert_eq!(line["waiting"], 1, "{line}");
    local.mention(CHANNEL, ANN, "and then");
    let is_notice = |text: &str| text.contains("while an agent worked here");
    local.wait_for_message(CHANNEL, is_notice).await;

    let second = serving(&two).await;
    first.logs("a channel returns to its machine, whose agent continues").await;
    local.wait_for_message(CHANNEL, |text| text.ends_with("There.")).await;
    let next = local.wait_for_message(CHANNEL, |text| text.contains("You said: and then")).await;
    assert!(next.content.contains("message 3 of our conversation"), "{}", next.content);
    assert_eq!(node_of(&postgres, CHANNEL), "two");
    let texts = local.texts(CHANNEL);
    assert_eq!(texts.iter().filter(|text| text.contains("There.")).count(), 1, "{texts:?}");
    assert_eq!(texts.iter().filter(|text| is_notice(text)).count(), 1, "{texts:?}");
    assert!(!texts.iter().any(|text| text.contains("may have used a tool")), "{texts:?}");
    assert!(second.log().iter().any(|line| line["message"] == "answer delivered"));
}

#[tokio::test]
async fn an_answer_that_was_posted_just_before_a_takeover_counts_as_finished() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let with_turns = |name| node(&local, &postgres, name).with("CLUSTER_TURN_LEASE_SECONDS", "15");
    let one = with_turns("one");
    let first = connected(&one).await;
    let two = with_turns("two").with("NODE_LABELS", "gpu");
    let mut second = serving(&two).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
    assert_eq!(node_of(&postgres, CHANNEL), "two");
    // The node dies before it learns that Discord has its answer.
    local.faults().latency(Duration::from_secs(4));
    local.mention(CHANNEL, ANN, "tool make");
    let is_whole = |text: &str| text.contains("One tool worked, one did not.");
    local.wait_for_message(CHANNEL, is_whole).await;
    second.signal(Signal::KILL);
    second.ended().await;
    local.faults().latency(Duration::ZERO);
    first.logs(GOES_ON).await;
    local.mention(CHANNEL, ANN, "and now");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: and now")).await;
    let texts = local.texts(CHANNEL);
    assert_eq!(texts.iter().filter(|text| is_whole(text)).count(), 1, "{texts:?}");
    let asks = |text: &String| text.contains('✂') || text.contains("may have used a tool");
    assert!(!texts.iter().any(asks), "{texts:?}");
}

#[tokio::test]
async fn a_machine_that_dies_again_gets_its_channel_back_at_the_next_start() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(_one, mut first), (two, mut second)] = two(&local, &postgres).await;
    local.mention(CHANNEL, ANN, "slow 30");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    second.signal(Signal::KILL);
    second.ended().await;
    first.logs(GOES_ON).await;
    let mut second = serving(&two).await;
    first.logs("a channel returns to its machine, whose agent continues").await;
    second.logs(GOES_ON).await;
    second.signal(Signal::KILL);
    second.ended().await;
    let second = serving(&two).await;
    local.wait_for_message(CHANNEL, |text| text.contains("Second 9.")).await;
    assert_eq!(agents(&two).len(), 1, "it is the same agent");
    assert!(!local.texts(CHANNEL).iter().any(|text| text.contains("may have used a tool")));
    assert!(!first.is_over());
    drop(second);
}

#[tokio::test]
async fn an_open_question_can_be_answered_after_the_return() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(_one, first), (two, mut second)] = two(&local, &postgres).await;
    local.mention(CHANNEL, ANN, "ask make");
    let asked = local.wait_for_message(CHANNEL, |text| text.contains("make")).await;
    second.signal(Signal::KILL);
    second.ended().await;
    first.logs(GOES_ON).await;
    let second = serving(&two).await;
    second.logs(GOES_ON).await;
    // As people do, she presses again after a while if there was no effect: the machine may not have
    // asked again yet, and a press before that removes the buttons until it has.
    let mut pressed: Option<Instant> = None;
    local
        .wait_for("the answer", |local| {
            if pressed.is_none_or(|at| at.elapsed() > PRESS_INTERVAL)
                && local.button(asked.id, "Allow once").is_some()
            {
                pressed = Some(Instant::now());
                local.press(asked.id, ANN, "Allow once");
            }
            let texts = local.texts(CHANNEL);
            texts.iter().any(|text| text.ends_with("Done, this once.")).then_some(())
        })
        .await;
    assert_eq!(node_of(&postgres, CHANNEL), "two");
}
