//! Tests of messages that were written while the bot was offline: all are handled, in order, with
//! few requests, and without delaying other channels.

use std::sync::Arc;
use std::time::Duration;

use aetheel_discord::TimeLimits;
use aetheel_model::access::AllowLists;
use aetheel_model::event::Lane;
use aetheel_model::id::{ChannelId, MessageId, UserId};

use super::bot::{Bot, Home, Log, options};
use crate::support::discord::{ANN, BOB, CHANNEL, Fault, LocalDiscord, OTHER, room};

/// Creates a home that has saved the newest message of these channels as handled.
async fn home(local: &LocalDiscord, channels: impl IntoIterator<Item = u64>) -> Arc<Home> {
    let home = Home::new().await;
    for channel in channels {
        let message = local.mention(channel, ANN, "before");
        home.workspace
            .state
            .discord
            .note_seen(ChannelId::discord(channel), MessageId::discord(message));
    }
    home
}

/// Starts a bot that allows only Ann.
async fn start(local: &LocalDiscord, home: &Arc<Home>) -> Bot {
    let allowed = AllowLists { users: [ANN].map(UserId::discord).into(), ..AllowLists::default() };
    let mut options = options(local, TimeLimits::default());
    options.settings.allowed = allowed;
    Bot::with_options(options, Arc::clone(home)).await.expect("the bot starts")
}

fn count(local: &LocalDiscord, path: &str) -> usize {
    local
        .requests()
        .iter()
        .filter(|request| request.method == "GET" && request.path.contains(path))
        .count()
}

#[tokio::test]
async fn missed_messages_of_members_are_handled_in_order_between_those_of_strangers() {
    let (log, _guard) = Log::start();
    let local = LocalDiscord::start().await;
    let home = home(&local, [CHANNEL]).await;
    let wanted: Vec<String> = (0..230).map(|number| number.to_string()).collect();
    for number in &wanted {
        local.mention(CHANNEL, BOB, "let me in");
        local.mention(CHANNEL, ANN, number);
    }
    let bot = start(&local, &home).await;
    bot.event(&local, "229").await;
    assert_eq!(bot.home.prompts(), wanted);
    local.wait_for("the log", |_| log.text().contains("caught up").then_some(())).await;
    let line =
        log.text().lines().find(|line| line.contains("caught up")).map(str::to_owned).unwrap();
    assert!(line.contains("prompts=230") && line.contains("refused=0"), "{line}");
    assert_eq!(
        count(&local, &format!("/channels/{CHANNEL}/messages")),
        5,
        "460 messages are five pages"
    );
    assert_eq!(count(&local, "/members/"), 2, "two people");
    assert!(local.texts(CHANNEL).is_empty(), "strangers get no answer: {:?}", local.texts(CHANNEL));
}

#[tokio::test]
async fn a_person_is_looked_up_once_for_all_channels() {
    let local = LocalDiscord::start().await;
    let channels: Vec<u64> = (0..60).map(room).collect();
    let home = home(&local, channels.iter().copied()).await;
    for channel in &channels {
        for number in 0..5 {
            local.mention(*channel, ANN, &number.to_string());
        }
    }
    let bot = start(&local, &home).await;
    local.wait_for("all prompts", |_| (bot.home.prompts().len() == 300).then_some(())).await;
    assert_eq!((count(&local, "/members/"), count(&local, "/messages")), (1, 60));
    for channel in channels {
        let begun = bot.home.begun.lock().unwrap();
        let prompts: Vec<&str> = begun
            .iter()
            .filter(|event| event.lane == Lane::Channel(ChannelId::discord(channel)))
            .map(|event| event.prompt.as_str())
            .collect();
        assert_eq!(prompts, ["0", "1", "2", "3", "4"]);
    }
}

#[tokio::test]
async fn prompts_of_the_first_channels_are_accepted_before_all_channels_are_read() {
    let local = LocalDiscord::start().await;
    let channels: Vec<u64> = (0..60).map(room).collect();
    let home = home(&local, channels.iter().copied()).await;
    for channel in &channels {
        local.mention(*channel, ANN, "missed");
    }
    // Requests are sent in order. If all channels were read at the same time, the requests about
    // the first prompt would be sent after 60 others.
    let mut options = options(&local, TimeLimits::default());
    options.settings.requests_per_second = 20;
    let bot = Bot::with_options(options, Arc::clone(&home)).await.expect("the bot starts");
    bot.event(&local, "missed").await;
    let read = count(&local, "/messages");
    assert!(read < 60, "the first prompt was accepted after {read} channels were read");
    local.wait_for("all prompts", |_| (bot.home.prompts().len() == 60).then_some(())).await;
}

#[tokio::test]
async fn an_unreadable_channel_delays_no_other_and_keeps_its_order() {
    let local = LocalDiscord::start().await;
    let channels: Vec<u64> = (0..20).map(room).chain([CHANNEL, OTHER]).collect();
    let home = home(&local, channels).await;
    local.mention(CHANNEL, ANN, "missed");
    // More channels than are read in parallel, so that none of them waits for these.
    for number in 0..20 {
        local.faults().next(
            "GET",
            &format!("/channels/{}/messages", room(number)),
            Fault::Status(503),
            1_000,
        );
    }
    local.faults().next("GET", &format!("/channels/{CHANNEL}/messages"), Fault::Status(503), 1_000);
    let bot = start(&local, &home).await;
    local.wait_for("the first tries", |local| (count(local, "/messages") > 8).then_some(())).await;
    local.mention(OTHER, ANN, "elsewhere");
    bot.event(&local, "elsewhere").await;
    // A command is accepted at once, even if a message has to wait.
    local.mention(CHANNEL, ANN, "live");
    let id = local.slash(CHANNEL, ANN, "ask", Some("by command"));
    bot.event(&local, "by command").await;
    let acknowledged =
        local.wait_for("the acknowledgement", |local| local.interaction(id).acknowledged).await;
    assert_eq!(acknowledged.1, 5);
    assert_eq!(bot.home.prompts(), ["elsewhere", "by command"]);
    local.faults().clear();
    bot.event(&local, "live").await;
    assert_eq!(bot.home.prompts(), ["elsewhere", "by command", "missed", "live"]);
}

