//! Several machines serve one bot. They share its channels and take over from each other, and never
//! two write to a channel at the same time.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use rustix::process::{Pid, Signal};
use serde_json::json;

use super::components::{download, mini, prepared, wait_for_generation};
use super::{installed, serving};
use crate::support::caller::Call;
use crate::support::discord::{ANN, BOT, CHANNEL, CROWD, LocalDiscord, OTHER, THREAD};
use crate::support::postgres::Postgres;
use crate::support::program::{Installation, Program};

/// Lets only nodes with the label serve `CHANNEL`.
const PINNED: &str = "## channel 500000000000000001\n- node: gpu\n";
const GOES_ON: &str = "this node continues the work of another node";

pub(super) fn node(local: &LocalDiscord, postgres: &Postgres, name: &str) -> Installation {
    let node = installed(local)
        .with("AGENT_HOLDER", "require")
        .with("CLUSTER_URL", &postgres.url())
        .with("CLUSTER_LEASE_SECONDS", "5")
        // In most of these tests dead machines do not return. Their channels are reserved for this
        // time.
        .with("CLUSTER_TURN_LEASE_SECONDS", "5")
        .with("NODE_NAME", name);
    fs::write(
        node.path("config/channels.md"),
        PINNED.replace("500000000000000001", &CHANNEL.to_string()),
    )
    .unwrap();
    node
}

/// Starts a node and waits until it is connected to Discord.
pub(super) async fn connected(installation: &Installation) -> Program {
    let program = serving(installation).await;
    program.logs("discord is ready").await;
    program
}

/// Starts two nodes. The first one is connected to Discord, and the second one serves `CHANNEL`.
pub(super) async fn two(local: &LocalDiscord, postgres: &Postgres) -> [(Installation, Program); 2] {
    let one = node(local, postgres, "one");
    let first = connected(&one).await;
    let two = node(local, postgres, "two").with("NODE_LABELS", "gpu");
    let second = serving(&two).await;
    [(one, first), (two, second)]
}

/// Returns all prompts that agents of an installation got.
fn asked_in(installation: &Installation) -> String {
    let sessions = fs::read_dir(installation.path("workspace/.demo-agent")).unwrap().flatten();
    sessions.map(|session| fs::read_to_string(session.path()).unwrap()).collect()
}

/// Returns the name of the node that has a channel.
pub(super) fn node_of(postgres: &Postgres, channel: u64) -> String {
    postgres.ask(&format!("select node from aetheel.lane where root = 'channel:{channel}'"))
}

/// Returns the agents that run in an installation, also those of its holder.
pub(super) fn agents(installation: &Installation) -> Vec<Pid> {
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

#[tokio::test]
async fn nodes_share_the_channels_and_each_conversation_stays_on_its_node() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(one, first), (_two, _second)] = two(&local, &postgres).await;
    let ready = "select count(*) from aetheel.node where room > 0";
    local.wait_for("free slots", |_| postgres.ask(ready).eq("2").then_some(())).await;
    for round in ["message 1", "message 2"] {
        for channel in 0..6 {
            local.mention(CROWD + channel, ANN, "hello");
        }
        for channel in 0..6 {
            let says = |text: &str| round == "message 1" || text.contains(round);
            local
                .wait_for_message(CROWD + channel, |text| {
                    text.contains("You said: hello") && says(text)
                })
                .await;
        }
    }
    let served = |name: &str| {
        let lanes = format!("select count(*) from aetheel.lane where node = '{name}'");
        postgres.ask(&lanes).parse::<u32>().unwrap()
    };
    assert_eq!(served("one") + served("two"), 6);
    assert!(served("one") >= 2 && served("two") >= 2, "{} {}", served("one"), served("two"));
    assert_eq!(local.logins().0, 1, "only one of them is logged in");
    let nodes = one.run(&["nodes"], "").await.stdout;
    let lines: Vec<&str> = nodes.lines().collect();
    assert!(
        lines[0].starts_with("one  works") && lines[0].contains("logged in to discord"),
        "{nodes}"
    );
    assert!(lines[1].starts_with("two  works") && lines[1].ends_with("gpu"), "{nodes}");
    assert!(!nodes.contains("differ"), "{nodes}");
    fs::write(one.path("config/soul.md"), "Another soul.").unwrap();
    local
        .wait_for("the difference", |_| {
            postgres.ask("select count(distinct files) from aetheel.node").eq("2").then_some(())
        })
        .await;
    assert!(one.run(&["nodes"], "").await.stdout.contains("its config/ differs"));
    drop(first);
}

