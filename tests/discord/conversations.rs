//! Tests of threads, waiting prompts, edits and deletions.

use aetheel_dispatch::{Outlet as _, PriorDelivery, Setting};
use aetheel_model::access::AllowLists;
use aetheel_model::event::{EventKind, EventOrigin, Lane};
use aetheel_model::id::{ChannelId, MessageId, UserId};

use super::bot::{Barrier, Bot, Home, Log, Turn, options};
use crate::support::discord::{ANN, BOB, BOT, CHANNEL, DIRECT, Fault, LocalDiscord, THREAD};

/// Starts a bot that may read messages that do not mention it.
async fn reader(local: &LocalDiscord) -> Bot {
    local.let_read();
    Bot::start(local).await
}

#[tokio::test]
async fn new_opens_a_thread_named_after_the_prompt_and_has_it_answered_there() {
    let local = LocalDiscord::start().await;
    let bot = reader(&local).await;
    // The response to the first request is lost. The thread must not be opened twice.
    local.faults().next("POST", "/threads", Fault::CutAfter, 1);
    local.slash(CHANNEL, ANN, "new", Some("Fix **the** build\nand the tests"));
    let prompt = "Fix **the** build\nand the tests";
    let event = bot.event(&local, prompt).await;
    // The thread and the messages of an earlier attempt are found, even if Discord no longer knows
    // their nonces.
    let asked = bot.home.threads.lock().unwrap()[0].clone();
    let again = PriorDelivery { stem: "another".to_owned(), ..PriorDelivery::untracked() };
    let opened = bot.discord.open_thread(&asked, again).await.unwrap();
    let [(thread, CHANNEL, name)] = &local.threads()[..] else {
        panic!("one thread: {:?}", local.threads())
    };
    assert_eq!(name, "Fix the build");
    assert_eq!(local.texts(CHANNEL), ["🧵 New conversation: **Fix the build**"]);
    assert_eq!(local.texts(*thread), ["**ann**:\n> Fix **the** build\n> and the tests"]);
    let first = local.messages(*thread)[0].id;
    assert_eq!(
        (asked.kind, asked.request.lane, asked.request.asker, asked.request.opens_thread),
        (
            EventKind::Message,
            Lane::Channel(ChannelId::discord(CHANNEL)),
            Some(UserId::discord(ANN)),
            true
        )
    );
    assert_eq!(
        (opened.thread, opened.first),
        (ChannelId::discord(*thread), MessageId::discord(first))
    );
    assert_eq!(
        bot.home.last_seen(*thread).await,
        Some(first),
        "missed messages of the thread are read from here on"
    );
    assert_eq!(
        (&event.lane, &event.origin),
        (
            &Lane::Channel(ChannelId::discord(*thread)),
            &EventOrigin::Message {
                channel: ChannelId::discord(*thread),
                message: MessageId::discord(first)
            }
        )
    );
    Turn::of(&bot, &event).done("Fixed.").await;
    assert_eq!(
        local.messages(*thread).last().map(|answer| (answer.content.clone(), answer.reply_to)),
        Some(("Fixed.".to_owned(), Some(first)))
    );
}

#[tokio::test]
async fn new_explains_what_to_do_if_no_thread_can_be_opened() {
    let local = LocalDiscord::start().await;
    let bot = Bot::with_home(&local, &Home::with(|home| home.prompt_limit = 8).await).await;
    for place in [DIRECT, THREAD] {
        local.slash(place, ANN, "new", Some("hello"));
        local.wait_for_message(place, |text| text.contains("Use `/reset`")).await;
    }
    assert!(bot.home.prompts().is_empty());
    local.slash(CHANNEL, ANN, "new", Some("far too much"));
    local.wait_for_message(CHANNEL, |text| text.contains("too long")).await;
    assert!(
        bot.home.prompts().is_empty() && local.threads().is_empty(),
        "no thread is opened for a refused prompt"
    );
    local.faults().next("POST", "/threads", Fault::Refuse(403, 50013), 1);
    local.slash(CHANNEL, ANN, "new", Some("hello"));
    let refused = |_: &LocalDiscord| bot.home.answers.lock().unwrap().pop();
    let why = local.wait_for("the refusal", refused).await.failure.unwrap();
    assert!(why.contains("Create Public Threads") && why.contains("Use `/reset`"), "{why}");
    local.slash(CHANNEL, ANN, "new", Some("hi"));
    bot.event(&local, "hi").await;
    let said = local.texts(local.threads()[0].0);
    assert!(
        said[0].ends_with("-# In this thread I read only messages that mention me or reply to me."),
        "{said:?}"
    );
}

