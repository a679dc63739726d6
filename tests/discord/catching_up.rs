//! What was written while nobody listened: all of it, in order, with few requests, and holding
//! nobody else up.

use std::sync::Arc;
use std::time::Duration;

use aetheel::discord::Windows;

use super::desk::{Bot, Log, Office};
use crate::support::discord::{ANN, BOB, CHANNEL, Fault, LocalDiscord, OTHER, room};

/// An office that saw the last message of these channels, before anything else is written there.
fn office(local: &LocalDiscord, channels: impl IntoIterator<Item = u64>) -> Arc<Office> {
    let office = Office::default();
    let seen: Vec<(u64, u64)> = channels
        .into_iter()
        .map(|channel| (channel, local.mention(channel, ANN, "before")))
        .collect();
    office.seen.lock().unwrap().extend(seen);
    Arc::new(office)
}

async fn start(local: &LocalDiscord, office: &Arc<Office>) -> Bot {
    Bot::try_start(local, Windows::default(), Arc::clone(office)).await.expect("the bot starts")
}

fn count(local: &LocalDiscord, path: &str) -> usize {
    local
        .requests()
        .iter()
        .filter(|request| request.method == "GET" && request.path.contains(path))
        .count()
}

#[tokio::test]
async fn all_that_members_wrote_is_taken_in_order_whatever_strangers_wrote_between() {
    let (log, _guard) = Log::start();
    let local = LocalDiscord::start().await;
    let office = office(&local, [CHANNEL]);
    office.strangers.lock().unwrap().push(BOB);
    let wanted: Vec<String> = (0..230).map(|number| number.to_string()).collect();
    for number in &wanted {
        local.mention(CHANNEL, BOB, "let me in");
        local.mention(CHANNEL, ANN, number);
    }
    let bot = start(&local, &office).await;
    bot.event(&local, "229").await;
    assert_eq!(bot.office.prompts(), wanted);
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
    assert!(local.texts(CHANNEL).is_empty(), "strangers hear nothing: {:?}", local.texts(CHANNEL));
}

#[tokio::test]
async fn one_person_is_looked_up_once_in_however_many_channels() {
    let local = LocalDiscord::start().await;
    let channels: Vec<u64> = (0..60).map(room).collect();
    let office = office(&local, channels.iter().copied());
    for channel in &channels {
        for number in 0..5 {
            local.mention(*channel, ANN, &number.to_string());
        }
    }
    let bot = start(&local, &office).await;
    local.wait_for("all prompts", |_| (bot.office.prompts().len() == 300).then_some(())).await;
    assert_eq!((count(&local, "/members/"), count(&local, "/messages")), (1, 60));
    for channel in channels {
        let events = bot.office.events.lock().unwrap();
        let prompts: Vec<&str> = events
            .iter()
            .filter(|event| event.lane == aetheel::event::Lane::Channel(channel))
            .map(|event| event.prompt.as_str())
            .collect();
        assert_eq!(prompts, ["0", "1", "2", "3", "4"]);
    }
}

#[tokio::test]
async fn while_one_channel_cannot_be_read_others_are_answered_and_its_own_messages_keep_their_order()
 {
    let local = LocalDiscord::start().await;
    let channels: Vec<u64> = (0..20).map(room).chain([CHANNEL, OTHER]).collect();
    let office = office(&local, channels);
    local.mention(CHANNEL, ANN, "missed");
    // More than are read at the same time: nobody waits for these.
    for number in 0..20 {
        local.faults().next(
            "GET",
            &format!("/channels/{}/messages", room(number)),
            Fault::Status(503),
            1_000,
        );
    }
    local.faults().next("GET", &format!("/channels/{CHANNEL}/messages"), Fault::Status(503), 1_000);
    let bot = start(&local, &office).await;
    local.wait_for("the first tries", |local| (count(local, "/messages") > 8).then_some(())).await;
    local.mention(OTHER, ANN, "elsewhere");
    bot.event(&local, "elsewhere").await;
    // A command is kept at once, also where a message has to wait.
    local.mention(CHANNEL, ANN, "live");
    let id = local.slash(CHANNEL, ANN, "ask", Some("by command"));
    bot.event(&local, "by command").await;
    let acknowledged =
        local.wait_for("the acknowledgement", |local| local.interaction(id).acknowledged).await;
    assert_eq!(acknowledged.1, 5);
    assert_eq!(bot.office.prompts(), ["elsewhere", "by command"]);
    local.faults().clear();
    bot.event(&local, "live").await;
    assert_eq!(bot.office.prompts(), ["elsewhere", "by command", "missed", "live"]);
}