#[tokio::test]
async fn nodes_names_the_machine_whose_backends_differ() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let machine = |name| {
        let machine = prepared(node(&local, &postgres, name));
        fs::write(machine.backend("mini"), mini("1.0.0", json!({}))).unwrap();
        machine
    };
    let (one, two) = (machine("one"), machine("two"));
    let (_first, second) = (connected(&one).await, serving(&two).await);
    let new = download(&two, "new.wasm", &mini("2.0.0", json!({})));
    let ended = two.run(&["backend", "install", &new], "").await;
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    wait_for_generation(&second, 2).await;
    let different = "select count(distinct nullif(components, '')) from aetheel.node";
    local.wait_for("reports", |_| postgres.ask(different).eq("2").then_some(())).await;
    let nodes = one.run(&["nodes"], "").await.stdout;
    let line = |name| nodes.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("two").ends_with("its backends differ"), "{nodes}");
    assert!(!line("one").contains("its backends differ"), "{nodes}");
}

#[tokio::test]
async fn all_actions_of_users_work_when_another_node_is_connected_to_discord() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(_one, first), (two, second)] = two(&local, &postgres).await;
    local.mention(CHANNEL, ANN, "ask make");
    let asked = local.wait_for_message(CHANNEL, |text| text.contains("make")).await;
    assert_eq!(node_of(&postgres, CHANNEL), "two");
    assert_eq!(agents(&two).len(), 1, "the agent runs on the second node");
    local.press(asked.id, ANN, "Allow once");
    local.wait_for_message(CHANNEL, |text| text.ends_with("Done, this once.")).await;
    local.mention(CHANNEL, ANN, "slow 3");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    // One waiting prompt is edited, and another one is deleted.
    let waits = local.mention(CHANNEL, ANN, "first words");
    let gone = local.mention(CHANNEL, ANN, "never mind");
    let journal =
        || postgres.ask("select string_agg(lines, '') from aetheel.journal where node = 'two'");
    local.wait_for("what waits", |_| journal().contains("never mind").then_some(())).await;
    local.edit(waits, &format!("<@{BOT}> better words"));
    local.delete(gone);
    local.wait_for_message(CHANNEL, |text| text.contains("You said: better words")).await;
    local.mention(CHANNEL, ANN, "hang");
    let works = || (agents(&two).len() == 1).then_some(());
    local.wait_for("the agent", |_| works()).await;
    let stop = local.slash(CHANNEL, ANN, "stop", None);
    local.answer_to(stop).await;
    local.wait_for("its end", |_| agents(&two).is_empty().then_some(())).await;
    local.slash(CHANNEL, ANN, "ask", Some("by command"));
    local.wait_for_message(CHANNEL, |text| text.contains("You said: by command")).await;
    assert!(!local.texts(CHANNEL).iter().any(|text| text.contains("never mind")));
    assert!(second.log().iter().any(|line| line["message"] == "answer delivered"));
    assert!(!first.log().iter().any(|line| line["message"] == "answer delivered"));
}

#[tokio::test]
async fn another_node_answers_the_prompts_of_a_dead_one_whose_agents_end() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(one, first), (two, mut second)] = two(&local, &postgres).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
    local.mention(CHANNEL, ANN, "slow 4");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.mention(CHANNEL, ANN, "and this");
    let waits = || postgres.ask("select string_agg(lines, '') from aetheel.journal");
    local.wait_for("the last prompt", |_| waits().contains("and this").then_some(())).await;
    assert_eq!(agents(&two).len(), 1);
    second.signal(Signal::KILL);
    second.ended().await;

    first.logs(GOES_ON).await;
    assert_eq!(agents(&two), [], "its holder ended its agents");
    let answer = local.wait_for_message(CHANNEL, |text| text.contains("and this")).await;
    assert!(answer.content.contains("moved to another machine"), "{}", answer.content);
    // The actions of its agent after the node's last renewal are unknown.
    let offer = local.wait_for_message(CHANNEL, |text| text.contains("may have used a tool")).await;
    assert!(!local.texts(CHANNEL).iter().any(|text| text.contains("There.")));
    local.press(offer.id, ANN, "Try again");
    local.wait_for_message(CHANNEL, |text| text.contains("There.")).await;
    let ends = local.texts(CHANNEL).iter().filter(|text| text.contains("There.")).count();
    assert_eq!(ends, 1, "{:?}", local.texts(CHANNEL));
    // The second node returns without its former channels.
    let second = two.start(&["run"]);
    second.logs("another node took over the channels of this one").await;
    second.logs("aetheel is ready").await;
    assert_eq!(node_of(&postgres, CHANNEL), "one");
    drop(one);
}

