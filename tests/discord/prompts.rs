//! Tests of which messages and commands become prompts, and with which text.

use std::time::Duration;

use aetheel_discord::TimeLimits;
use aetheel_model::access::AllowLists;
use aetheel_model::event::{EventKind, EventOrigin, Lane, QuotedMessage};
use aetheel_model::id::{ChannelId, GuildId, MessageId, RoleId, UserId};

use super::bot::{Barrier, Bot, Home, connect, everybody, options};
use crate::support::discord::{
    ANN, BOT, BOT_ROLE, CHANNEL, DIRECT, Fault, GUILD, LocalDiscord, OTHER, OTHER_BOT, OWNER, ROLE,
    THREAD,
};

#[tokio::test]
async fn the_mention_is_removed_from_a_prompt_and_other_mentions_are_readable() {
    let local = LocalDiscord::start().await;
    let allowed = AllowLists {
        guilds: [GUILD].map(GuildId::discord).into(),
        channels: [CHANNEL].map(ChannelId::discord).into(),
        roles: [ROLE].map(RoleId::discord).into(),
        ..AllowLists::default()
    };
    let bot = Bot::allowing(&local, allowed).await;
    let id = local.mention(CHANNEL, ANN, &format!("tell <@{OWNER}> of <@&{ROLE}> in <#{OTHER}>"));
    let event = bot.event(&local, "tell @olga of @crew in #other").await;
    assert_eq!(event.kind, EventKind::Message);
    assert_eq!(event.lane, Lane::Channel(ChannelId::discord(CHANNEL)));
    assert_eq!(
        event.origin,
        EventOrigin::Message {
            channel: ChannelId::discord(CHANNEL),
            message: MessageId::discord(id)
        }
    );
    assert_eq!((event.author.as_deref(), event.asker), (Some("ann"), Some(UserId::discord(ANN))));
    assert_eq!((event.parent, bot.home.last_seen(CHANNEL).await), (None, Some(id)));
    // Neither a user without the role nor another channel is allowed.
    local.mention(CHANNEL, OWNER, "and me?");
    local.mention(OTHER, ANN, "and here?");
    local.mention(CHANNEL, ANN, "last");
    bot.event(&local, "last").await;
    assert_eq!(bot.home.prompts().len(), 2, "{:?}", bot.home.prompts());
}

#[tokio::test]
async fn direct_messages_replies_and_messages_in_threads_are_prompts() {
    let local = LocalDiscord::start().await;
    // A thread is allowed if its channel is. A direct message has no channel.
    let bot = Bot::allowing(
        &local,
        AllowLists { channels: [CHANNEL].map(ChannelId::discord).into(), ..everybody() },
    )
    .await;
    local.say(DIRECT, ANN, "in private");
    bot.event(&local, "in private").await;
    local.mention(CHANNEL, OWNER, "first");
    bot.turn(&local, "first").await.done("An answer").await;
    let answer = local.messages(CHANNEL)[0].id;
    local.reply(answer, ANN, &format!("<@{BOT}> and then"));
    bot.event(&local, "and then").await;
    local.mention(THREAD, ANN, "in a thread");
    bot.event(&local, "in a thread").await;
    let begun = bot.home.begun.lock().unwrap();
    let found: Vec<_> =
        begun.iter().map(|event| (event.lane.clone(), event.parent, event.asker)).collect();
    assert_eq!(
        found,
        [
            (Lane::Channel(ChannelId::discord(DIRECT)), None, Some(UserId::discord(ANN))),
            (Lane::Channel(ChannelId::discord(CHANNEL)), None, Some(UserId::discord(OWNER))),
            (Lane::Channel(ChannelId::discord(CHANNEL)), None, Some(UserId::discord(ANN))),
            (
                Lane::Channel(ChannelId::discord(THREAD)),
                Some(ChannelId::discord(CHANNEL)),
                Some(UserId::discord(ANN))
            ),
        ]
    );
}

