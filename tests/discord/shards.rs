//! Tests of a bot with several shards: each logs in separately, at the pace that Discord allows,
//! and receives the events of its own guilds.

use std::time::Duration;

use aetheel_discord::TimeLimits;

use super::bot::{Bot, Home, options};
use crate::support::discord::{ANN, CHANNEL, DIRECT, LocalDiscord};

/// The interval between logins that the local Discord requires, and a longer one that the bot
/// keeps. The margin is needed because neither side sees when a login reaches the other.
const ASKED: Duration = Duration::from_millis(400);
const KEPT: Duration = Duration::from_millis(500);

async fn start(local: &LocalDiscord, shards: Option<u32>) -> Bot {
    let mut options = options(local, TimeLimits::default().identify(KEPT));
    options.settings.shards = shards;
    Bot::with_options(options, Home::new().await).await.expect("the bot starts")
}

/// Waits until this many shards are connected and no other exists.
async fn connected(local: &LocalDiscord, bot: &Bot, count: usize) {
    let all = || (bot.discord.shards() == (count, count)).then_some(());
    local.wait_for(&format!("{count} shards"), |_| all()).await;
    assert!(bot.discord.is_connected());
}

fn all(count: u64) -> Vec<(u64, u64)> {
    (0..count).map(|shard| (shard, count)).collect()
}

#[tokio::test]
async fn each_shard_logs_in_at_discords_pace_and_each_message_is_handled_once() {
    for (count, at_once) in [(1, 1), (2, 1), (4, 4), (4, 2)] {
        let local = LocalDiscord::start().await;
        local.faults().shards(count, at_once, ASKED);
        let bot = start(&local, None).await;
        connected(&local, &bot, count as usize).await;
        let mut logins = local.shards();
        logins.sort_unstable();
        assert_eq!(logins, all(count));
        for number in 0..3 {
            local.mention(CHANNEL, ANN, &format!("guild {number}"));
            local.mention(DIRECT, ANN, &format!("private {number}"));
        }
        bot.event(&local, "guild 2").await;
        bot.event(&local, "private 2").await;
        let (guild, private): (Vec<_>, Vec<_>) =
            bot.home.prompts().into_iter().partition(|prompt| prompt.starts_with("guild"));
        assert_eq!(guild, ["guild 0", "guild 1", "guild 2"]);
        assert_eq!(private, ["private 0", "private 1", "private 2"]);
        bot.listening.close().await;
        local.wait_for("the end", |local| (local.connections() == 0).then_some(())).await;
        let goodbyes = local.closed_with().iter().filter(|code| **code == Some(1000)).count();
        assert_eq!(goodbyes as u64, count, "each sends a close frame");
    }
}

#[tokio::test]
async fn a_shard_that_lost_its_session_logs_in_again_alone_and_catches_up() {
    let local = LocalDiscord::start().await;
    local.faults().shards(4, 4, ASKED);
    let bot = start(&local, None).await;
    connected(&local, &bot, 4).await;
    local.mention(CHANNEL, ANN, "before");
    bot.event(&local, "before").await;
    // This is the shard of the guild.
    local.faults().invalidate_shard(2);
    local.mention(CHANNEL, ANN, "missed");
    local.mention(DIRECT, ANN, "in private");
    bot.event(&local, "in private").await;
    assert_eq!(local.shards().len(), 4, "others still receive events");
    bot.event(&local, "missed").await;
    connected(&local, &bot, 4).await;
    assert_eq!(local.shards()[4..], [(2, 4)], "no other one logs in");
    bot.dispatcher.turns.idle().await;
    assert_eq!(bot.home.prompts().len(), 3, "{:?}", bot.home.prompts());
}

#[tokio::test]
async fn all_shards_resume_after_a_disconnect_without_a_new_login() {
    let local = LocalDiscord::start().await;
    local.faults().shards(4, 4, ASKED);
    let bot = start(&local, None).await;
    connected(&local, &bot, 4).await;
    local.faults().drop_gateway(false);
    local.mention(CHANNEL, ANN, "meanwhile");
    bot.event(&local, "meanwhile").await;
    local.wait_for("all to resume", |local| (local.logins().1 >= 4).then_some(())).await;
    connected(&local, &bot, 4).await;
    assert_eq!(local.logins().0, 4);
}

#[tokio::test]
async fn invalid_sessions_of_all_shards_are_replaced_at_discords_pace() {
    let local = LocalDiscord::start().await;
    local.faults().shards(3, 1, ASKED);
    let bot = start(&local, None).await;
    connected(&local, &bot, 3).await;
    local.faults().invalidate(false);
    local.wait_for("new logins", |local| (local.logins().0 == 6).then_some(())).await;
    connected(&local, &bot, 3).await;
    let mut again = local.shards()[3..].to_vec();
    again.sort_unstable();
    assert_eq!(again, all(3));
}

#[tokio::test]
async fn a_higher_recommended_number_of_shards_applies_to_all_at_the_next_login() {
    let local = LocalDiscord::start().await;
    local.faults().shards(1, 4, ASKED);
    let bot = start(&local, None).await;
    connected(&local, &bot, 1).await;
    local.mention(CHANNEL, ANN, "before");
    bot.event(&local, "before").await;
    local.faults().shards(4, 4, ASKED);
    local.faults().invalidate_shard(0);
    local.mention(CHANNEL, ANN, "missed");
    bot.event(&local, "missed").await;
    connected(&local, &bot, 4).await;
    let mut again = local.shards()[1..].to_vec();
    again.sort_unstable();
    assert_eq!(again, all(4));
    local.mention(DIRECT, ANN, "in private");
    bot.event(&local, "in private").await;
}

#[tokio::test]
async fn a_configured_number_of_shards_overrides_the_recommendation() {
    let local = LocalDiscord::start().await;
    local.faults().shards(1, 4, ASKED);
    let bot = start(&local, Some(2)).await;
    connected(&local, &bot, 2).await;
    let mut logins = local.shards();
    logins.sort_unstable();
    assert_eq!(logins, all(2));
}