#[tokio::test]
async fn another_node_connects_when_the_one_connected_to_discord_dies() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(_one, mut first), (_two, second)] = two(&local, &postgres).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
    first.signal(Signal::KILL);
    first.ended().await;
    local.mention(CHANNEL, ANN, "written meanwhile");
    second.logs("this node is the one that is logged in to discord").await;
    local.wait_for_message(CHANNEL, |text| text.contains("You said: written meanwhile")).await;
    assert_eq!(local.logins().0, 2);
}

#[tokio::test]
async fn a_takeover_leaves_alone_a_channel_that_the_dead_node_had_moved_away() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(one, first), (two, _second)] = two(&local, &postgres).await;
    let hello = local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
    // It keeps the channel while a turn runs there, and takes nothing over.
    local.mention(CHANNEL, ANN, "hang");
    local.wait_for("its agent", |_| (agents(&two).len() == 1).then_some(())).await;
    assert_eq!(one.run(&["drain", "two", "--no-wait"], "").await.code, 0);
    let drains = "select draining from aetheel.node where name = 'two'";
    local.wait_for("the draining", |_| postgres.ask(drains).eq("t").then_some(())).await;
    // A node that had the channel, moved it away and died with its old notes about it.
    postgres.ask(&format!(
        "insert into aetheel.node (bot, name, identity, start, lease, version, labels, files, components)
         select bot, 'ghost', 'x', 7, clock_timestamp() - interval '1 s', version, labels, files, components
         from aetheel.node where name = 'one';
         insert into aetheel.lane (bot, root, node)
         select bot, 'channel:{OTHER}', 'ghost' from aetheel.node where name = 'one';
         insert into aetheel.file (bot, node, name, body)
         select bot, 'ghost', 'discord.md', '- `channel:{CHANNEL}` seen to `{}`' || e'\n' || '- `channel:{OTHER}` seen to `{}`' || e'\n'
         from aetheel.node where name = 'one';",
        hello - 1,
        hello - 1
    ));
    local.mention(OTHER, ANN, "written while nobody served");
    first.logs(GOES_ON).await;
    local.wait_for_message(OTHER, |text| text.contains("You said: written while")).await;
    // The takeover is complete when the next prompt in another channel is answered.
    local.mention(CROWD, ANN, "and after that");
    local.wait_for_message(CROWD, |text| text.contains("You said: and after that")).await;
    assert_eq!(node_of(&postgres, CHANNEL), "two");
    assert_eq!(asked_in(&one).matches("hello").count(), 0, "{}", asked_in(&one));
    let twice = local.texts(CHANNEL).iter().filter(|text| text.contains("You said: hello")).count();
    assert_eq!(twice, 1, "{:?}", local.texts(CHANNEL));
}

#[tokio::test]
async fn a_node_that_was_stopped_too_long_sends_nothing_when_it_continues() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(_one, first), (two, mut second)] = two(&local, &postgres).await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 2.")).await;
    assert_eq!(agents(&two).len(), 1);
    second.signal(Signal::STOP);
    first.logs(GOES_ON).await;
    assert_eq!(agents(&two), [], "its holder ended its agents");
    local.wait_for_message(CHANNEL, |text| text.contains("may have used a tool")).await;
    second.signal(Signal::CONT);
    let ended = second.ended().await;
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    assert!(!ended.stderr.contains("discord refused"), "{}", ended.stderr);
    let twice = local.texts(CHANNEL).iter().filter(|text| text.contains("Second 1.")).count();
    assert!(twice <= 2, "{:?}", local.texts(CHANNEL));
}

