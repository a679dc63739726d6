//! Tests of how answers are displayed and delivered, also when Discord fails.

use std::time::{Duration, Instant};

use aetheel_discord::TimeLimits;
use aetheel_model::redact::Redactor;
use aetheel_model::split::split;

use super::bot::{Bot, Home, answer};
use crate::support::discord::{ANN, CHANNEL, Fault, LocalDiscord, OTHER};

async fn asked(local: &LocalDiscord) -> (Bot, super::bot::Turn, u64) {
    let bot = Bot::start(local).await;
    let message = local.mention(CHANNEL, ANN, "go");
    let turn = bot.turn(local, "go").await;
    (bot, turn, message)
}

/// Counts the requests that created or edited messages of a channel.
fn writes(local: &LocalDiscord, channel: u64) -> usize {
    let of_channel = format!("/channels/{channel}/messages");
    local
        .requests()
        .iter()
        .filter(|request| request.method != "GET" && request.path.starts_with(&of_channel))
        .count()
}

#[tokio::test]
async fn an_answer_grows_by_edits_and_ends_with_the_agents_exact_text() {
    let local = LocalDiscord::start().await;
    let (_bot, mut turn, message) = asked(&local).await;
    turn.say("Hello");
    let first = local.wait_for_message(CHANNEL, |text| text == "Hello").await;
    assert_eq!(first.reply_to, Some(message));
    for word in [" @everyone", " and", " <@100000000000000004>"] {
        turn.say(word);
    }
    local.wait_for_message(CHANNEL, |text| text.ends_with("0004>")).await;
    turn.say("!");
    turn.done("Hello @everyone and <@100000000000000004>!").await;
    let messages = local.messages(CHANNEL);
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].content, "Hello @everyone and <@100000000000000004>!");
    // Deltas that arrive together cause a single edit.
    assert_eq!(messages[0].edits.len(), 2, "{:?}", messages[0].edits);
}

#[tokio::test]
async fn edits_are_spaced_out_however_fast_the_agent_prints() {
    let local = LocalDiscord::start().await;
    let (_bot, mut turn, _) = asked(&local).await;
    let mut text = String::new();
    let began = Instant::now();
    // Sends as many deltas as needed for four edits.
    while local.messages(CHANNEL).first().is_none_or(|message| message.edits.len() < 4) {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "no edits: {:?}",
            local.messages(CHANNEL)
        );
        text.push_str("word ");
        turn.say("word ");
        tokio::time::timeout(Duration::from_millis(10), std::future::pending::<()>())
            .await
            .unwrap_err();
    }
    let edits = local.messages(CHANNEL)[0].edits.clone();
    for pair in edits.windows(2) {
        assert!(
            pair[1].0 - pair[0].0 >= Duration::from_millis(1_000),
            "edits {:?} apart",
            pair[1].0 - pair[0].0
        );
    }
    turn.done(&text).await;
    assert_eq!(local.texts(CHANNEL), split(&text, 2_000));
}

#[tokio::test]
async fn a_long_code_block_is_drafted_and_delivered_in_the_same_pieces() {
    let local = LocalDiscord::start().await;
    let (_bot, mut turn, _) = asked(&local).await;
    let mut text = "Here it is:\n\n```rust\n".to_owned();
    for line in 0..170 {
        text.push_str(&format!("    let value_{line} = compute({line}); // a line of code\n"));
    }
    text.push_str("```\nThat is all.");
    turn.say(&text[..3_000]);
    local.wait_for("two drafts", |local| (local.messages(CHANNEL).len() == 2).then_some(())).await;
    turn.say(&text[3_000..]);
    turn.done(&text).await;
    let pieces = split(&text, 2_000);
    assert!(pieces.len() >= 4, "{}", pieces.len());
    assert_eq!(local.texts(CHANNEL), pieces);
    assert!(
        pieces.iter().all(|piece| piece.matches("```").count() % 2 == 0),
        "fences are balanced in every message"
    );
    let replies: Vec<bool> =
        local.messages(CHANNEL).iter().map(|message| message.reply_to.is_some()).collect();
    assert_eq!(replies.iter().filter(|reply| **reply).count(), 1, "only the first is a reply");
}

