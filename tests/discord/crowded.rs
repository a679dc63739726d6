//! Tests with more requests per second than Discord accepts.

use aetheel_discord::TimeLimits;

use super::bot::{Bot, Home, options};
use crate::support::discord::{ANN, LocalDiscord, room};

#[tokio::test]
async fn a_draft_beyond_the_request_budget_is_shown_later() {
    let local = LocalDiscord::start().await;
    let mut options = options(&local, TimeLimits::default());
    // Three of the four are available to drafts and typing indicators.
    options.settings.requests_per_second = 4;
    let bot = Bot::with_options(options, Home::new().await).await.expect("the bot starts");
    let mut turns = Vec::new();
    for number in 0..8 {
        let prompt = format!("prompt {number}");
        local.mention(room(number), ANN, &prompt);
        turns.push(bot.turn(&local, &prompt).await);
    }
    // Each agent reports this text only.
    for (number, turn) in turns.iter_mut().enumerate() {
        turn.say(&format!("Draft {number}"));
    }
    for number in 0..8 {
        local.wait_for_message(room(number), |text| text == format!("Draft {number}")).await;
    }
}
