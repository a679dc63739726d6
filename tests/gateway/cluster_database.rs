//! The database of a cluster refuses its nodes or is slow. No message is lost or overtaken, and the
//! nodes recover by themselves.

use std::path::Path;

use rustix::process::Signal;

use super::cluster::{agents, connected, node, node_of};
use super::serving;
use crate::support::discord::{ANN, CHANNEL, CROWD, LocalDiscord, OTHER};
use crate::support::link::{Link, Way};
use crate::support::postgres::{Postgres, Refusal};
use crate::support::program::{Installation, Program};

const GOES_ON: &str = "this node continues the work of another node";
const WAITS: &str =
    "the database of the cluster cannot be reached or refuses this node; waiting for it";

/// Makes a node whose user of the database is not a superuser.
fn team_node(local: &LocalDiscord, postgres: &Postgres, url: &str, name: &str) -> Installation {
    node(local, postgres, name).with("CLUSTER_URL", url)
}

/// Makes a node with a slow link to the database.
fn slow_node(
    local: &LocalDiscord,
    postgres: &Postgres,
    name: &str,
    folder: &Path,
) -> (Installation, Link) {
    let link = Link::to_postgres(folder, postgres.folder());
    link.set(Way::Slow);
    (node(local, postgres, name).with("CLUSTER_URL", &postgres.url_by(folder)), link)
}

fn link_folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("link").tempdir_in("/tmp").unwrap()
}

/// Waits until the author of the latest prompt of a channel got the notice that it waits.
async fn waiting_notice(local: &LocalDiscord, channel: u64, notices: usize) {
    let is_notice = |text: &&String| text.contains("am waiting for my database");
    let count = || local.texts(channel).iter().filter(is_notice).count();
    local.wait_for("the notice", |_| (count() >= notices).then_some(())).await;
}

fn answers(local: &LocalDiscord, channel: u64, prompt: &str) -> usize {
    let answer = format!("You said: {prompt}");
    local.texts(channel).iter().filter(|text| text.lines().any(|line| line == answer)).count()
}

#[tokio::test]
async fn prompts_are_answered_after_any_refusal_of_the_database_and_no_node_ends() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    postgres.create_team();
    let url = postgres.team_url(postgres.folder());
    let with_turns =
        |name| team_node(&local, &postgres, &url, name).with("CLUSTER_TURN_LEASE_SECONDS", "600");
    let one = with_turns("one");
    let mut first = connected(&one).await;
    let two = with_turns("two").with("NODE_LABELS", "gpu");
    let mut second = serving(&two).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;

    let refusals = [Refusal::Password, Refusal::Login, Refusal::Connections, Refusal::Rights];
    for (round, refusal) in refusals.into_iter().enumerate() {
        let lapses = |program: &Program| {
            let is_lapse = |line: &serde_json::Value| {
                line["message"].as_str().is_some_and(|text| text.starts_with("its lease has run"))
            };
            program.log().iter().filter(|line| is_lapse(line)).count()
        };
        postgres.refuse_team(refusal);
        let before = (lapses(&first), lapses(&second));
        // One prompt in a channel of the other node, and one in a channel that no node has.
        let (new, prompt) = (CROWD + round as u64, format!("during {refusal:?}"));
        local.mention(CHANNEL, ANN, &prompt);
        local.mention(new, ANN, &prompt);
        waiting_notice(&local, CHANNEL, round + 1).await;
        waiting_notice(&local, new, 1).await;
        local
            .wait_for("the end of the leases", |_| {
                (lapses(&first) > before.0 && lapses(&second) > before.1).then_some(())
            })
            .await;
        local.mention(CHANNEL, ANN, &format!("second {prompt}"));
        postgres.accept_team();
        for (channel, prompt) in
            [(CHANNEL, prompt.clone()), (CHANNEL, format!("second {prompt}")), (new, prompt)]
        {
            local
                .wait_for(&prompt, |_| (answers(&local, channel, &prompt) > 0).then_some(()))
                .await;
        }
    }
    for refusal in refusals {
        for prompt in [format!("during {refusal:?}"), format!("second during {refusal:?}")] {
            assert_eq!(answers(&local, CHANNEL, &prompt), 1, "{:?}", local.texts(CHANNEL));
        }
    }
    let texts = local.texts(CHANNEL).join("\n");
    let place = |prompt: &str| texts.find(&format!("You said: {prompt}")).unwrap();
    assert!(place("during Password") < place("second during Password"), "{texts}");
    assert!(!first.is_over() && !second.is_over());
}

