//! Threads, waiting, edits and deletions.

use std::sync::atomic::Ordering;

use aetheel::dispatch::{Outlet as _, PriorDelivery};
use aetheel::event::{Event, EventKind, Lane, NewEvent, Origin};

use super::desk::{Bot, Turn};
use crate::support::discord::{ANN, BOT, CHANNEL, DIRECT, Fault, LocalDiscord, THREAD};

/// A bot that may read what does not name it.
async fn reader(local: &LocalDiscord) -> Bot {
    local.let_read();
    Bot::start(local).await
}

#[tokio::test]
async fn new_opens_a_thread_named_after_the_prompt_and_has_it_answered_there() {
    let local = LocalDiscord::start().await;
    let bot = reader(&local).await;
    // The answer to the first attempt is lost: the thread is not opened twice.
    local.faults().next("POST", "/threads", Fault::CutAfter, 1);
    local.slash(CHANNEL, ANN, "new", Some("Fix **the** build\nand the tests"));
    let asked = bot.event(&local, "Fix **the** build\nand the tests").await;
    assert!(asked.opens_thread && local.threads().is_empty(), "it is kept before anything is done");
    let traces = PriorDelivery::unkept();
    let opened = bot.discord.open_thread(&asked, traces.clone()).await.unwrap();
    // What an earlier try did is found, also when the nonces of its messages are forgotten.
    let again = PriorDelivery { stem: "another".to_owned(), ..traces };
    assert_eq!(bot.discord.open_thread(&asked, again).await, Ok(opened));
    let [(thread, CHANNEL, name)] = &local.threads()[..] else {
        panic!("one thread: {:?}", local.threads())
    };
    assert_eq!(name, "Fix the build");
    assert_eq!(local.texts(CHANNEL), ["🧵 New conversation: **Fix the build**"]);
    assert_eq!(local.texts(*thread), ["**ann**:\n> Fix **the** build\n> and the tests"]);
    let first = local.messages(*thread)[0].id;
    assert_eq!(
        (asked.kind, asked.lane.clone(), asked.asker),
        (EventKind::Message, Lane::Channel(CHANNEL), Some(ANN))
    );
    assert_eq!((opened.thread, opened.first), (*thread, first));
    assert_eq!(
        bot.office.seen.lock().unwrap().get(thread),
        Some(&first),
        "the thread is caught up with from here on"
    );
    let event = Event {
        lane: Lane::Channel(*thread),
        origin: Origin::Message { channel: *thread, message: first },
        ..asked
    };
    Turn::of(&bot, &event).done("Fixed.").await;
    assert_eq!(
        local.messages(*thread).last().map(|answer| (answer.content.clone(), answer.reply_to)),
        Some(("Fixed.".to_owned(), Some(first)))
    );
}

#[tokio::test]
async fn new_says_what_to_do_where_no_thread_can_be_opened() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    for place in [DIRECT, THREAD] {
        local.slash(place, ANN, "new", Some("hello"));
        local.wait_for_message(place, |text| text.ends_with("`/reset`.")).await;
    }
    assert!(bot.office.prompts().is_empty());
    *bot.office.refusal.lock().unwrap() = Some("I am busy.".to_owned());
    local.slash(CHANNEL, ANN, "new", Some("not now"));
    local.wait_for_message(CHANNEL, |text| text == "I am busy.").await;
    assert!(
        bot.office.prompts().is_empty() && local.threads().is_empty(),
        "no thread is opened for what is refused"
    );
    *bot.office.refusal.lock().unwrap() = None;
    local.faults().next("POST", "/threads", Fault::Refuse(403, 50013), 1);
    local.slash(CHANNEL, ANN, "new", Some("hello"));
    let event = bot.event(&local, "hello").await;
    let why = bot.discord.open_thread(&event, PriorDelivery::unkept()).await.unwrap_err();
    assert!(why.contains("Create Public Threads") && why.contains("Use `/reset`"), "{why}");
    let opened = bot.discord.open_thread(&event, PriorDelivery::unkept()).await.unwrap();
    let said = local.texts(opened.thread);
    assert!(
        said[0].ends_with("-# In this thread I read only what mentions or answers me."),
        "{said:?}"
    );
}