#[tokio::test]
async fn replied_to_and_forwarded_messages_are_part_of_the_prompt() {
    let local = LocalDiscord::start().await;
    local.let_read();
    let bot = Bot::start(&local).await;
    let source = local.keep_file("log.txt", 200, None, b"boom");
    let broken =
        local.send_files(CHANNEL, OTHER_BOT, "it broke", &[("log.txt", "text/plain", 4, &source)]);
    local.reply(broken, ANN, &format!("<@{BOT}> mend it"));
    let event = bot.event(&local, "mend it").await;
    let quoted = |author: Option<&str>, text: &str| {
        Some(QuotedMessage { author: author.map(str::to_owned), text: text.to_owned() })
    };
    assert_eq!(event.quoted, quoted(Some("parrot"), "@aetheel it broke"));
    assert_eq!(
        event.attached.iter().map(|file| file.source.as_str()).collect::<Vec<_>>(),
        [source.as_str()]
    );
    // A reply that contains only the mention, and a forward without any text, are prompts too.
    let plain = local.say(CHANNEL, OWNER, "the build is red");
    local.reply(plain, ANN, &format!("<@{BOT}>"));
    local.wait_for("a reply without text", |_| (bot.home.prompts().len() == 2).then_some(())).await;
    local.forward(plain, DIRECT, ANN);
    local.wait_for("a forward", |_| (bot.home.prompts().len() == 3).then_some(())).await;
    let found: Vec<_> = bot
        .home
        .begun
        .lock()
        .unwrap()
        .iter()
        .map(|event| (event.prompt.clone(), event.quoted.clone()))
        .collect();
    assert_eq!(found[1], (String::new(), quoted(Some("olga"), "the build is red")));
    assert_eq!(found[2], (String::new(), quoted(None, "the build is red")));
}

#[tokio::test]
async fn the_bots_own_role_names_the_bot_and_other_roles_do_not() {
    let local = LocalDiscord::start().await;
    local.let_read();
    let bot = Bot::start(&local).await;
    local.say(CHANNEL, ANN, &format!("<@&{ROLE}> lunch?"));
    local.say(CHANNEL, ANN, &format!("<@&{BOT_ROLE}> build it, <@&{ROLE}>"));
    let event = bot.event(&local, "build it, @crew").await;
    assert_eq!(event.author.as_deref(), Some("ann"));
    assert_eq!(bot.home.prompts().len(), 1);
    local.say(CHANNEL, ANN, &format!("<@&{BOT_ROLE}> again"));
    bot.event(&local, "again").await;
    let asked = local.requests().iter().filter(|request| request.path.ends_with("/roles")).count();
    assert_eq!(asked, 1, "Discord is asked once");
}

#[tokio::test]
async fn in_configured_channels_the_bot_needs_no_mention() {
    let local = LocalDiscord::start().await;
    local.let_read();
    let bot = Bot::start(&local).await;
    bot.home.write("channels.md", &format!("## channel {CHANNEL}\n- require-mention: no\n"));
    local.say(CHANNEL, ANN, "without a name");
    bot.event(&local, "without a name").await;
    local.say(CHANNEL, ANN, &format!("<@{OWNER}> what do you think?"));
    local.say(OTHER, ANN, "nice weather");
    local.say(THREAD, ANN, "in its thread");
    bot.event(&local, "in its thread").await;
    assert_eq!(bot.home.prompts(), ["without a name", "in its thread"]);
}

#[tokio::test]
async fn messages_of_bots_of_webhooks_of_itself_and_among_others_are_ignored() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.mention(CHANNEL, OTHER_BOT, "I am a bot");
    local.mention(CHANNEL, BOT, "I am you");
    local.webhook(CHANNEL, &format!("<@{BOT}> I am a webhook"));
    local.say(CHANNEL, ANN, "nice weather");
    local.say(CHANNEL, ANN, "@everyone look");
    local.mention(CHANNEL, ANN, "hello");
    bot.event(&local, "hello").await;
    assert_eq!(bot.home.prompts(), ["hello"]);
    assert_eq!(
        local.messages(CHANNEL).len(),
        1,
        "only messages of the bot itself: {:?}",
        local.texts(CHANNEL)
    );
}