#[tokio::test]
async fn the_files_of_a_moved_channel_are_in_the_database_before_its_handover_is_deleted() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(one, _first), (_two, _second)] = two(&local, &postgres).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
    postgres.ask(&format!(
        "create table seen (copied bool);
         create function look() returns trigger language plpgsql as $$ begin
             insert into seen select exists (
                 select from aetheel.file where node = old.to_node and name = 'discord.md' and body like '%{CHANNEL}%');
             return old;
         end $$;
         create trigger look before delete on aetheel.handover for each row execute function look();
         grant all on seen to public"
    ));
    assert_eq!(one.run(&["drain", "two"], "").await.code, 0);
    assert_eq!(node_of(&postgres, CHANNEL), "one");
    let copied = local
        .wait_for("the deleted handover", |_| {
            let seen = postgres.ask("select bool_and(copied) from seen");
            (!seen.is_empty()).then_some(seen)
        })
        .await;
    assert_eq!(copied, "t");
}

#[tokio::test]
async fn a_drained_node_finishes_its_turns_and_moves_its_channels() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(one, first), (_two, second)] = two(&local, &postgres).await;
    local.mention(CHANNEL, ANN, "the colour is green");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: the colour is green")).await;
    let chosen = local.slash(CHANNEL, ANN, "footer", None);
    let _ = chosen;
    local.mention(CHANNEL, ANN, "slow 3");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let drained = one.run(&["drain", "two"], "").await;
    assert_eq!(drained.code, 0, "{}{}", drained.stdout, drained.stderr);
    assert!(
        local.texts(CHANNEL).iter().any(|text| text.ends_with("There.")),
        "the turn was finished"
    );
    second.logs("drained: this node has no channels any more; it can be stopped").await;
    first.logs(GOES_ON).await;
    assert_eq!(node_of(&postgres, CHANNEL), "one");
    local.mention(CHANNEL, ANN, "what was it");
    let answer = local.wait_for_message(CHANNEL, |text| text.contains("what was it")).await;
    assert!(answer.content.contains("moved to another machine"), "{}", answer.content);
    let prompts = asked_in(&one);
    assert!(prompts.contains("the colour is green"), "its agent got the recap: {prompts}");
    local.mention(CHANNEL, ANN, "and now");
    let next = local.wait_for_message(CHANNEL, |text| text.contains("You said: and now")).await;
    assert!(
        next.content.contains("message 2") && !next.content.contains("moved"),
        "{}",
        next.content
    );
    let nodes = one.run(&["nodes"], "").await.stdout;
    assert!(nodes.lines().nth(1).unwrap().starts_with("two  drained"), "{nodes}");
    assert_eq!(one.run(&["drain", "two", "--undo"], "").await.code, 0);
    local
        .wait_for("the undoing", |_| {
            postgres
                .ask("select draining from aetheel.node where name = 'two'")
                .eq("f")
                .then_some(())
        })
        .await;
    assert_eq!(one.run(&["drain", "nobody"], "").await.code, 64);
}

#[tokio::test]
async fn a_node_that_died_while_it_moved_a_channel_starts_without_the_channel() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let one = node(&local, &postgres, "one");
    let mut program = connected(&one).await;
    for channel in [CHANNEL, OTHER, THREAD] {
        local.mention(channel, ANN, "hello");
        local.wait_for_message(channel, |text| text.contains("You said: hello")).await;
    }
    let files = || ["sessions.md", "discord.md"].map(|name| one.read(&format!("state/{name}")));
    let has =
        |channel: u64| files().iter().filter(|text| text.contains(&channel.to_string())).count();
    local.wait_for("the notes", |_| (has(CHANNEL) == 2 && has(THREAD) == 2).then_some(())).await;
    local.mention(CHANNEL, ANN, "hang");
    local.wait_for("its agent", |_| (!agents(&one).is_empty()).then_some(())).await;
    local.mention(CHANNEL, ANN, "waits behind it");
    let waits = || postgres.ask("select string_agg(lines, '') from aetheel.journal");
    local.wait_for("the last prompt", |_| waits().contains("waits behind it").then_some(())).await;
    program.signal(Signal::KILL);
    program.ended().await;
    // The state of the handover in the database, which this node had no time to apply to its own
    // files.
    postgres.ask(&format!(
        "insert into aetheel.node (bot, name, identity, start, lease, version, labels, files, components)
         select bot, 'two', 'x', 7, clock_timestamp() + interval '1 day', version, labels, files, components
         from aetheel.node where name = 'one';
         update aetheel.lane set node = 'two' where root = 'channel:{CHANNEL}';"
    ));
    assert_eq!(postgres.ask("select root from aetheel.thread"), format!("channel:{CHANNEL}"));
    // No node gets an event for this message. The other node would fetch it.
    local.mention(CHANNEL, ANN, "for the other node");

    let program = serving(&one).await;
    program.logs("another node has channels of which this one has data").await;
    program.logs("discord is ready").await;
    local.mention(OTHER, ANN, "and you?");
    let answer = local.wait_for_message(OTHER, |text| text.contains("You said: and you?")).await;
    assert!(
        answer.content.contains("message 2"),
        "its other conversations continue: {}",
        answer.content
    );
    assert_eq!((has(CHANNEL), has(THREAD)), (0, 0), "{:?}", files());
    assert_eq!(has(OTHER), 2);
    local.wait_for("the end of its agent", |_| agents(&one).is_empty().then_some(())).await;
    let said = local.texts(CHANNEL);
    assert!(
        !said.iter().any(|text| text.contains("waits behind") || text.contains("for the other")),
        "{said:?}"
    );
}