#[tokio::test]
async fn inside_its_threads_the_bot_needs_no_mention_and_leaves_talk_among_others_alone() {
    let local = LocalDiscord::start().await;
    let bot = reader(&local).await;
    local.say(THREAD, ANN, "nobody spoke to the bot here");
    local.say(CHANNEL, ANN, "nor here");
    local.mention(CHANNEL, ANN, "so far");
    local.mention(THREAD, ANN, "so far there");
    bot.event(&local, "so far").await;
    bot.event(&local, "so far there").await;
    bot.office.known.lock().unwrap().extend([Lane::Channel(THREAD), Lane::Channel(CHANNEL)]);
    local.say(CHANNEL, ANN, "a channel is no thread");
    let own = local.say(THREAD, ANN, "please go on");
    bot.event(&local, "please go on").await;
    local.say(THREAD, ANN, &format!("<@{ANN}> look at this"));
    local.reply(own, ANN, "talking to myself");
    *bot.office.shut.lock().unwrap() = Some("not on the list".to_owned());
    local.say(THREAD, ANN, "may I?");
    local
        .wait_for("the last one's refusal", |_| {
            (bot.office.askers.lock().unwrap().len() == 4).then_some(())
        })
        .await;
    let prompts = bot.office.prompts();
    assert!(prompts.len() == 3 && prompts[2] == "please go on", "{prompts:?}");
    let asker = bot.office.askers.lock().unwrap()[2].clone();
    assert_eq!(
        (asker.channel, asker.parent),
        (THREAD, Some(CHANNEL)),
        "the channel's lists hold in its threads"
    );
    assert!(local.messages(THREAD).is_empty() && local.messages(CHANNEL).is_empty(), "silence");

    *bot.office.shut.lock().unwrap() = None;
    local.slash(CHANNEL, ANN, "new", Some("a new one"));
    bot.opened(&local, "a new one").await;
    // Nothing is known of it yet: it is the bot's because the bot opened it.
    local.say(local.threads()[0].0, ANN, "and then?");
    bot.event(&local, "and then?").await;
}

#[tokio::test]
async fn a_bot_that_may_not_read_everything_hears_in_threads_what_names_it() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    bot.office.known.lock().unwrap().push(Lane::Channel(THREAD));
    local.say(THREAD, ANN, "cannot be read");
    local.mention(THREAD, ANN, "can be read");
    bot.event(&local, "can be read").await;
    assert_eq!(bot.office.prompts(), ["can be read"]);
    assert_eq!(bot.office.learned.lock().unwrap()[0], (THREAD, CHANNEL));
}

#[tokio::test]
async fn an_archived_thread_is_brought_back_by_the_answer() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.mention(THREAD, ANN, "go");
    let mut turn = bot.turn(&local, "go").await;
    turn.say("Half");
    local.wait_for_message(THREAD, |text| text == "Half").await;
    local.faults().next("PATCH", &format!("{THREAD}/messages"), Fault::Refuse(400, 50083), 1);
    turn.done("Half and whole").await;
    assert_eq!(local.texts(THREAD), ["Half and whole"], "the draft is not left behind");
}

#[tokio::test]
async fn a_prompt_that_waits_shows_its_place_until_its_turn_begins() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.mention(CHANNEL, ANN, "at once");
    bot.event(&local, "at once").await;
    bot.office.ahead.store(2, Ordering::SeqCst);
    let message = local.mention(CHANNEL, ANN, "later");
    local.slash(CHANNEL, ANN, "ask", Some("by command"));
    local.wait_for("the number", |local| (local.reactions(message) == ["2️⃣"]).then_some(())).await;
    local
        .wait_for_message(CHANNEL, |text| text == "> 💬 by command\n-# ⏳ 2 before this one.")
        .await;
    assert_eq!(local.marked(), [message], "only what waits is marked");
    bot.turn(&local, "later").await.done("Done").await;
    local
        .wait_for("the number's end", |local| local.reactions(message).is_empty().then_some(()))
        .await;
    bot.turn(&local, "by command").await.done("Done by command").await;
    assert_eq!(
        local.texts(CHANNEL),
        ["> 💬 by command\nDone by command", "Done"],
        "the command's own message became its answer"
    );
}