#[tokio::test]
async fn a_mention_without_words_gets_a_hint() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let id = local.mention(CHANNEL, ANN, " ");
    let hint = local.wait_for_message(CHANNEL, |text| text.contains("/ask")).await;
    assert_eq!(hint.reply_to, Some(id));
    assert!(bot.home.prompts().is_empty());
}

#[tokio::test]
async fn a_message_received_twice_is_one_prompt_and_order_is_kept() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let first = local.mention(CHANNEL, ANN, "0");
    let wanted: Vec<String> = (0..60).map(|number| number.to_string()).collect();
    for number in &wanted[1..] {
        local.repeat(first);
        local.mention(CHANNEL, ANN, number);
    }
    bot.event(&local, "59").await;
    assert_eq!(bot.home.prompts(), wanted);
}

#[tokio::test]
async fn people_without_access_are_ignored_but_their_commands_are_refused_privately() {
    let local = LocalDiscord::start().await;
    let allowed =
        AllowLists { users: [OWNER].map(UserId::discord).into(), ..AllowLists::default() };
    let bot = Bot::allowing(&local, allowed).await;
    local.mention(CHANNEL, ANN, "let me in");
    let id = local.slash(CHANNEL, ANN, "ask", Some("let me in"));
    let word = local.wait_for_message(CHANNEL, |text| text.contains("may not use me")).await;
    assert!(word.ephemeral);
    assert_eq!(local.interaction(id).acknowledged.map(|(_, kind)| kind), Some(4));
    assert_eq!(local.messages(CHANNEL).len(), 1);
    assert!(bot.home.prompts().is_empty());
}

#[tokio::test]
async fn people_who_may_not_use_direct_messages_are_informed_there() {
    let local = LocalDiscord::start().await;
    let bot = Bot::allowing(&local, AllowLists::default()).await;
    let asked = local.say(DIRECT, ANN, "psst");
    let told =
        local.wait_for_message(DIRECT, |text| text.contains("whom my operator has allowed")).await;
    assert_eq!(told.reply_to, Some(asked));
    assert!(bot.home.prompts().is_empty());
}

#[tokio::test]
async fn every_refused_prompt_is_answered_or_marked() {
    let local = LocalDiscord::start().await;
    let bot = Bot::with_home(&local, &Home::with(|home| home.prompt_limit = 8).await).await;
    let asked: Vec<u64> =
        (0..5).map(|number| local.mention(CHANNEL, ANN, &format!("too much: {number}"))).collect();
    local.mention(OTHER, ANN, "elsewhere");
    local.wait_for_message(OTHER, |text| text.contains("too long")).await;
    local.wait_for_message(CHANNEL, |text| text.contains("too long")).await;
    local
        .wait_for("a reaction on the others", |local| (local.marked().len() == 4).then_some(()))
        .await;
    assert_eq!(local.texts(CHANNEL).len(), 1);
    assert!(local.marked().iter().all(|message| asked[1..].contains(message)));
    // A user waits for the result of a command, so every command is answered.
    for number in 0..2 {
        let id = local.slash(CHANNEL, ANN, "ask", Some(&format!("command {number}")));
        let told = |local: &LocalDiscord| {
            let original = local.interaction(id).original?;
            local
                .messages(CHANNEL)
                .into_iter()
                .find(|message| message.id == original && message.content.contains("too long"))
        };
        local.wait_for("the refusal of a command", told).await;
    }
    assert!(bot.home.prompts().is_empty());
}