#[tokio::test]
async fn of_what_is_too_old_the_newest_is_answered_in_words_and_the_ones_before_get_a_mark() {
    let local = LocalDiscord::start().await;
    let office = Arc::new(Office::default());
    let eleven = Duration::from_secs(11 * 60);
    let before = local.mention_earlier(CHANNEL, ANN, "answered before", eleven * 2);
    office.seen.lock().unwrap().insert(CHANNEL, before);
    let [first, second, newest] =
        ["one", "two", "three"].map(|prompt| local.mention_earlier(CHANNEL, ANN, prompt, eleven));
    let _bot = start(&local, &office).await;
    let told = local.wait_for_message(CHANNEL, |text| text.ends_with("Please ask again.")).await;
    assert_eq!(told.reply_to, Some(newest));
    local.wait_for("the marks", |local| (local.marked() == [first, second]).then_some(())).await;
    assert_eq!(local.reactions(first), ["🚫"]);
}

#[tokio::test]
async fn what_is_too_old_is_counted_and_told_once() {
    let (log, _guard) = Log::start();
    let local = LocalDiscord::start().await;
    let office = Arc::new(Office::default());
    office.strangers.lock().unwrap().push(BOB);
    let hour = Duration::from_secs(3_600);
    let before = local.mention_earlier(CHANNEL, ANN, "answered before", hour * 2);
    office.seen.lock().unwrap().insert(CHANNEL, before);
    let mut newest = 0;
    for number in 0..130 {
        newest = local.mention_earlier(CHANNEL, ANN, &format!("old {number}"), hour);
        local.mention_earlier(CHANNEL, BOB, "a stranger's", hour);
    }
    local.mention(CHANNEL, ANN, "young");
    let bot = start(&local, &office).await;
    bot.event(&local, "young").await;
    assert_eq!(bot.office.prompts(), ["young"]);
    let told = local.wait_for_message(CHANNEL, |text| text.starts_with("I was away")).await;
    assert!(told.content.contains("left out 130 prompts"), "{}", told.content);
    assert_eq!(told.reply_to, Some(newest));
    assert_eq!(bot.office.declined.lock().unwrap().len(), 1, "it is kept before it is told");
    assert!(log.text().contains("count=130"), "{}", log.text());
    drop(bot);
    let again = start(&local, &office).await;
    local.mention(CHANNEL, ANN, "and now");
    again.event(&local, "and now").await;
    assert_eq!(local.texts(CHANNEL).len(), 1, "{:?}", local.texts(CHANNEL));
}

#[tokio::test]
async fn a_life_goes_on_where_the_last_one_died_in_the_middle_of_catching_up() {
    let local = LocalDiscord::start().await;
    let office = office(&local, [CHANNEL]);
    for number in 0..150 {
        local.mention(CHANNEL, ANN, &number.to_string());
    }
    // The second page does not come in the first life.
    local.faults().latency(Duration::from_millis(300));
    let first = start(&local, &office).await;
    local.wait_for("the first page", |_| (first.office.prompts().len() >= 100).then_some(())).await;
    drop(first);
    local.faults().latency(Duration::ZERO);
    assert_eq!(office.prompts().len(), 100, "it died in the middle");
    let second = start(&local, &office).await;
    second.event(&local, "149").await;
    let wanted: Vec<String> = (0..150).map(|number| number.to_string()).collect();
    assert_eq!(office.prompts(), wanted, "each once, in order");
}
