//! Tests of the path from a prompt to its answer: the agent's input, the format of answers,
//! conversations, failures and order.

use std::fs;

use aetheel_model::choice::BusyPolicy;
use aetheel_model::event::{EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::id::ChannelId;
use aetheel_model::queue::{Queue, QueueLimits, Rejection};
use serde_json::Value;

use super::{
    CLAUDE_SAYS, argument_after, calls, discord, installed, repeated, serving, with_claude,
};
use crate::support::discord::{ANN, CHANNEL, Fault, LocalDiscord, OTHER, THREAD, room};
use crate::support::program::{Installation, Program};

/// Asks claude and waits for the answer. Returns the call of the program.
async fn ask_claude(
    local: &LocalDiscord,
    installation: &Installation,
    channel: u64,
    prompt: &str,
) -> String {
    let before = local.texts(channel).len();
    local.mention(channel, ANN, prompt);
    local
        .wait_for("claude", |local| {
            local.texts(channel).get(before).is_some_and(|text| text == CLAUDE_SAYS).then_some(())
        })
        .await;
    calls(installation).pop().unwrap()
}

#[tokio::test]
async fn requirement_04_a_prompt_goes_to_the_agent_with_tools_mode_session_and_system_prompt() {
    let local = discord().await;
    let installation = with_claude(&local);
    fs::write(installation.path("config/soul.md"), "Be as kind as can be.").unwrap();
    let _bot = serving(&installation).await;
    let first = ask_claude(&local, &installation, CHANNEL, "what do you see?").await;
    assert!(
        first.contains(" --tools Read,NotebookRead,Glob,LS,Grep,WebSearch,WebFetch "),
        "4.1: {first}"
    );
    assert!(first.contains(" --dangerously-skip-permissions "), "4.1: {first}");
    let session = argument_after(&first, "--session-id").expect("4.3: a new session").to_owned();
    assert!(!first.contains("--resume"), "4.3: {first}");
    assert!(installation.read("state/sessions.md").contains(&session), "4.3: the session is saved");
    let heard =
        fs::read_to_string(installation.path(&format!("home/.claude/calls-{session}"))).unwrap();
    assert!(
        heard.contains("what do you see?") && !first.contains("see?"),
        "4.1: the prompt is in the input and on no command line: {heard}"
    );
    assert!(heard.contains("\n## Soul\n\nBe as kind as can be.\n"), "4.4: {heard}");
    let second = ask_claude(&local, &installation, CHANNEL, "and now?").await;
    assert_eq!(argument_after(&second, "--resume"), Some(session.as_str()), "4.2: {second}");
}

#[tokio::test]
async fn requirement_05_answers_come_with_typing_in_pieces_and_formatted() {
    let local = discord().await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    let question = local.mention(CHANNEL, ANN, "slow 3");
    let answer = local
        .wait_for_message(CHANNEL, |text| text == "Second 1. Second 2. Second 3. There.")
        .await;
    assert_eq!(
        (local.texts(CHANNEL).len(), answer.reply_to),
        (1, Some(question)),
        "5.1: one message, a reply to the prompt"
    );
    let typing = local.typing(CHANNEL);
    let (begun, done) = (answer.created, answer.edits.last().expect("it was streamed").0);
    assert!(
        typing[0] < begun && typing.iter().any(|at| *at > begun && *at < done),
        "5.2: before and after the first text"
    );

    local.mention(OTHER, ANN, "markdown");
    let marked = local.wait_for_message(OTHER, |text| text.ends_with("```")).await.content;
    for part in [
        "# A heading\n",
        "**Bold**, *slanted*, `code`, ~~gone~~",
        "   - nested\n",
        "> quoted\n",
        "```python\nprint(",
    ] {
        assert!(marked.contains(part), "5.4: {part:?} is missing in {marked}");
    }
    let code: String = (0..90)
        .map(|number| format!("    println!(\"this is line number {number}\");\n"))
        .collect();
    local.mention(THREAD, ANN, &format!("like this:\n```rust\nfn main() {{\n{code}}}\n```"));
    local.wait_for_message(THREAD, |text| text.ends_with("of our conversation.")).await;
    let pieces = local.texts(THREAD);
    assert!(
        pieces.len() >= 2 && pieces.iter().all(|piece| piece.chars().count() <= 2_000),
        "5.3: {pieces:#?}"
    );
    assert!(
        pieces[1].starts_with("```rust\n")
            && pieces.iter().all(|piece| piece.matches("```").count() % 2 == 0),
        "5.3: {pieces:#?}"
    );
    let lines = |piece: &String| {
        piece
            .lines()
            .filter(|line| line.contains("line number"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let lines: Vec<String> = pieces.iter().flat_map(lines).collect();
    assert_eq!(lines, code.lines().collect::<Vec<_>>(), "5.3: every line is there once");
}

#[tokio::test]
async fn requirement_06_a_channel_keeps_its_conversation_until_it_is_reset() {
    let local = discord().await;
    let installation = with_claude(&local);
    let _bot = serving(&installation).await;
    let here = ask_claude(&local, &installation, CHANNEL, "one").await;
    let there = ask_claude(&local, &installation, OTHER, "another one").await;
    let (here, there) = (
        argument_after(&here, "--session-id").unwrap().to_owned(),
        argument_after(&there, "--session-id").unwrap().to_owned(),
    );
    assert_ne!(here, there, "6.4: each channel has its own");
    let bound = installation.read("state/sessions.md");
    assert!(bound.contains(&here) && bound.contains(&there), "6.1: {bound}");
    for (channel, session) in [(CHANNEL, &here), (OTHER, &there), (CHANNEL, &here)] {
        let call = ask_claude(&local, &installation, channel, "more").await;
        assert_eq!(argument_after(&call, "--resume"), Some(session.as_str()), "6.2, 6.4: {call}");
    }
    local.slash(CHANNEL, ANN, "claude-reset", None);
    local.wait_for_message(CHANNEL, |text| text.starts_with("Done: ")).await;
    assert!(!installation.read("state/sessions.md").contains(&here), "6.3");
    let call = ask_claude(&local, &installation, CHANNEL, "afresh").await;
    assert!(
        !call.contains("--resume") && argument_after(&call, "--session-id") != Some(here.as_str()),
        "6.3: {call}"
    );
    let call = ask_claude(&local, &installation, OTHER, "still here").await;
    assert_eq!(
        argument_after(&call, "--resume"),
        Some(there.as_str()),
        "6.3: the other channel keeps its own"
    );
}

#[tokio::test]
async fn requirement_07_failures_are_reported_without_internals() {
    let local = discord().await;
    let installation = installed(&local).with("QUERY_TIMEOUT_MS", "4000");
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text == repeated("hello", 1)).await;

    local.mention(CHANNEL, ANN, "fail authentication");
    let told =
        local.wait_for_message(CHANNEL, |text| text.contains("(authentication, ")).await.content;
    assert!(
        !told.replace("`/settings`", "").contains('/') && !told.contains("on request"),
        "7.1: {told}"
    );

    local.mention(OTHER, ANN, "hang");
    let told = local.wait_for_message(OTHER, |text| text.contains("Query timed out")).await.content;
    assert!(told.contains("(timeout, "), "7.2: {told}");
    assert_eq!(bot.agents(), [], "7.2: the turn was cancelled");

    local.faults().next(
        "POST",
        &format!("/channels/{THREAD}/messages"),
        Fault::Refuse(403, 50_013),
        20,
    );
    local.mention(THREAD, ANN, "say it loud");
    let line = bot.logs("discord does not accept an answer now").await;
    assert_eq!(line["channel"].as_u64(), Some(THREAD), "7.3: {line}");
    assert_eq!(
        line["length"].as_u64(),
        Some(repeated("say it loud", 1).chars().count() as u64),
        "7.3: {line}"
    );
    assert!(!bot.stderr().contains("say it loud"), "7.3: the length, not the text");

    fs::remove_dir_all(installation.path("workspace/.demo-agent")).unwrap();
    local.mention(CHANNEL, ANN, "do you remember?");
    let told =
        local.wait_for_message(CHANNEL, |text| text.contains("no longer knows")).await.content;
    assert!(
        told.contains("no longer knows this conversation") && told.contains("ask again"),
        "7.4: {told}"
    );
    local.mention(CHANNEL, ANN, "hello again");
    local.wait_for_message(CHANNEL, |text| text == repeated("hello again", 1)).await;
}

#[tokio::test]
async fn requirement_09_channels_run_side_by_side_each_in_its_order() {
    let local = discord().await;
    let installation = installed(&local).with("MAX_CONCURRENT_QUERIES", "2");
    let _bot = serving(&installation).await;
    for channel in [CHANNEL, OTHER] {
        local.mention(channel, ANN, "slow 4");
        local.wait_for_message(channel, |text| text.contains("Second 1.")).await;
    }
    assert!(!local.texts(CHANNEL)[0].ends_with("There."), "9.1: both run");
    local.mention(CHANNEL, ANN, "and then");
    local.mention(CHANNEL, ANN, "and then again");
    local.mention(THREAD, ANN, "me too");
    let told = local.wait_for_message(THREAD, |_| true).await.content;
    assert!(told.contains("busy") && told.contains("try again"), "9.3: {told}");
    let last = repeated("and then again", 3);
    local.wait_for_message(CHANNEL, |text| text == last).await;
    let slow = "Second 1. Second 2. Second 3. Second 4. There.".to_owned();
    assert_eq!(local.texts(CHANNEL), [slow, repeated("and then", 2), last], "9.2");
    let default = aetheel_settings::VARIABLES
        .iter()
        .find(|variable| variable.name == "MAX_CONCURRENT_QUERIES");
    assert_eq!(default.map(|variable| variable.default), Some("5"), "9.3");
}

#[tokio::test]
async fn requirement_11_all_events_go_through_one_numbered_queue() {
    // 11.1: events of every type, in one order.
    let mut queue = Queue::new(QueueLimits {
        max_concurrent: 1,
        max_depth: 100,
        busy_policy: BusyPolicy::Queue,
    });
    let kinds = [
        EventKind::Message,
        EventKind::Heartbeat,
        EventKind::Cron,
        EventKind::Hook,
        EventKind::Webhook,
        EventKind::Agent,
    ];
    for (number, kind) in kinds.into_iter().enumerate() {
        let event = NewEvent::new(
            kind,
            Lane::Channel(ChannelId::discord(number as u64)),
            EventOrigin::Internal { channel: None },
            "do it",
        );
        assert_eq!(
            queue.accept(event, 1_000 + number as i64).unwrap().sequence,
            number as u64 + 1,
            "11.1, 11.2"
        );
    }
    for (number, kind) in kinds.into_iter().enumerate() {
        let event = queue.next().expect("11.3: the oldest");
        assert_eq!((event.kind, event.sequence), (kind, number as u64 + 1), "11.3");
        assert!(queue.next().is_none(), "11.4: one at a time");
        queue.finish(event.sequence);
    }
    let waiting = |lane| {
        let origin = EventOrigin::Internal { channel: None };
        NewEvent::new(EventKind::Message, Lane::Channel(ChannelId::discord(lane)), origin, "wait")
    };
    for lane in 0..=100 {
        queue.accept(waiting(lane), 0).expect("11.5: a hundred may wait behind the running one");
    }
    assert!(
        matches!(queue.accept(waiting(101), 0), Err(Rejection::Full { depth: 100 })),
        "11.5: and no more"
    );

    // The same through the whole program, with one slot.
    let local = discord().await;
    let set = [
        ("MAX_CONCURRENT_QUERIES", "1"),
        ("BUSY_POLICY", "queue"),
        ("MAX_QUEUE_DEPTH", "4"),
        ("LOG_LEVEL", "debug"),
    ];
    let installation = set
        .into_iter()
        .fold(installed(&local), |installation, (name, value)| installation.with(name, value));
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    for number in 0..4 {
        // One after the other: between channels, only the order of acceptance counts.
        local.mention(room(number), ANN, "my turn");
        let accepted = |_: &LocalDiscord| {
            (logged(&bot, "event accepted").len() as u64 == number + 2).then_some(())
        };
        local.wait_for("its position in the queue", accepted).await;
    }
    local.mention(OTHER, ANN, "one too many");
    let told = local.wait_for_message(OTHER, |_| true).await.content;
    assert!(told.contains("Too many requests are waiting"), "11.5: {told}");
    let line = bot.logs("event refused").await;
    assert_eq!(
        (line["level"].as_str(), line["depth"].as_u64()),
        (Some("WARN"), Some(4)),
        "11.5: {line}"
    );
    local.slash(CHANNEL, ANN, "stop", None);
    for number in 0..4 {
        local.wait_for_message(room(number), |text| text == repeated("my turn", 1)).await;
    }
    let accepted: Vec<Value> = logged(&bot, "event accepted");
    let numbers: Vec<u64> = accepted.iter().map(|line| line["event"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5], "11.2");
    assert!(
        accepted
            .windows(2)
            .all(|pair| pair[0]["timestamp"].as_str() <= pair[1]["timestamp"].as_str()),
        "11.2"
    );
    let story: Vec<(String, u64)> = bot
        .log()
        .iter()
        .filter(|line| {
            ["turn begins", "turn ended"].contains(&line["message"].as_str().unwrap_or_default())
        })
        .map(|line| (line["message"].as_str().unwrap().to_owned(), line["event"].as_u64().unwrap()))
        .collect();
    let wanted: Vec<(String, u64)> = (1..=5)
        .flat_map(|number| [("turn begins".to_owned(), number), ("turn ended".to_owned(), number)])
        .collect();
    assert_eq!(
        story[..9],
        wanted[..9],
        "11.3, 11.4: in order, each when the previous one has ended"
    );
    let default =
        aetheel_settings::VARIABLES.iter().find(|variable| variable.name == "MAX_QUEUE_DEPTH");
    assert_eq!(default.map(|variable| variable.default), Some("100"), "11.5");
}

/// Returns the log lines with this message.
fn logged(bot: &Program, message: &str) -> Vec<Value> {
    bot.log().into_iter().filter(|line| line["message"] == message).collect()
}