#[tokio::test]
async fn nodes_that_end_while_the_database_refuses_wait_for_it_and_answer_every_prompt() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    postgres.create_team();
    let url = postgres.team_url(postgres.folder());
    let one = team_node(&local, &postgres, &url, "one").with("CLUSTER_TURN_LEASE_SECONDS", "15");
    let mut first = connected(&one).await;
    local.mention(OTHER, ANN, "hello");
    local.wait_for_message(OTHER, |text| text.contains("You said: hello")).await;
    postgres.refuse_team(Refusal::Password);
    // The bot was never addressed in the second channel.
    for channel in [OTHER, CROWD] {
        local.mention(channel, ANN, "written while it refused");
    }
    waiting_notice(&local, OTHER, 1).await;
    waiting_notice(&local, CROWD, 1).await;
    assert_eq!(first.ended().await.code, 75, "its lease for turns has ended");
    let mut again = one.start(&["run"]);
    let line = again.logs(WAITS).await;
    assert!(line["why"].as_str().unwrap().contains("team"), "it names the user: {line}");
    assert!(!again.is_over());
    postgres.accept_team();
    again.logs("aetheel is ready").await;
    for channel in [OTHER, CROWD] {
        let says = |text: &str| text.contains("You said: written while it refused");
        local.wait_for_message(channel, says).await;
        assert_eq!(answers(&local, channel, "written while it refused"), 1);
    }
}

#[tokio::test]
async fn a_prompt_that_a_replaced_leader_could_not_pass_on_is_answered() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let folder = link_folder();
    let link = Link::to_postgres(folder.path(), postgres.folder());
    let one = node(&local, &postgres, "one")
        .with("CLUSTER_URL", &postgres.url_by(folder.path()))
        .with("CLUSTER_TURN_LEASE_SECONDS", "15");
    let mut first = connected(&one).await;
    local.mention(OTHER, ANN, "hello");
    local.wait_for_message(OTHER, |text| text.contains("You said: hello")).await;
    let two = node(&local, &postgres, "two");
    let second = serving(&two).await;
    link.set(Way::Cut);
    // The bot was never addressed in this channel, so no node has it.
    local.mention(CROWD, ANN, "kept by the leader");
    waiting_notice(&local, CROWD, 1).await;
    second.logs(GOES_ON).await;
    second.logs("discord is ready").await;
    first.ended().await;
    local.wait_for_message(CROWD, |text| text.contains("You said: kept by the leader")).await;
    link.set(Way::Open);
    let again = serving(&one).await;
    again.logs("another node took over the channels of this one").await;
    local.mention(CROWD, ANN, "and then");
    local.wait_for_message(CROWD, |text| text.contains("You said: and then")).await;
    assert_eq!(answers(&local, CROWD, "kept by the leader"), 1);
    assert_eq!(node_of(&postgres, OTHER), "two");
}

#[tokio::test]
async fn a_prompt_in_a_new_channel_is_answered_although_the_refused_leader_died_at_once() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    postgres.create_team();
    let url = postgres.team_url(postgres.folder());
    let one = team_node(&local, &postgres, &url, "one");
    let mut first = connected(&one).await;
    let two = team_node(&local, &postgres, &postgres.accepted_team_url(), "two");
    let second = serving(&two).await;
    postgres.refuse_team(Refusal::Password);
    // No node has these channels, and the leader has no time to note them.
    for channel in [CROWD, CROWD + 1] {
        local.mention(channel, ANN, "before it died");
        local.say(channel, ANN, "not for the bot");
    }
    local.say(CROWD + 2, ANN, "not for the bot");
    first.signal(Signal::KILL);
    first.ended().await;
    second.logs("discord is ready").await;
    for channel in [CROWD, CROWD + 1] {
        let says = |text: &str| text.contains("You said: before it died");
        local.wait_for_message(channel, says).await;
        assert_eq!(answers(&local, channel, "before it died"), 1);
    }
    let lanes = postgres.ask_team("select string_agg(node, ' ') from aetheel.lane");
    assert_eq!(lanes, "two two", "no other channel was assigned to a node");
}

#[tokio::test]
async fn the_author_learns_that_the_database_cannot_store_a_message() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let one = node(&local, &postgres, "one");
    let _first = connected(&one).await;
    postgres.ask("alter table aetheel.mail add check (body not like '%xyzzy%')");
    local.mention(OTHER, ANN, "first");
    local.mention(OTHER, ANN, "xyzzy");
    local.mention(OTHER, ANN, "last");
    local.wait_for_message(OTHER, |text| text.contains("cannot store this message")).await;
    local.wait_for_message(OTHER, |text| text.contains("You said: last")).await;
    assert_eq!((answers(&local, OTHER, "first"), answers(&local, OTHER, "xyzzy")), (1, 0));
}

