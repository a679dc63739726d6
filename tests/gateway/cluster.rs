//! Two machines for one bot: the second one follows when the first is gone, and never speaks beside
//! it.

use std::path::PathBuf;

use rustix::process::{Pid, Signal};

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord};
use crate::support::postgres::Postgres;
use crate::support::program::{Installation, Program};

const STANDS_BY: &str = "standing by: another node serves the bot";

fn node(local: &LocalDiscord, postgres: &Postgres, name: &str) -> Installation {
    installed(local)
        .with("AGENT_HOLDER", "require")
        .with("CLUSTER_URL", &postgres.url())
        .with("CLUSTER_LEASE_SECONDS", "5")
        .with("NODE_NAME", name)
}

/// The agents that work in an installation, whoever keeps them.
fn agents(installation: &Installation) -> Vec<Pid> {
    let workspace = installation.path("workspace").canonicalize().unwrap();
    let works_there = |pid: &Pid| {
        let process = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
        std::fs::read_link(process.join("cwd")).is_ok_and(|folder| folder == workspace)
            && std::fs::read_to_string(process.join("cmdline"))
                .is_ok_and(|line| line.contains("demo-agent"))
    };
    let names = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
    let pids = names.filter_map(|name| Pid::from_raw(name.to_str()?.parse().ok()?));
    pids.filter(works_there).collect()
}

async fn standing_by(installation: &Installation) -> Program {
    let program = installation.start(&["run"]);
    program.logs(STANDS_BY).await;
    program
}

#[tokio::test]
async fn another_machine_answers_what_one_left_and_its_agents_end() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let (one, two) = (node(&local, &postgres, "one"), node(&local, &postgres, "two"));
    let mut first = serving(&one).await;
    let second = standing_by(&two).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
    local.mention(CHANNEL, ANN, "slow 4");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.mention(CHANNEL, ANN, "and this");
    let waits = || postgres.ask("select string_agg(lines, '') from aetheel.journal");
    local.wait_for("the last prompt", |_| waits().contains("and this").then_some(())).await;
    assert_eq!(agents(&one).len(), 1);
    first.signal(Signal::KILL);
    first.ended().await;

    second.logs("this node follows another one: it goes on with its state files, and conversations begin anew").await;
    second.logs("aetheel is ready").await;
    assert_eq!(agents(&one), [], "its holder ended them");
    local.wait_for_message(CHANNEL, |text| text.ends_with("There.")).await;
    local.wait_for_message(CHANNEL, |text| text.contains("You said: and this")).await;
    let ends = local.texts(CHANNEL).iter().filter(|text| text.ends_with("There.")).count();
    assert_eq!(ends, 1, "{:?}", local.texts(CHANNEL));
    // The first one comes back, and stands by in its turn.
    let _first = standing_by(&one).await;
    let nodes = one.run(&["nodes"], "").await;
    let states: Vec<Vec<&str>> =
        nodes.stdout.lines().map(|line| line.split_whitespace().take(2).collect()).collect();
    assert_eq!(states, [["one", "stands"], ["two", "serves"]], "{}", nodes.stdout);
}

#[tokio::test]
async fn a_node_that_slept_too_long_says_nothing_when_it_wakes_up() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let (one, two) = (node(&local, &postgres, "one"), node(&local, &postgres, "two"));
    let mut first = serving(&one).await;
    let second = standing_by(&two).await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 2.")).await;
    assert_eq!(agents(&one).len(), 1);
    first.signal(Signal::STOP);
    second.logs("aetheel is ready").await;
    assert_eq!(agents(&one), [], "its holder ended them");
    // The second one shows the turn that it began again, from the start.
    let again = |text: &str| text.contains("Second 1.") && !text.contains("Second 2.");
    local.wait_for_message(CHANNEL, again).await;
    first.signal(Signal::CONT);
    let ended = first.ended().await;
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    assert!(!ended.stderr.contains("discord refused"), "{}", ended.stderr);
    let twice = local.texts(CHANNEL).iter().filter(|text| text.contains("Second 1.")).count();
    assert!(twice <= 2, "{:?}", local.texts(CHANNEL));
}

#[tokio::test]
async fn without_its_database_a_node_leaves_and_answers_once_it_is_back() {
    let (local, mut postgres) = (LocalDiscord::start().await, Postgres::start());
    let one = node(&local, &postgres, "one");
    let mut first = serving(&one).await;
    local.mention(CHANNEL, ANN, "slow 5");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    postgres.kill();
    assert_eq!(first.ended().await.code, 75);
    let again = one.start(&["run"]);
    again.logs("the database of the cluster is away; waiting for it").await;
    local.mention(CHANNEL, ANN, "written meanwhile");
    postgres.again();
    again.logs("aetheel is ready").await;
    local.wait_for_message(CHANNEL, |text| text.ends_with("There.")).await;
    local.wait_for_message(CHANNEL, |text| text.contains("You said: written meanwhile")).await;
    let texts = local.texts(CHANNEL);
    assert_eq!(texts.len(), 2, "{texts:?}");
}

#[tokio::test]
async fn a_machine_that_served_alone_brings_what_it_had_left_to_do() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let alone = installed(&local).with("AGENT_HOLDER", "require");
    let mut program = serving(&alone).await;
    local.mention(CHANNEL, ANN, "slow 3");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    program.signal(Signal::KILL);
    program.ended().await;
    let joined = alone.with("CLUSTER_URL", &postgres.url()).with("NODE_NAME", "one");
    let _program = serving(&joined).await;
    local.wait_for_message(CHANNEL, |text| text.ends_with("There.")).await;
    assert_eq!(local.texts(CHANNEL).len(), 1, "{:?}", local.texts(CHANNEL));
    assert!(!joined.path("config/state/queue.md").exists(), "nobody does it twice");
    assert!(joined.read("state/queue-before-cluster.md").contains("slow 3"));
}

#[tokio::test]
async fn a_machine_that_left_its_cluster_goes_on_with_the_holder_that_it_has() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let one = node(&local, &postgres, "one");
    let mut program = serving(&one).await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    program.signal(Signal::KILL);
    program.ended().await;
    // The holder ends it: nobody came back in time.
    local.wait_for("the end of its agent", |_| agents(&one).is_empty().then_some(())).await;
    let alone = one.with("CLUSTER_URL", "");
    let program = serving(&alone).await;
    assert_eq!(
        program.log().iter().filter(|line| line["message"] == "a new holder keeps agents").count(),
        0
    );
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_node_is_told_at_once_and_without_its_password() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("CLUSTER_URL", "mysql://ann:hunter2hunter2@h/x");
    let ended = installation.run(&["run"], "").await;
    let told = format!("{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.code, 78, "{told}");
    assert!(told.contains("CLUSTER_URL is no address"), "{told}");
    assert!(told.contains("AGENT_HOLDER is `off`") && !told.contains("hunter2"), "{told}");
}