#[tokio::test]
async fn in_its_threads_the_bot_needs_no_mention_and_ignores_talk_among_others() {
    let local = LocalDiscord::start().await;
    local.let_read();
    let (log, _guard) = Log::start();
    // The channel's access lists also apply to its threads.
    let allowed = AllowLists {
        users: [ANN].map(UserId::discord).into(),
        channels: [CHANNEL].map(ChannelId::discord).into(),
        ..AllowLists::default()
    };
    let mut options = options(&local, Default::default());
    options.settings.allowed = allowed;
    let bot = Bot::with_options(options, Home::new().await).await.expect("the bot starts");
    local.say(THREAD, ANN, "nobody spoke to the bot here");
    local.say(CHANNEL, ANN, "nor here");
    local.mention(CHANNEL, ANN, "so far");
    local.mention(THREAD, ANN, "so far there");
    bot.event(&local, "so far").await;
    bot.event(&local, "so far there").await;
    bot.dispatcher.turns.idle().await;
    local.say(CHANNEL, ANN, "a channel is no thread");
    let own = local.say(THREAD, ANN, "please go on");
    bot.event(&local, "please go on").await;
    local.say(THREAD, ANN, &format!("<@{ANN}> look at this"));
    local.reply(own, ANN, "talking to myself");
    local.say(THREAD, BOB, "may I?");
    local
        .wait_for("the last one's refusal", |_| {
            log.text().contains("refused a discord user").then_some(())
        })
        .await;
    let prompts = bot.home.prompts();
    assert!(prompts.len() == 3 && prompts[2] == "please go on", "{prompts:?}");
    assert!(local.messages(THREAD).is_empty() && local.messages(CHANNEL).is_empty(), "silence");

    local.slash(CHANNEL, ANN, "new", Some("a new one"));
    bot.event(&local, "a new one").await;
    // Nothing is saved about the thread yet. It is the bot's, because the bot opened it.
    local.say(local.threads()[0].0, ANN, "and then?");
    bot.event(&local, "and then?").await;
}

#[tokio::test]
async fn without_the_message_content_intent_mentions_in_threads_are_prompts() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.mention(THREAD, ANN, "a thread of the bot's");
    bot.event(&local, "a thread of the bot's").await;
    bot.dispatcher.turns.idle().await;
    local.say(THREAD, ANN, "cannot be read");
    local.mention(THREAD, ANN, "can be read");
    bot.event(&local, "can be read").await;
    assert_eq!(bot.home.prompts(), ["a thread of the bot's", "can be read"]);
    // Options of the channel apply to the thread.
    bot.dispatcher
        .settings
        .choose(&Lane::Channel(ChannelId::discord(CHANNEL)), Setting::Model, Some("sonnet"))
        .await
        .unwrap();
    let shown =
        bot.dispatcher.observer.lane_status(&Lane::Channel(ChannelId::discord(THREAD))).await;
    let model = shown.options.iter().find(|option| option.setting == Setting::Model).unwrap();
    assert_eq!(model.current.as_deref(), Some("sonnet"));
}

#[tokio::test]
async fn an_archived_thread_is_reopened_by_the_answer() {
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
async fn a_waiting_prompt_shows_its_position_until_its_turn_begins() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    bot.home.busy.send_replace(true);
    local.mention(CHANNEL, ANN, "at once");
    bot.event(&local, "at once").await;
    let message = local.mention(CHANNEL, ANN, "later");
    local.slash(CHANNEL, ANN, "ask", Some("by command"));
    local.wait_for("the number", |local| (local.reactions(message) == ["1️⃣"]).then_some(())).await;
    local
        .wait_for_message(CHANNEL, |text| text == "> 💬 by command\n-# ⏳ 2 before this one.")
        .await;
    assert_eq!(local.marked(), [message], "only waiting prompts are marked");
    bot.home.busy.send_replace(false);
    bot.turn(&local, "later").await.done("Done").await;
    local
        .wait_for("the number to be removed", |local| {
            local.reactions(message).is_empty().then_some(())
        })
        .await;
    bot.turn(&local, "by command").await.done("Done by command").await;
    assert_eq!(
        local.texts(CHANNEL),
        ["> 💬 by command\nDone by command", "Done"],
        "the command's own message became its answer"
    );
}