#[tokio::test]
async fn errors_while_the_database_is_away_do_not_name_a_file_of_the_queue() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let folder = link_folder();
    let link = Link::to_postgres(folder.path(), postgres.folder());
    let one = node(&local, &postgres, "one")
        .with("CLUSTER_URL", &postgres.url_by(folder.path()))
        .with("CLUSTER_TURN_LEASE_SECONDS", "600");
    let first = connected(&one).await;
    local.mention(OTHER, ANN, "slow 3");
    local.wait_for_message(OTHER, |text| text.contains("Second 1.")).await;
    link.set(Way::Cut);
    let refused = first.logs("cannot write the queue").await;
    assert_eq!(refused["place"], "the database of the cluster", "{refused}");
    first.logs("the turn is paused: the queue cannot be written").await;
    link.set(Way::Open);
    local.wait_for_message(OTHER, |text| text.ends_with("There.")).await;
    let names_file = |line: &serde_json::Value| line.to_string().contains("queue.md");
    let lines: Vec<_> = first.log().into_iter().filter(names_file).collect();
    assert!(lines.is_empty(), "{lines:?}");
}

#[tokio::test]
async fn after_a_takeover_earlier_prompts_come_first_although_the_database_is_slow() {
    const CHANNELS: u64 = 6;
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let one = node(&local, &postgres, "one").with("MAX_CONCURRENT_QUERIES", "6");
    let mut first = connected(&one).await;
    for channel in CROWD..CROWD + CHANNELS {
        local.mention(channel, ANN, "hello");
        local.wait_for_message(channel, |text| text.contains("You said: hello")).await;
    }
    let folder = link_folder();
    let (two, _link) = slow_node(&local, &postgres, "two", folder.path());
    let two = two.with("MAX_CONCURRENT_QUERIES", "6");
    let second = serving(&two).await;
    for channel in CROWD..CROWD + CHANNELS {
        local.mention(channel, ANN, "slow 600");
        local.wait_for_message(channel, |text| text.contains("Second 1.")).await;
        local.mention(channel, ANN, "waited");
    }
    let journal = || postgres.ask("select string_agg(lines, '') from aetheel.journal");
    let waiting = || journal().matches("waited").count() as u64 == CHANNELS;
    local.wait_for("the waiting prompts", |_| waiting().then_some(())).await;
    first.signal(Signal::KILL);
    first.ended().await;
    // No node is logged in. The node that takes over reads these from the channels.
    for channel in CROWD..CROWD + CHANNELS {
        local.mention(channel, ANN, "closed");
    }
    second.logs(GOES_ON).await;
    for channel in CROWD..CROWD + CHANNELS {
        local.wait_for_message(channel, |text| text.contains("You said: closed")).await;
        let texts = local.texts(channel).join("\n");
        let place = |prompt: &str| texts.find(&format!("You said: {prompt}"));
        assert!(place("waited") < place("closed") && place("waited").is_some(), "{texts}");
    }
    assert_eq!(node_of(&postgres, CROWD), "two");
    assert_eq!(agents(&one), []);
}

#[tokio::test]
async fn a_node_serves_with_a_database_of_200_milliseconds() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let folder = link_folder();
    let (one, _link) = slow_node(&local, &postgres, "one", folder.path());
    let first = connected(&one).await;
    local.mention(OTHER, ANN, "hello");
    local.wait_for_message(OTHER, |text| text.contains("You said: hello")).await;
    let waits = |line: &serde_json::Value| line["message"] == WAITS;
    assert!(!first.log().iter().any(waits), "no attempt to join failed");
}

#[tokio::test]
async fn an_idle_node_that_is_terminated_is_taken_over_without_waiting_for_its_lease() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let one = node(&local, &postgres, "one");
    let first = connected(&one).await;
    // The test would time out before this lease ends.
    let two = node(&local, &postgres, "two")
        .with("NODE_LABELS", "gpu")
        .with("CLUSTER_LEASE_SECONDS", "60")
        .with("CLUSTER_TURN_LEASE_SECONDS", "60");
    let mut second = serving(&two).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
    assert_eq!(node_of(&postgres, CHANNEL), "two");
    second.signal(Signal::TERM);
    let ended = second.ended().await;
    assert!(ended.stderr.contains("this node has left the cluster"), "{}", ended.stderr);
    first.logs(GOES_ON).await;
    local.mention(CHANNEL, ANN, "and now");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: and now")).await;
    assert_eq!(node_of(&postgres, CHANNEL), "one");
}
