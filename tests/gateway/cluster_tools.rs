//! Tools of the gateway in a cluster: work that is handed to a channel of another node, and turns at
//! later times whose node dies, each begin once.

use std::fs;

use rustix::process::Signal;

use super::cluster::{connected, node, node_of};
use super::serving;
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER};
use crate::support::postgres::Postgres;
use crate::support::program::{Installation, Program};

/// Starts two nodes. The first one is connected to Discord and serves `OTHER`, and the second one
/// serves `CHANNEL`. Both channels have all tools.
async fn two_with_tools(local: &LocalDiscord, postgres: &Postgres) -> [(Installation, Program); 2] {
    let settings = format!(
        "## channel {CHANNEL}\n- node: gpu\n- host-tools: all\n\n\
         ## channel {OTHER}\n- node: cpu\n- host-tools: all\n"
    );
    let nodes = [("one", "cpu"), ("two", "gpu")].map(|(name, label)| {
        let node = node(local, postgres, name).with("NODE_LABELS", label);
        fs::write(node.path("config/channels.md"), &settings).unwrap();
        node
    });
    let [one, two] = nodes;
    let first = connected(&one).await;
    let second = serving(&two).await;
    [(one, first), (two, second)]
}

fn count(local: &LocalDiscord, channel: u64, part: &str) -> usize {
    local.texts(channel).iter().filter(|text| text.contains(part)).count()
}

#[tokio::test]
async fn work_is_handed_once_to_a_channel_of_another_node() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(_one, first), (_two, second)] = two_with_tools(&local, &postgres).await;
    let call = format!(r#"call aetheel_handoff {{"channel":"{OTHER}","text":"say hello"}}"#);
    local.mention(CHANNEL, ANN, &call);
    let question = local
        .wait_for("a question", |local| {
            local.messages(CHANNEL).into_iter().find(|message| local.asks(message.id))
        })
        .await;
    local.press(question.id, ANN, "Allow");
    local.wait_for_message(OTHER, |text| text.contains("handed this over")).await;
    local.wait_for_message(CHANNEL, |text| text.contains("The tool returned")).await;
    assert_eq!(node_of(&postgres, CHANNEL), "two");
    assert_eq!(node_of(&postgres, OTHER), "one");
    first.logs("answer delivered").await;
    second.logs("answer delivered").await;
    assert_eq!(count(&local, OTHER, "handed this over"), 1, "{:?}", local.texts(OTHER));
}

#[tokio::test]
async fn a_later_turn_of_a_dead_node_begins_once_on_another_one() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(_one, first), (_two, mut second)] = two_with_tools(&local, &postgres).await;
    local.mention(CHANNEL, ANN, r#"call aetheel_remind {"in":"2h","text":"look again"}"#);
    local.wait_for_message(CHANNEL, |text| text.contains("The tool returned")).await;
    let noted = "select count(*) from aetheel.file
         where node = 'two' and name = 'agent-schedules.md' and body like '%look again%'";
    local.wait_for("the saved turn", |_| postgres.ask(noted).eq("1").then_some(())).await;
    second.signal(Signal::KILL);
    second.ended().await;
    postgres.ask(
        r#"update aetheel.file set body = regexp_replace(body, '20\d\d-\d\d-\d\dT[0-9:.]+Z',
             to_char(now() at time zone 'utc' - interval '1 s', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
           where node = 'two' and name = 'agent-schedules.md'"#,
    );
    first.logs("this node continues the work of another node").await;
    first.logs("a turn that an agent asked for begins").await;
    local.wait_for_message(CHANNEL, |text| text.contains("as a reminder")).await;
    // A later message of the channel is answered after the turn, so that a second one would be seen.
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
    assert_eq!(count(&local, CHANNEL, "as a reminder"), 1, "{:?}", local.texts(CHANNEL));
}