#[tokio::test]
async fn what_waits_for_the_next_life_shows_no_place_any_more() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    bot.office.ahead.store(1, Ordering::SeqCst);
    let message = local.mention(CHANNEL, ANN, "later");
    local.slash(CHANNEL, ANN, "ask", Some("by command"));
    local.wait_for("the number", |local| (local.reactions(message) == ["1️⃣"]).then_some(())).await;
    local
        .wait_for_message(CHANNEL, |text| text == "> 💬 by command\n-# ⏳ 1 before this one.")
        .await;
    bot.listening.close().await;
    assert!(local.reactions(message).is_empty());
    assert_eq!(local.texts(CHANNEL), ["> 💬 by command\n-# I am restarting: the answer follows."]);
}

#[tokio::test]
async fn a_message_in_a_thread_waits_until_discord_can_say_whose_thread_it_is() {
    let local = LocalDiscord::start().await;
    let bot = reader(&local).await;
    local.slash(CHANNEL, ANN, "new", Some("begin"));
    bot.opened(&local, "begin").await;
    let thread = local.threads()[0].0;
    local.faults().next("GET", &format!("/channels/{thread}"), Fault::Status(502), 6);
    local.say(thread, ANN, "one");
    local.say(thread, ANN, "two");
    bot.event(&local, "two").await;
    assert_eq!(bot.office.prompts(), ["begin", "one", "two"]);
    assert_eq!(local.faults().waiting(), 0, "it could not for long");
}

#[tokio::test]
async fn a_waiting_message_can_be_edited_and_deleted_and_a_preview_is_neither() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    bot.office.ahead.store(1, Ordering::SeqCst);
    let message = local.mention(CHANNEL, ANN, "see https://example.org");
    bot.event(&local, "see https://example.org").await;
    local.preview(message, &format!("<@{BOT}> see https://example.org"));
    local.edit(message, &format!("<@{BOT}> see <@{ANN}>"));
    local
        .wait_for("a mark", |local| {
            local.reactions(message).contains(&"✏️".to_owned()).then_some(())
        })
        .await;
    let key = format!("discord:{message}");
    assert_eq!(
        *bot.office.amended.lock().unwrap(),
        [(key.clone(), "see @ann".to_owned())],
        "a preview is no edit"
    );

    *bot.office.refusal.lock().unwrap() = Some("That is too long.".to_owned());
    local.edit(message, &format!("<@{BOT}> much longer"));
    local.wait_for_message(CHANNEL, |text| text.contains("too long")).await;
    local.delete(message);
    local
        .wait_for("the withdrawal", |_| {
            (*bot.office.withdrawn.lock().unwrap() == [key.clone()]).then_some(())
        })
        .await;

    // What runs already is neither changed nor marked.
    *bot.office.refusal.lock().unwrap() = None;
    bot.office.ahead.store(0, Ordering::SeqCst);
    let running = local.mention(CHANNEL, ANN, "now");
    bot.event(&local, "now").await;
    local.edit(running, &format!("<@{BOT}> now or never"));
    local
        .wait_for("the edit", |_| (bot.office.amended.lock().unwrap().len() == 3).then_some(()))
        .await;
    local.mention(CHANNEL, ANN, "last");
    bot.event(&local, "last").await;
    assert!(local.reactions(running).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_prompt_whose_turn_began_meanwhile_shows_no_place() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    bot.office.ahead.store(1, Ordering::SeqCst);
    bot.office.block(true);
    let message = local.mention(CHANNEL, ANN, "quick");
    // Its turn begins while it is still being accepted.
    local
        .wait_for("the prompt at the door", |_| {
            (bot.office.offered.load(Ordering::SeqCst) == 1).then_some(())
        })
        .await;
    let origin = Origin::Message { channel: CHANNEL, message };
    let event: Event =
        NewEvent::new(EventKind::Message, Lane::Channel(CHANNEL), origin, "quick").accepted(1, 0);
    let opened = Turn::of(&bot, &event);
    bot.office.block(false);
    opened.done("Done").await;
    bot.office.ahead.store(0, Ordering::SeqCst);
    local.mention(CHANNEL, ANN, "next");
    bot.event(&local, "next").await;
    assert!(local.marked().is_empty(), "{:?}", local.reactions(message));
}