#[tokio::test]
async fn event_numbers_after_a_million_starts_of_the_cluster_work() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let one = node(&local, &postgres, "one");
    let mut program = connected(&one).await;
    program.signal(Signal::INT);
    program.ended().await;
    postgres.ask("alter sequence aetheel.start restart with 1048576");
    let _program = connected(&one).await;
    local.mention(CHANNEL, ANN, "ask make");
    let asked = local.wait_for_message(CHANNEL, |text| text.contains("make")).await;
    let number = |digit: char| digit.is_ascii_digit();
    let journal = || postgres.ask("select string_agg(lines, '') from aetheel.journal");
    let block = (1_u64 << 52).to_string();
    local.wait_for("the journal", |_| journal().contains(&block[..12]).then_some(())).await;
    local.press(asked.id, ANN, "Allow once");
    local.wait_for_message(CHANNEL, |text| text.ends_with("Done, this once.")).await;
    local.mention(CHANNEL, ANN, "hang");
    local.wait_for("the agent", |_| (agents(&one).len() == 1).then_some(())).await;
    local.mention(CHANNEL, ANN, "behind it");
    local.wait_for("the second", |_| journal().contains("behind it").then_some(())).await;
    let shown = local.slash(CHANNEL, ANN, "status", None);
    let shown = local.answer_to(shown).await.content;
    assert!(shown.contains("hang") && shown.contains("behind it"), "{shown}");
    let longest = shown.split(|digit| !number(digit)).map(str::len).max();
    assert!(longest < Some(10), "large numbers are not shown to users: {shown}");
    let stop = local.slash(CHANNEL, ANN, "stop", None);
    assert!(local.answer_to(stop).await.content.starts_with("Stopped"));
    local.mention(CHANNEL, ANN, "and after that");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: and after that")).await;
}

#[tokio::test]
async fn any_node_accepts_a_webhook_and_a_repeated_one_is_answered_once() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let with_webhooks = |name| {
        let node = node(&local, &postgres, name)
            .with("WEBHOOKS_ADDRESS", "127.0.0.1:0")
            .with("CODE_PHRASE", "a-phrase-nobody-guesses-0123456789")
            .with("OUTPUT_CHANNEL_ID", &CHANNEL.to_string());
        let definition =
            "## code\n- scheme: github\n- secret: CODE_PHRASE\n\nTell what happened.\n";
        fs::write(node.path("config/webhooks.md"), definition).unwrap();
        node
    };
    let nodes = [with_webhooks("one"), with_webhooks("two")];
    let programs = [serving(&nodes[0]).await, serving(&nodes[1]).await];
    for program in &programs {
        let line = program.logs("webhooks are accepted").await;
        let address: SocketAddr = line["address"].as_str().unwrap().parse().unwrap();
        let call = Call::post("code", "{}").github(
            "a-phrase-nobody-guesses-0123456789",
            "push",
            "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        );
        let status = call.send(address).await.status;
        assert!(matches!(status, 200 | 202), "{status}");
    }
    local.wait_for_message(CHANNEL, |text| text.contains("Tell what happened.")).await;
    let undelivered = "select count(*) from aetheel.mail where kind = 'event' and done is null";
    local.wait_for("delivered events", |_| postgres.ask(undelivered).eq("0").then_some(())).await;
    assert_eq!(local.texts(CHANNEL).len(), 1, "{:?}", local.texts(CHANNEL));
}