#[tokio::test]
async fn the_newest_outdated_message_gets_a_reply_and_earlier_ones_a_reaction() {
    let local = LocalDiscord::start().await;
    let home = Home::new().await;
    let eleven = Duration::from_secs(11 * 60);
    let before = local.mention_earlier(CHANNEL, ANN, "answered before", eleven * 2);
    home.workspace.state.discord.note_seen(ChannelId::discord(CHANNEL), MessageId::discord(before));
    let [first, second, newest] =
        ["one", "two", "three"].map(|prompt| local.mention_earlier(CHANNEL, ANN, prompt, eleven));
    let _bot = start(&local, &home).await;
    let told = local.wait_for_message(CHANNEL, |text| text.ends_with("Please ask again.")).await;
    assert_eq!(told.reply_to, Some(newest));
    local
        .wait_for("the reactions", |local| (local.marked() == [first, second]).then_some(()))
        .await;
    assert_eq!(local.reactions(first), ["🚫"]);
}

#[tokio::test]
async fn outdated_messages_are_counted_and_reported_once() {
    let (log, _guard) = Log::start();
    let local = LocalDiscord::start().await;
    let home = Home::with(|home| home.kept = true).await;
    let hour = Duration::from_secs(3_600);
    let before = local.mention_earlier(CHANNEL, ANN, "answered before", hour * 2);
    home.workspace.state.discord.note_seen(ChannelId::discord(CHANNEL), MessageId::discord(before));
    let mut newest = 0;
    for number in 0..130 {
        newest = local.mention_earlier(CHANNEL, ANN, &format!("old {number}"), hour);
        local.mention_earlier(CHANNEL, BOB, "a stranger's", hour);
    }
    local.mention(CHANNEL, ANN, "young");
    let bot = start(&local, &home).await;
    bot.event(&local, "young").await;
    assert_eq!(bot.home.prompts(), ["young"]);
    let told = local.wait_for_message(CHANNEL, |text| text.starts_with("I was away")).await;
    assert!(told.content.contains("left out 130 prompts"), "{}", told.content);
    assert_eq!(told.reply_to, Some(newest));
    assert!(home.state("queue.md").contains("left out 130"), "it is saved before it is posted");
    assert!(log.text().contains("count=130"), "{}", log.text());
    drop(bot);
    let again = start(&local, &home).await;
    local.mention(CHANNEL, ANN, "and now");
    again.event(&local, "and now").await;
    assert_eq!(local.texts(CHANNEL).len(), 1, "{:?}", local.texts(CHANNEL));
}

#[tokio::test]
async fn a_restart_continues_an_interrupted_catch_up() {
    let local = LocalDiscord::start().await;
    let home = Home::with(|home| home.kept = true).await;
    home.busy.send_replace(true);
    let before = local.mention(CHANNEL, ANN, "before");
    home.workspace.state.discord.note_seen(ChannelId::discord(CHANNEL), MessageId::discord(before));
    for number in 0..150 {
        local.mention(CHANNEL, ANN, &number.to_string());
    }
    // Both bots share this rate limit without knowing of each other.
    local.faults().limit("channels", 1_000, Duration::from_secs(1));
    // The first process does not receive the second page.
    local.faults().latency(Duration::from_millis(300));
    let Bot { listening, dispatcher, .. } = start(&local, &home).await;
    let waiting =
        || dispatcher.observer.queue_of(&Lane::Channel(ChannelId::discord(CHANNEL))).waiting.len();
    local.wait_for("the first page", |_| (waiting() >= 99).then_some(())).await;
    drop(listening);
    assert_eq!(waiting(), 99, "it died in the middle");
    dispatcher.shutdown(Duration::ZERO).await;
    local.faults().latency(Duration::ZERO);
    home.busy.send_replace(false);
    let second = start(&local, &home).await;
    second.event(&local, "149").await;
    let wanted: Vec<String> = (0..150).map(|number| number.to_string()).collect();
    assert_eq!(home.prompts()[0], "0", "it was interrupted");
    assert_eq!(home.prompts()[1..], wanted, "each runs once, in order");
}

#[tokio::test]
async fn authors_learn_that_their_message_was_handled_more_than_two_minutes_late() {
    let local = LocalDiscord::start().await;
    let home = Home::new().await;
    home.workspace.state.discord.note_seen(ChannelId::discord(CHANNEL), MessageId::discord(1));
    // The local clock is wrong; the age is computed from Discord's.
    local.faults().clock_ahead(-60);
    local.mention_earlier(CHANNEL, ANN, "long ago", Duration::from_secs(60 + 150));
    local.mention_earlier(CHANNEL, ANN, "not so long ago", Duration::from_secs(60 + 90));
    let bot = start(&local, &home).await;
    assert!(bot.event(&local, "long ago").await.late);
    assert!(!bot.event(&local, "not so long ago").await.late);
    local.mention(OTHER, ANN, "now");
    assert!(!bot.event(&local, "now").await.late);
}
