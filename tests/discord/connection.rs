//! Tests of the login, lost connections and the disconnect.

use std::time::{Duration, Instant};

use aetheel_discord::TimeLimits;
use aetheel_model::access::AllowLists;
use aetheel_model::id::{ChannelId, GuildId, MessageId, RoleId};

use super::bot::{Bot, Home, options};
use crate::support::discord::{ANN, CHANNEL, GUILD, LocalDiscord, OTHER, ROLE, THREAD};

fn impatient() -> TimeLimits {
    TimeLimits::default().reconnect(Duration::from_secs(3))
}

#[tokio::test]
async fn a_lost_connection_is_resumed_without_loss_or_duplicates() {
    for way in ["drop", "reset", "op 7", "op 9"] {
        let local = LocalDiscord::start().await;
        let bot = Bot::start(&local).await;
        local.mention(CHANNEL, ANN, "before");
        bot.event(&local, "before").await;
        match way {
            "drop" => local.faults().drop_gateway(false),
            "reset" => local.faults().drop_gateway(true),
            "op 7" => local.faults().ask_to_reconnect(),
            _ => local.faults().invalidate(true),
        }
        local.mention(CHANNEL, ANN, "meanwhile");
        bot.event(&local, "meanwhile").await;
        local.wait_for("the resume", |local| (local.logins().1 >= 1).then_some(())).await;
        local.mention(CHANNEL, ANN, "after");
        bot.event(&local, "after").await;
        assert_eq!(bot.home.prompts(), ["before", "meanwhile", "after"], "{way}");
        assert_eq!(local.logins().0, 1, "{way} needs no new login");
        bot.listening.close().await;
    }
}

#[tokio::test]
async fn an_invalid_session_is_replaced_and_missed_messages_are_read() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.mention(CHANNEL, ANN, "before");
    bot.event(&local, "before").await;
    local.faults().invalidate(false);
    local.mention(CHANNEL, ANN, "missed");
    bot.event(&local, "missed").await;
    assert_eq!(bot.home.prompts(), ["before", "missed"]);
    assert_eq!(local.logins().0, 2);
}

#[tokio::test]
async fn after_a_long_outage_the_client_is_rebuilt_and_catches_up_once() {
    let local = LocalDiscord::start().await;
    // A message that is read after a reconnect is checked like a live one: with its author's roles
    // and its thread's parent channel.
    let allowed = AllowLists {
        roles: [ROLE].map(RoleId::discord).into(),
        channels: [CHANNEL].map(ChannelId::discord).into(),
        guilds: [GUILD].map(GuildId::discord).into(),
        ..AllowLists::default()
    };
    let mut options = options(&local, impatient());
    options.settings.allowed = allowed;
    let bot = Bot::with_options(options, Home::new().await).await.expect("the bot starts");
    for (channel, text) in [(CHANNEL, "before"), (THREAD, "thread before")] {
        local.mention(channel, ANN, text);
        bot.event(&local, text).await;
    }
    // A connection reset while Discord is unreachable makes serenity stall.
    local.faults().refuse_gateway(true);
    local.faults().drop_gateway(true);
    local.wait_for("the disconnect", |local| (local.connections() == 0).then_some(())).await;
    local.faults().forget_sessions();
    local.mention(CHANNEL, ANN, "missed 1");
    local.mention(THREAD, ANN, "missed 2");
    local.say(CHANNEL, ANN, "not for the bot");
    local.mention(CHANNEL, ANN, "missed 3");
    let asked = |local: &LocalDiscord| {
        local.requests().iter().filter(|request| request.path == "/gateway/bot").count()
    };
    local.wait_for("a second login attempt", |local| (asked(local) >= 2).then_some(())).await;
    local.faults().refuse_gateway(false);
    bot.event(&local, "missed 3").await;
    local.mention(CHANNEL, ANN, "after");
    bot.event(&local, "after").await;
    bot.event(&local, "missed 2").await;
    let prompts = bot.home.prompts();
    let of_channel: Vec<&String> = prompts
        .iter()
        .filter(|prompt| !["thread before", "missed 2"].contains(&prompt.as_str()))
        .collect();
    assert_eq!(
        of_channel,
        ["before", "missed 1", "missed 3", "after"],
        "in its order, whatever other channels do"
    );
    assert_eq!(prompts.len(), 6, "{prompts:?}");
}

#[tokio::test]
async fn messages_written_while_the_program_was_down_are_answered_at_the_start() {
    let local = LocalDiscord::start().await;
    let home = Home::new().await;
    let old = local.mention(CHANNEL, ANN, "answered before");
    home.workspace.state.discord.note_seen(ChannelId::discord(CHANNEL), MessageId::discord(old));
    home.workspace.state.discord.note_seen(ChannelId::discord(THREAD), MessageId::discord(1));
    local.mention_earlier(THREAD, ANN, "an hour ago", Duration::from_secs(3_600));
    local.mention_earlier(THREAD, ANN, "nine minutes ago", Duration::from_secs(540));
    local.mention(CHANNEL, ANN, "written while down");
    local.mention(OTHER, ANN, "in a channel that never was used");
    let bot = Bot::with_home(&local, &home).await;
    bot.event(&local, "written while down").await;
    bot.event(&local, "nine minutes ago").await;
    assert_eq!(home.prompts().len(), 2, "{:?}", home.prompts());
}

#[tokio::test]
async fn closing_sends_a_close_frame_and_disconnects() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let began = Instant::now();
    bot.listening.close().await;
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    local
        .wait_for("the close frame", |local| {
            local.closed_with().contains(&Some(1000)).then_some(())
        })
        .await;
    local
        .wait_for("the end of the connection", |local| (local.connections() == 0).then_some(()))
        .await;
}

#[tokio::test]
async fn closing_in_the_middle_of_a_reconnect_ends() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.faults().refuse_gateway(true);
    local.faults().drop_gateway(true);
    local.wait_for("the disconnect", |local| (local.connections() == 0).then_some(())).await;
    let began = Instant::now();
    bot.listening.close().await;
    // The machine may be busy. Without the limit, the program would try to connect without end.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_start_aborted_while_discord_is_unreachable_stops_logging_in() {
    let local = LocalDiscord::start().await;
    local.faults().refuse_gateway(true);
    let home = Home::new().await;
    let start = Bot::try_start(&local, TimeLimits::default(), home);
    assert!(
        tokio::time::timeout(Duration::from_secs(2), start).await.is_err(),
        "ready without a gateway"
    );
    local.faults().refuse_gateway(false);
    let login = local.wait_for("an unwanted login", |local| (local.logins().0 > 0).then_some(()));
    assert!(tokio::time::timeout(Duration::from_secs(7), login).await.is_err(), "it still tries");
}