#[tokio::test]
async fn a_table_is_shown_as_aligned_text_when_it_is_complete() {
    let local = LocalDiscord::start().await;
    let (_bot, mut turn, _) = asked(&local).await;
    let before = "The sizes:\n\n";
    let rows = [
        "| file | bytes |\n",
        "|------|------:|\n",
        "| `a.rs` | 1 |\n",
        "| **longer.rs** | 20 |\n",
    ];
    let after = "\n| is no table.";
    turn.say(before);
    local.wait_for_message(CHANNEL, |text| text == "The sizes:").await;
    for row in rows {
        turn.say(row);
    }
    turn.say(after);
    let shown = "The sizes:\n\n```\nfile       bytes\n─────────  ─────\na.rs           1\nlonger.rs     20\n```\n\n| is no table.";
    local.wait_for_message(CHANNEL, |text| text.contains("```")).await;
    turn.done(&[before, &rows.concat(), after].concat()).await;
    assert_eq!(local.texts(CHANNEL), [shown]);
    for (_, draft) in &local.messages(CHANNEL)[0].edits {
        assert!(shown.starts_with(draft), "a part of the table was shown: {draft}");
    }
}

#[tokio::test]
async fn superfluous_draft_messages_are_deleted() {
    let local = LocalDiscord::start().await;
    let (_bot, mut turn, _) = asked(&local).await;
    turn.say(&"many words ".repeat(400));
    local
        .wait_for("three drafts", |local| (local.messages(CHANNEL).len() == 3).then_some(()))
        .await;
    turn.say_instead("Short.");
    turn.done("Short.").await;
    assert_eq!(local.texts(CHANNEL), ["Short."]);
}

#[tokio::test]
async fn a_deleted_draft_message_is_posted_again_in_order() {
    let local = LocalDiscord::start().await;
    let (_bot, mut turn, _) = asked(&local).await;
    let text = "many words ".repeat(250);
    turn.say(&text);
    local.wait_for("two drafts", |local| (local.messages(CHANNEL).len() == 2).then_some(())).await;
    local.delete(local.messages(CHANNEL)[0].id);
    let text = format!("Other {text}");
    turn.done(&text).await;
    assert_eq!(local.texts(CHANNEL), split(&text, 2_000));
}

#[tokio::test]
async fn typing_is_shown_until_the_answer_is_complete() {
    let local = LocalDiscord::start().await;
    let (_bot, turn, _) = asked(&local).await;
    local.wait_for("more typing", |local| (local.typing(CHANNEL).len() >= 2).then_some(())).await;
    let gaps: Vec<Duration> =
        local.typing(CHANNEL).windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        gaps.iter().all(|gap| *gap < Duration::from_secs(10)),
        "Discord shows it for ten seconds: {gaps:?}"
    );
    turn.done("Done").await;
    let before = local.typing(CHANNEL).len();
    let last = local.messages(CHANNEL)[0].created;
    assert!(
        local.typing(CHANNEL).iter().all(|typed| *typed < last),
        "typing continues after the answer"
    );
    let more = local.wait_for("typing after the end", |local| {
        (local.typing(CHANNEL).len() > before).then_some(())
    });
    assert!(
        tokio::time::timeout(Duration::from_secs(9), more).await.is_err(),
        "typing goes on after the answer"
    );
}

#[tokio::test]
async fn typing_begins_within_a_second_of_the_message() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let written = Instant::now();
    local.mention(CHANNEL, ANN, "quick");
    let turn = bot.turn(&local, "quick").await;
    let first = local.wait_for("typing", |local| local.typing(CHANNEL).first().copied()).await;
    assert!(first - written < Duration::from_secs(1), "{:?}", first - written);
    turn.done("Done").await;
}

#[tokio::test]
async fn running_tools_are_shown_in_the_draft() {
    let local = LocalDiscord::start().await;
    let (_bot, mut turn, _) = asked(&local).await;
    turn.say("Let me look.");
    turn.tool("Bash", "ls\n-la");
    local.wait_for_message(CHANNEL, |text| text == "Let me look.\n-# 🔧 Bash: ls -la").await;
    turn.tool_done();
    local.wait_for_message(CHANNEL, |text| text == "Let me look.").await;
    turn.done("Let me look.").await;
    assert_eq!(local.texts(CHANNEL), ["Let me look."]);
}