#[tokio::test]
async fn an_event_of_a_newer_version_stays_in_the_database_and_blocks_nothing() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(_one, first), (two, mut second)] = two(&local, &postgres).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
    let body = r#"{"kind":"of-a-later-version"}"#;
    let post = "insert into aetheel.mail (bot, key, root, kind, body) \
                select bot, 'newer', root, 'event', 'BODY' from aetheel.lane where root = 'channel:C'";
    postgres.ask(&post.replace("BODY", body).replace("channel:C", &format!("channel:{CHANNEL}")));
    let kept = "an event of a newer node cannot be read by this version; it stays in the database \
                for a newer node";
    let line = second.logs(kept).await;
    assert!(line["hint"].as_str().unwrap().contains("upgrade this node"), "{line}");
    local.mention(CHANNEL, ANN, "history");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said before:")).await;
    let left = "select body from aetheel.mail where key = 'newer' and done is null";
    assert_eq!(postgres.ask(left), body);
    // The next process that has the channel gets it, which may be a newer one.
    second.signal(Signal::KILL);
    second.ended().await;
    let next = serving(&two).await;
    let got = |node: &Program| node.log().iter().any(|line| line["message"] == kept);
    local.wait_for("the next process", |_| (got(&next) || got(&first)).then_some(())).await;
    assert_eq!(postgres.ask(left), body);
}

#[tokio::test]
async fn a_cron_job_fires_once_per_tick_when_the_node_that_runs_the_schedule_dies() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let with_job = |name| {
        let node = node(&local, &postgres, name).with("OUTPUT_CHANNEL_ID", &CHANNEL.to_string());
        let job = "## Cron Jobs\n\n- **pulse** `* * * * * *`: tick tock\n";
        fs::write(node.path("config/agents.md"), job).unwrap();
        node
    };
    let nodes = [with_job("one"), with_job("two")];
    let (mut first, second) = (serving(&nodes[0]).await, serving(&nodes[1]).await);
    let fired = |line: &serde_json::Value| line["message"] == "fired";
    first.logs_where("a tick", fired).await;
    local.wait_for_message(CHANNEL, |text| text.contains("tick tock")).await;
    assert!(!second.log().iter().any(fired), "only one of them runs the schedule");
    first.signal(Signal::KILL);
    first.ended().await;
    second.logs_where("a tick of the next one", fired).await;
    let ticks = "select count(*), count(distinct key) from aetheel.mail where kind = 'event'";
    let ticks = postgres.ask(ticks);
    let (all, different) = ticks.split_once('|').unwrap();
    assert_eq!(all, different);
    // No tick was fired by both nodes.
    let tick = |log: Vec<serde_json::Value>| -> Vec<String> {
        log.iter().filter(|line| fired(line)).map(|line| line["tick"].to_string()).collect()
    };
    let (before, after) = (tick(first.log()), tick(second.log()));
    assert!(after.iter().all(|tick| !before.contains(tick)), "{before:?} {after:?}");
}

#[tokio::test]
async fn the_last_node_exports_everything_to_serve_alone() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(one, mut first), (two, mut second)] = two(&local, &postgres).await;
    local.mention(OTHER, ANN, "hello");
    local.wait_for_message(OTHER, |text| text.contains("You said: hello")).await;
    second.signal(Signal::INT);
    assert_eq!(second.ended().await.code, 0);
    let owner = || node_of(&postgres, OTHER);
    local.wait_for("its channels", |_| owner().eq("one").then_some(())).await;
    let left = || postgres.ask("select count(*) from aetheel.journal where node = 'two'");
    local.wait_for("the takeover", |_| left().eq("0").then_some(())).await;
    local.mention(OTHER, ANN, "slow 4");
    local.wait_for_message(OTHER, |text| text.contains("Second 1.")).await;
    let early = one.run(&["cluster", "export"], "").await;
    assert_eq!(early.code, 73, "a gateway is running: {}", early.stderr);
    first.signal(Signal::KILL);
    first.ended().await;
    let exported = one.run(&["cluster", "export"], "").await;
    assert_eq!(exported.code, 0, "{}{}", exported.stdout, exported.stderr);
    assert_eq!(postgres.ask("select count(*) from aetheel.node"), "0");
    let alone = one.with("CLUSTER_URL", "");
    let _program = serving(&alone).await;
    local.wait_for_message(OTHER, |text| text.ends_with("There.")).await;
    drop(two);
}