#[tokio::test]
async fn during_a_shutdown_messages_wait_for_the_next_start_and_commands_are_refused() {
    let local = LocalDiscord::start().await;
    let bot = Bot::with_home(&local, &Home::with(|home| home.kept = true).await).await;
    bot.listening.stop_intake(false);
    local.mention(CHANNEL, ANN, "one more");
    let told = local.wait_for_message(CHANNEL, |text| text.contains("I am restarting")).await;
    assert!(bot.home.prompts().is_empty() && !bot.home.state("queue.md").contains("one more"));
    // The next process starts after that message, also in a channel where nobody wrote before.
    assert_eq!(bot.home.last_seen(CHANNEL).await, told.reply_to.map(|message| message - 1));
    let id = local.slash(CHANNEL, ANN, "ask", Some("and this?"));
    local
        .wait_for("the refusal", |local| (local.interaction(id).acknowledged?.1 == 4).then_some(()))
        .await;
}

#[tokio::test]
async fn commands_ask_reset_and_stop_under_both_names() {
    let local = LocalDiscord::start().await;
    // A thread is allowed if its channel is.
    let bot = Bot::allowing(
        &local,
        AllowLists { channels: [CHANNEL].map(ChannelId::discord).into(), ..everybody() },
    )
    .await;
    local.slash(CHANNEL, ANN, "claude", Some(" by the other name "));
    let event = bot.event(&local, "by the other name").await;
    assert!(
        matches!(event.origin, EventOrigin::Interaction { channel, .. } if channel == ChannelId::discord(CHANNEL))
    );
    local.mention(THREAD, ANN, "in a thread");
    bot.event(&local, "in a thread").await;
    bot.dispatcher.turns.idle().await;
    for (lane, name) in [(THREAD, "claude-reset"), (CHANNEL, "reset")] {
        assert!(bot.home.session(lane).await.is_some());
        local.slash(lane, ANN, name, None);
        local.wait_for_message(lane, |text| text.contains("begins a new conversation")).await;
        assert!(bot.home.session(lane).await.is_none());
    }
    bot.home.busy.send_replace(true);
    local.mention(CHANNEL, ANN, "to be stopped");
    bot.event(&local, "to be stopped").await;
    local.slash(CHANNEL, ANN, "stop", None);
    local.wait_for_message(CHANNEL, |text| text == "Stopped.").await;
    bot.dispatcher.turns.idle().await;
    local.slash(CHANNEL, ANN, "forgotten", None);
    assert!(
        local
            .wait_for_message(CHANNEL, |text| text.contains("do not know this command"))
            .await
            .ephemeral
    );
}

#[tokio::test]
async fn commands_are_registered_at_once_and_only_when_they_changed() {
    let local = LocalDiscord::start().await;
    let puts = |local: &LocalDiscord| {
        local.requests().iter().filter(|request| request.method == "PUT").count()
    };
    connect(options(&local, TimeLimits::default())).await.unwrap();
    let registered = local.commands();
    let names: Vec<&str> = registered
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|command| command["name"].as_str())
        .collect();
    for name in
        ["ask", "new", "reset", "stop", "steer", "status", "settings", "claude", "claude-reset"]
    {
        assert_eq!(names.iter().filter(|known| **known == name).count(), 1, "{name} in {names:?}");
    }
    connect(options(&local, TimeLimits::default())).await.unwrap();
    assert_eq!(puts(&local), 1, "nothing changed");
    let mut without = options(&local, TimeLimits::default());
    without.settings.command_alias = None;
    connect(without).await.unwrap();
    assert_eq!(puts(&local), 2);
    assert_eq!(local.commands().as_array().unwrap().len(), names.len() - 2);
}

#[tokio::test]
async fn a_command_is_acknowledged_in_time_while_discord_is_slow() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.faults().next("POST", "/typing", Fault::Slow(Duration::from_secs(10)), 100);
    local.faults().next("POST", "/messages", Fault::Slow(Duration::from_secs(10)), 100);
    for number in 0..20 {
        local.mention(CHANNEL, ANN, &format!("load {number}"));
    }
    let id = local.slash(OTHER, ANN, "ask", Some("am I heard?"));
    let (_, kind) =
        local.wait_for("the acknowledgement", |local| local.interaction(id).acknowledged).await;
    assert_eq!(kind, 5);
    bot.event(&local, "am I heard?").await;
}