#[tokio::test]
async fn failures_notices_and_an_empty_answer_are_posted() {
    let local = LocalDiscord::start().await;
    let (bot, turn, _) = asked(&local).await;
    let mut failed = answer("Half an");
    failed.failure = Some("Query timed out (id 7f3a)".to_owned());
    failed.notices = vec!["The session is a new one".to_owned()];
    turn.finish(failed).await.unwrap();
    assert_eq!(
        local.texts(CHANNEL),
        ["Half an\n⚠️ Query timed out (id 7f3a)\n-# The session is a new one"]
    );
    local.mention(OTHER, ANN, "nothing");
    bot.turn(&local, "nothing").await.done(" \n").await;
    assert_eq!(local.texts(OTHER), ["-# The agent finished without an answer."]);
}

#[tokio::test]
async fn a_dropped_turn_removes_its_progress_line() {
    let local = LocalDiscord::start().await;
    let (_bot, mut turn, _) = asked(&local).await;
    turn.say("Half");
    turn.tool("Bash", "sleep");
    local.wait_for_message(CHANNEL, |text| text.contains("🔧")).await;
    drop(turn);
    local.wait_for_message(CHANNEL, |text| text == "Half").await;
}

#[tokio::test]
async fn twelve_messages_are_posted_without_reaching_the_rate_limit() {
    let local = LocalDiscord::start().await;
    local.faults().limit("POST messages", 5, Duration::from_secs(2));
    let (_bot, turn, _) = asked(&local).await;
    let text = "twelve messages of words ".repeat(12 * 79);
    turn.done(&text).await;
    assert_eq!(local.texts(CHANNEL), split(&text, 2_000));
    assert!(local.texts(CHANNEL).len() >= 12);
}

#[tokio::test]
async fn a_429_delays_its_channel_and_a_global_one_all_channels() {
    let local = LocalDiscord::start().await;
    let (bot, turn, _) = asked(&local).await;
    local.mention(OTHER, ANN, "other");
    let other = bot.turn(&local, "other").await;
    local.faults().next(
        "POST",
        &format!("{CHANNEL}/messages"),
        Fault::Limit { retry_after: 2.0, global: true },
        1,
    );
    let refused = |local: &LocalDiscord| {
        local.requests().iter().find(|request| request.status == 429).map(|request| request.at)
    };
    let (_, at) = tokio::join!(turn.done("One"), local.wait_for("the 429", refused));
    assert!(local.messages(CHANNEL)[0].created - at >= Duration::from_millis(1_950));
    other.done("Two").await;
    let since = |local: &LocalDiscord| {
        local
            .requests()
            .into_iter()
            .filter(|request| request.at > at)
            .map(|request| request.at)
            .min()
    };
    assert!(
        since(&local).unwrap() - at >= Duration::from_millis(1_950),
        "a request was sent during a global limit"
    );
    assert_eq!(
        (local.texts(CHANNEL), local.texts(OTHER)),
        (vec!["One".to_owned()], vec!["Two".to_owned()])
    );
    assert_eq!(bot.discord.invalid_requests(), 1);
}

#[tokio::test]
async fn a_429_of_one_channel_does_not_delay_another() {
    let local = LocalDiscord::start().await;
    let (bot, turn, _) = asked(&local).await;
    local.mention(OTHER, ANN, "other");
    let other = bot.turn(&local, "other").await;
    local.faults().next(
        "POST",
        &format!("{CHANNEL}/messages"),
        Fault::Limit { retry_after: 3.0, global: false },
        1,
    );
    let refused = |local: &LocalDiscord| {
        local.requests().iter().find(|request| request.status == 429).map(|request| request.at)
    };
    let (_, ()) = tokio::join!(turn.done("One"), async {
        local.wait_for("the 429", refused).await;
        other.done("Two").await;
    });
    assert!(local.messages(OTHER)[0].created < local.messages(CHANNEL)[0].created);
}

#[tokio::test]
async fn secrets_are_redacted_in_drafts_and_answers() {
    let local = LocalDiscord::start().await;
    let home = Home::with(|home| {
        home.redactor = Redactor::new(&["sk-canary-value".to_owned().into()]);
        home.says = &["text The key is sk-canary-value", "notice sk-canary-value"];
        home.shown = true;
    })
    .await;
    home.busy.send_replace(true);
    let _bot = Bot::with_home(&local, &home).await;
    local.mention(CHANNEL, ANN, "go");
    local.wait_for_message(CHANNEL, |text| text == "The key is ***").await;
    home.busy.send_replace(false);
    local.wait_for_message(CHANNEL, |text| text == "The key is ***\n-# ***").await;
}

