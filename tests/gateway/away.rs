//! Notes to users and agents about the time in which the gateway was away.

use std::fs;

use rustix::process::Signal;

use super::cluster::two;
use super::{installed, serving};
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord, OTHER, TOKEN};
use crate::support::postgres::Postgres;

const AWAY: &str = "-# I was away when you wrote this.";

#[tokio::test]
async fn only_a_late_answer_says_that_the_bot_was_away() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    fs::create_dir_all(installation.path("config/state")).unwrap();
    let notes = format!("- `channel:{CHANNEL}` seen to `1`\n");
    fs::write(installation.path("config/state/discord.md"), notes).unwrap();
    let ago = |minutes: u64| std::time::Duration::from_secs(minutes * 60);
    local.mention_earlier(CHANNEL, ANN, "five minutes ago", ago(5));
    local.mention_earlier(CHANNEL, ANN, "a minute ago", ago(1));
    let _program = serving(&installation).await;
    local.mention(OTHER, ANN, "right now");
    let said = |channel, prompt| local.wait_for_message(channel, move |text| text.contains(prompt));
    let late = said(CHANNEL, "five minutes ago").await.content;
    assert!(late.contains(AWAY), "{late}");
    for (channel, prompt) in [(CHANNEL, "a minute ago"), (OTHER, "right now")] {
        let soon = said(channel, prompt).await.content;
        assert!(!soon.contains("I was away"), "{soon}");
    }
}

#[tokio::test]
async fn an_agent_with_a_new_session_gets_a_shortened_recap_without_secrets() {
    let local = LocalDiscord::start().await;
    local.let_read();
    let installation = installed(&local);
    fs::create_dir_all(installation.path("config/state")).unwrap();
    let moved = format!("- `channel:{CHANNEL}` with `demo` (moved)\n");
    fs::write(installation.path("config/state/sessions.md"), moved).unwrap();
    for number in 0..12 {
        local.say(CHANNEL, BOB, &format!("note {number}: {}", "x".repeat(1_300)));
    }
    local.say(CHANNEL, BOB, &format!("the token is {TOKEN}"));
    local.webhook(CHANNEL, "I am a webhook");
    let _program = serving(&installation).await;
    local.mention(CHANNEL, ANN, "what was said");
    local.wait_for_message(CHANNEL, |text| text.contains("moved to another machine")).await;
    local.mention(CHANNEL, ANN, "history");
    let all = |text: &str| text.contains("what was said") && !text.contains("moved to another");
    local.wait_for_message(CHANNEL, all).await;
    let posted = local.texts(CHANNEL).concat();
    assert!(posted.contains("the token is") && !posted.contains(TOKEN), "{posted}");
    assert!(posted.contains("note 11:") && !posted.contains("note 0:"), "{posted}");
    assert!(!posted.contains("webhook"), "{posted}");
    let quoted = posted.matches('x').count();
    assert!((5 * 1_300..8 << 10).contains(&quoted), "{quoted} bytes were quoted");
}

#[tokio::test]
async fn the_next_node_takes_all_shards_if_their_node_dies_while_discord_is_away() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    local.faults().shards(4, 4, std::time::Duration::ZERO);
    let [(_one, mut first), (_two, second)] = two(&local, &postgres).await;
    for channel in [CHANNEL, OTHER] {
        local.mention(channel, ANN, "hello");
        local.wait_for_message(channel, |text| text.contains("You said: hello")).await;
    }
    local.wait_for("all shards", |local| (local.connections() == 4).then_some(())).await;
    // All nodes learn soon which channels may have missed messages.
    let noted =
        format!("select count(*) from aetheel.file where name = 'discord.md' and body ~ '{OTHER}'");
    local.wait_for("the notes", |_| postgres.ask(&noted).ne("0").then_some(())).await;
    local.faults().away(true);
    first.signal(Signal::KILL);
    first.ended().await;
    for channel in [CHANNEL, OTHER] {
        local.mention(channel, ANN, "written meanwhile");
    }
    second.logs("this node is the one that is logged in to discord").await;
    local.faults().away(false);
    for channel in [CHANNEL, OTHER] {
        let answers = |text: &str| text.contains("You said: written meanwhile");
        local.wait_for_message(channel, answers).await;
    }
    local.wait_for("all shards again", |local| (local.connections() == 4).then_some(())).await;
    let mut shards = local.shards();
    assert_eq!(shards.len(), 8, "{shards:?}");
    shards[4..].sort_unstable();
    assert_eq!(shards[4..], [(0, 4), (1, 4), (2, 4), (3, 4)]);
    for channel in [CHANNEL, OTHER] {
        let answers = local.texts(channel).iter().filter(|text| text.contains("meanwhile")).count();
        assert_eq!(answers, 1, "each is answered once: {:?}", local.texts(channel));
    }
}