#[tokio::test]
async fn a_node_without_its_database_exits_and_answers_once_it_is_back() {
    let (local, mut postgres) = (LocalDiscord::start().await, Postgres::start());
    let one = node(&local, &postgres, "one");
    let mut first = connected(&one).await;
    local.mention(CHANNEL, ANN, "slow 5");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    postgres.kill();
    assert_eq!(first.ended().await.code, 75);
    let again = one.start(&["run"]);
    again
        .logs("the database of the cluster cannot be reached or refuses this node; waiting for it")
        .await;
    local.mention(CHANNEL, ANN, "written meanwhile");
    postgres.again();
    again.logs("aetheel is ready").await;
    local.wait_for_message(CHANNEL, |text| text.contains("You said: written meanwhile")).await;
    let offer = local.wait_for_message(CHANNEL, |text| text.contains("may have used a tool")).await;
    // A press before the connection would fail in Discord too.
    again.logs("discord is ready").await;
    local.press(offer.id, ANN, "Try again");
    local.wait_for_message(CHANNEL, |text| text.ends_with("There.")).await;
}

#[tokio::test]
async fn a_gateway_that_served_alone_imports_its_unfinished_turns() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let alone = installed(&local).with("AGENT_HOLDER", "require");
    let mut program = serving(&alone).await;
    local.mention(CHANNEL, ANN, "slow 3");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let noted = || alone.read("state/queue.md").contains(" posted ").then_some(());
    local.wait_for("the note of its message", |_| noted()).await;
    program.signal(Signal::KILL);
    program.ended().await;
    let joined = alone.with("CLUSTER_URL", &postgres.url()).with("NODE_NAME", "one");
    let imported = joined.run(&["cluster", "import"], "").await;
    assert_eq!(imported.code, 0, "{}{}", imported.stdout, imported.stderr);
    let _program = connected(&joined).await;
    let offer = local.wait_for_message(CHANNEL, |text| text.contains("may have used a tool")).await;
    local.press(offer.id, ANN, "Try again");
    local.wait_for_message(CHANNEL, |text| text.ends_with("There.")).await;
    assert!(!joined.path("config/state/queue.md").exists(), "its turns cannot run twice");
    assert!(joined.read("state/queue-before-cluster.md").contains("slow 3"));
}

#[tokio::test]
async fn a_node_that_left_its_cluster_keeps_its_holder() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let one = node(&local, &postgres, "one");
    let mut program = connected(&one).await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    program.signal(Signal::KILL);
    program.ended().await;
    // The holder ends the agent because no gateway came back in time.
    local.wait_for("the end of its agent", |_| agents(&one).is_empty().then_some(())).await;
    let alone = one.with("CLUSTER_URL", "");
    let program = serving(&alone).await;
    assert_eq!(
        program.log().iter().filter(|line| line["message"] == "a new holder keeps agents").count(),
        0
    );
    local.mention(OTHER, ANN, "hello");
    local.wait_for_message(OTHER, |text| text.contains("You said: hello")).await;
}

#[tokio::test]
async fn errors_in_the_settings_of_a_node_are_reported_together_and_without_its_password() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local)
        .with("CLUSTER_URL", "mysql://ann:hunter2hunter2@h/x")
        .with("AGENT_HOLDER", "off");
    let ended = installation.run(&["run"], "").await;
    let output = format!("{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.code, 78, "{output}");
    assert!(output.contains("CLUSTER_URL is not the URL"), "{output}");
    assert!(output.contains("AGENT_HOLDER is `off`") && !output.contains("hunter2"), "{output}");
}

#[tokio::test]
async fn a_start_waits_for_a_read_only_database_and_for_an_unknown_user() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let waits =
        "the database of the cluster cannot be reached or refuses this node; waiting for it";
    let one = node(&local, &postgres, "one");
    postgres.read_only(true);
    let first = one.start(&["run"]);
    first.logs(waits).await;
    postgres.read_only(false);
    first.logs("aetheel is ready").await;
    let url = postgres.url().replace("user=aetheel", "user=nobody-here");
    let two = node(&local, &postgres, "two").with("CLUSTER_URL", &url);
    let second = two.start(&["run"]);
    let line = second.logs(waits).await;
    assert!(line["why"].as_str().unwrap().contains("nobody-here"), "{line}");
    postgres.ask("create user \"nobody-here\" superuser");
    second.logs("aetheel is ready").await;
}