#[tokio::test]
async fn prompts_that_wait_for_the_next_start_show_no_position() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    bot.home.busy.send_replace(true);
    local.mention(CHANNEL, ANN, "at once");
    let message = local.mention(CHANNEL, ANN, "later");
    local.slash(CHANNEL, ANN, "ask", Some("by command"));
    local.wait_for("the number", |local| (local.reactions(message) == ["1️⃣"]).then_some(())).await;
    local
        .wait_for_message(CHANNEL, |text| text == "> 💬 by command\n-# ⏳ 2 before this one.")
        .await;
    bot.listening.close().await;
    assert!(local.reactions(message).is_empty());
    assert_eq!(local.texts(CHANNEL), ["> 💬 by command\n-# I am restarting: the answer follows."]);
}

#[tokio::test]
async fn a_message_in_a_thread_waits_until_the_threads_owner_is_known() {
    let local = LocalDiscord::start().await;
    let bot = reader(&local).await;
    local.slash(CHANNEL, ANN, "new", Some("begin"));
    bot.event(&local, "begin").await;
    let thread = local.threads()[0].0;
    local.faults().next("GET", &format!("/channels/{thread}"), Fault::Status(502), 6);
    local.say(thread, ANN, "one");
    local.say(thread, ANN, "two");
    bot.event(&local, "two").await;
    assert_eq!(bot.home.prompts(), ["begin", "one", "two"]);
    assert_eq!(local.faults().waiting(), 0, "the wait lasted that long");
}

#[tokio::test]
async fn a_waiting_message_can_be_edited_and_deleted_and_a_link_preview_is_no_edit() {
    let local = LocalDiscord::start().await;
    let bot = Bot::with_home(&local, &Home::with(|home| home.prompt_limit = 24).await).await;
    bot.home.busy.send_replace(true);
    let running = local.mention(CHANNEL, ANN, "now");
    bot.event(&local, "now").await;
    let message = local.mention(CHANNEL, ANN, "see https://example.org");
    let deleted = local.mention(CHANNEL, ANN, "not this");
    local.wait_for("both to wait", |_| (bot.waiting() == 2).then_some(())).await;
    let edited = |message| {
        local.wait_for("a mark", move |local| {
            local.reactions(message).contains(&"✏️".to_owned()).then_some(())
        })
    };
    local.preview(message, &format!("<@{BOT}> a preview is no edit"));
    local.edit(message, &format!("<@{BOT}> see <@{ANN}>"));
    edited(message).await;
    local.edit(message, &format!("<@{BOT}> {}", "much longer".repeat(9)));
    local.wait_for_message(CHANNEL, |text| text.contains("too long")).await;
    local.delete(deleted);
    local.wait_for("the withdrawal", |_| (bot.waiting() == 1).then_some(())).await;

    // A running prompt is neither changed nor marked.
    local.edit(running, &format!("<@{BOT}> now or never"));
    let last = local.mention(CHANNEL, ANN, "last");
    local.wait_for("the last one", |_| (bot.waiting() == 2).then_some(())).await;
    local.edit(last, &format!("<@{BOT}> at last"));
    edited(last).await;
    assert!(local.reactions(running).is_empty());
    bot.home.busy.send_replace(false);
    bot.event(&local, "at last").await;
    assert_eq!(bot.home.prompts(), ["now", "see @ann", "at last"]);
}

#[test]
fn a_prompt_whose_turn_has_begun_shows_no_position() {
    Barrier::around(async |barrier| {
        let local = LocalDiscord::start().await;
        let bot = Bot::start(&local).await;
        bot.home.busy.send_replace(true);
        local.mention(CHANNEL, ANN, "first");
        bot.event(&local, "first").await;
        barrier.close();
        let message = local.mention(CHANNEL, ANN, "quick");
        local.wait_for("the prompt at the barrier", |_| (barrier.held() > 0).then_some(())).await;
        // The prompt waits behind the first one. Its turn begins before the waiting marker is
        // shown.
        assert_eq!(bot.waiting(), 1);
        bot.home.busy.send_replace(false);
        let opened = bot.turn(&local, "quick").await;
        barrier.open();
        opened.done("Done").await;
        bot.dispatcher.turns.idle().await;
        local.mention(CHANNEL, ANN, "next");
        bot.event(&local, "next").await;
        assert!(local.marked().is_empty(), "{:?}", local.reactions(message));
    });
}