#[tokio::test]
async fn a_refused_interaction_token_loses_neither_the_answer_nor_the_bot() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.slash(CHANNEL, ANN, "ask", Some("first"));
    let turn = bot.turn(&local, "first").await;
    local.faults().next("PATCH", "@original", Fault::Refuse(401, 50027), 1);
    turn.done("An answer").await;
    local.wait_for_message(CHANNEL, |text| text == "> 💬 first\nAn answer").await;
    local.mention(OTHER, ANN, "second");
    bot.turn(&local, "second").await.done("Still here").await;
    assert_eq!(local.texts(OTHER), ["Still here"]);
}

#[tokio::test]
async fn requests_with_broken_responses_are_retried_without_posting_twice() {
    let local = LocalDiscord::start().await;
    let (_bot, turn, _) = asked(&local).await;
    let path = format!("{CHANNEL}/messages");
    local.faults().next("POST", &path, Fault::Status(502), 1);
    local.faults().next("POST", &path, Fault::CutBefore, 1);
    local.faults().next("POST", &path, Fault::CutAfter, 1);
    turn.done("Once").await;
    assert_eq!(local.texts(CHANNEL), ["Once"]);
    assert_eq!(writes(&local, CHANNEL), 4);
}

#[tokio::test]
async fn a_draft_whose_creation_response_was_lost_is_found() {
    let local = LocalDiscord::start().await;
    let (_bot, mut turn, _) = asked(&local).await;
    // More failures than a draft is retried for.
    local.faults().next("POST", &format!("{CHANNEL}/messages"), Fault::CutAfter, 8);
    turn.say("Draft");
    local.wait_for_message(CHANNEL, |text| text == "Draft").await;
    local
        .wait_for("the draft to be given up", |local| (writes(local, CHANNEL) >= 4).then_some(()))
        .await;
    local.faults().clear();
    turn.done("Draft and answer").await;
    assert_eq!(local.texts(CHANNEL), ["Draft and answer"]);
}

#[tokio::test]
async fn a_command_is_answered_in_its_own_message_and_continues_below() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let id = local.slash(CHANNEL, ANN, "ask", Some("long please"));
    let mut turn = bot.turn(&local, "long please").await;
    turn.say("Working");
    local.wait_for_message(CHANNEL, |text| text == "> 💬 long please\nWorking").await;
    let text = "many words ".repeat(400);
    turn.done(&text).await;
    assert_eq!(local.texts(CHANNEL), split(&format!("> 💬 long please\n{text}"), 2_000));
    let interaction = local.interaction(id);
    assert_eq!(interaction.acknowledged.map(|(_, kind)| kind), Some(5));
    assert_eq!(interaction.original, Some(local.messages(CHANNEL)[0].id));
}

#[tokio::test]
async fn a_command_is_answered_even_where_the_bot_may_not_post() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.faults().next("POST", &format!("{CHANNEL}/messages"), Fault::Refuse(403, 50001), 9);
    local.faults().next("POST", "/typing", Fault::Refuse(403, 50001), 9);
    local.slash(CHANNEL, ANN, "ask", Some("hidden"));
    let text = "many words ".repeat(250);
    bot.turn(&local, "hidden").await.done(&text).await;
    assert_eq!(local.texts(CHANNEL), split(&format!("> 💬 hidden\n{text}"), 2_000));
}

#[tokio::test]
async fn when_an_interaction_token_expires_the_answer_continues_as_ordinary_messages() {
    let local = LocalDiscord::start().await;
    let bot =
        Bot::with_windows(&local, TimeLimits::default().interaction(Duration::from_secs(3))).await;
    let id = local.slash(CHANNEL, ANN, "ask", Some("slow"));
    let mut turn = bot.turn(&local, "slow").await;
    turn.say("Early");
    local.wait_for_message(CHANNEL, |text| text == "> 💬 slow\nEarly").await;
    // The agent is silent until the token expires.
    local.wait_for_message(CHANNEL, |text| text.contains("follows below")).await;
    turn.done("Early and late").await;
    assert_eq!(
        local.texts(CHANNEL),
        [
            "> 💬 slow\n-# This takes a while: the answer follows below.",
            "> 💬 slow\nEarly and late"
        ]
    );
    assert_ne!(local.interaction(id).original, Some(local.messages(CHANNEL)[1].id));
}
