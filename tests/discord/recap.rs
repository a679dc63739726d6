//! Tests of the earlier messages of a channel that Discord returns for a recap.

use aetheel_dispatch::{Outlet, RecapMessage};

use super::bot::{Bot, answer};
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord, OTHER, OTHER_BOT, OWNER, room};

fn by(author: &str, text: &str) -> RecapMessage {
    RecapMessage { author: Some(author.to_owned()), text: text.to_owned() }
}

#[tokio::test]
async fn a_recap_contains_messages_of_people_and_of_the_bot_but_not_of_programs() {
    let local = LocalDiscord::start().await;
    local.let_read();
    let bot = Bot::start(&local).await;
    local.say(CHANNEL, BOB, &format!("ask <@{OWNER}>"));
    local.say(CHANNEL, OTHER_BOT, "I am a program");
    local.webhook(CHANNEL, "I am a webhook");
    local.say(OTHER, ANN, "elsewhere");
    local.mention(CHANNEL, ANN, "what now?");
    bot.turn(&local, "what now?").await.deliver(answer("Noted.")).await.expect("delivered");
    local.say(CHANNEL, BOB, "");
    let gone = local.say(CHANNEL, BOB, "never mind");
    local.delete(gone);
    local.mention(CHANNEL, ANN, "and then?");
    let event = bot.event(&local, "and then?").await;
    local.say(CHANNEL, BOB, "afterwards");
    let said = bot.discord.recap(&event).await;
    let own = RecapMessage { author: None, text: "Noted.".to_owned() };
    assert_eq!(said, [by("bob", "ask @olga"), by("ann", "@aetheel what now?"), own]);
}

#[tokio::test]
async fn a_recap_contains_the_last_thirty_messages_or_none_if_discord_refuses_them() {
    let local = LocalDiscord::start().await;
    local.let_read();
    let bot = Bot::start(&local).await;
    for number in 0..40 {
        local.say(room(1), BOB, &number.to_string());
    }
    local.mention(room(1), ANN, "go on");
    let event = bot.event(&local, "go on").await;
    let said = bot.discord.recap(&event).await;
    let last: Vec<RecapMessage> = (10..40).map(|number| by("bob", &number.to_string())).collect();
    assert_eq!(said, last, "oldest first");
    local.faults().close_channel(room(1), true);
    assert_eq!(bot.discord.recap(&event).await, []);
}