#[test]
fn a_command_is_acknowledged_only_once_it_is_accepted() {
    Barrier::around(async |barrier| {
        let local = LocalDiscord::start().await;
        let bot = Bot::start(&local).await;
        for command in ["ask", "new", "steer"] {
            barrier.close();
            let id = local.slash(CHANNEL, ANN, command, Some("is it safe?"));
            local
                .wait_for("the command at the barrier", |_| (barrier.held() > 0).then_some(()))
                .await;
            assert_eq!(local.interaction(id).acknowledged, None, "{command}");
            assert!(
                !local.requests().iter().any(|request| request.path.contains(&id.to_string())),
                "{command}: no request is sent to Discord"
            );
            barrier.open();
            let (_, kind) = local
                .wait_for("the acknowledgement", |local| local.interaction(id).acknowledged)
                .await;
            assert_eq!(kind, 5, "{command}");
            bot.dispatcher.turns.idle().await;
        }
    });
}

#[tokio::test]
async fn a_command_has_taken_effect_when_it_is_answered() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.mention(CHANNEL, ANN, "begin");
    bot.event(&local, "begin").await;
    bot.dispatcher.turns.idle().await;
    assert!(bot.home.session(CHANNEL).await.is_some());
    let at_once = async |command| {
        let id = local.slash(CHANNEL, ANN, command, None);
        let (_, kind) =
            local.wait_for("the acknowledgement", |local| local.interaction(id).acknowledged).await;
        assert_eq!(kind, 4, "{command}: an executed command is answered at once");
    };
    at_once("reset").await;
    assert!(bot.home.session(CHANNEL).await.is_none());
    bot.home.busy.send_replace(true);
    local.mention(CHANNEL, ANN, "runs");
    local.mention(CHANNEL, ANN, "waits");
    local.wait_for("both", |_| (bot.waiting() == 1).then_some(())).await;
    at_once("stop").await;
    assert_eq!(bot.waiting(), 0);
    bot.dispatcher.turns.idle().await;
}

#[tokio::test]
async fn the_effect_of_a_command_is_posted_in_the_channel_if_it_can_no_longer_be_answered() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.mention(CHANNEL, ANN, "begin");
    bot.event(&local, "begin").await;
    bot.dispatcher.turns.idle().await;
    local.faults().next("POST", "/callback", Fault::Status(500), 20);
    local.slash(CHANNEL, ANN, "reset", None);
    local.wait_for_message(CHANNEL, |text| text.contains("new conversation")).await;
    assert!(bot.home.session(CHANNEL).await.is_none());
}

#[tokio::test]
async fn a_refusal_is_saved_before_it_is_posted() {
    let local = LocalDiscord::start().await;
    let home = Home::with(|home| (home.kept, home.prompt_limit) = (true, 8)).await;
    let _bot = Bot::with_home(&local, &home).await;
    local.mention(CHANNEL, ANN, "one too many");
    let told = local.wait_for_message(CHANNEL, |text| text.contains("too long")).await;
    let kept = home.state("queue.md");
    assert!(kept.contains("one too many") && kept.contains(&told.content), "{kept}");
}

#[tokio::test]
async fn a_late_acknowledgement_still_leads_to_an_answer() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.faults().next("POST", "/callback", Fault::Status(500), 20);
    local.slash(CHANNEL, ANN, "ask", Some("late"));
    bot.turn(&local, "late").await.done("Better late than never").await;
    assert_eq!(local.texts(CHANNEL), ["> 💬 late\nBetter late than never"]);
}

#[tokio::test]
async fn messages_that_serenity_cannot_parse_are_read() {
    let local = LocalDiscord::start().await;
    local.faults().strange_messages();
    let bot = Bot::start(&local).await;
    local.mention(CHANNEL, ANN, "can you read this?");
    bot.event(&local, "can you read this?").await;
}
