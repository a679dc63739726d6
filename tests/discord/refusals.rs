//! Tests of logins that Discord refuses.

use std::time::Duration;

use aetheel_discord::{StartError, TimeLimits};

use super::bot::{Bot, Home, Log, connect, options};
use crate::support::discord::LocalDiscord;

#[tokio::test]
async fn a_refused_token_is_an_error_that_says_what_to_do() {
    let local = LocalDiscord::start().await;
    local.faults().refuse_token(true);
    let error = connect(options(&local, TimeLimits::default())).await.err().unwrap();
    assert_eq!(error, StartError::TokenRefused);
    let text = error.to_string();
    assert!(
        text.contains("DISCORD_BOT_TOKEN")
            && text.contains("discord.com/developers")
            && text.contains("hint:"),
        "{text}"
    );
    assert_eq!(local.requests().len(), 1, "a bad token is tried once");
}

#[tokio::test]
async fn refused_intents_are_explained() {
    for code in [4013, 4014] {
        let local = LocalDiscord::start().await;
        local.faults().close_logins_with(code);
        let error =
            Bot::try_start(&local, TimeLimits::default(), Home::new().await).await.err().unwrap();
        assert_eq!(error, StartError::Intents(code));
        assert!(error.to_string().contains("Privileged Gateway Intents"));
    }
}

#[tokio::test]
async fn a_token_revoked_while_connected_stops_everything() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.faults().refuse_token(true);
    local.faults().forget_sessions();
    local.faults().drop_gateway(false);
    let error = tokio::time::timeout(Duration::from_secs(60), bot.listening.failed())
        .await
        .expect("noticed");
    assert_eq!(error, StartError::TokenRefused);
}

#[tokio::test]
async fn an_address_without_discord_is_named() {
    let local = LocalDiscord::start().await;
    let mut options =
        options(&local, TimeLimits::default().send(Duration::from_secs(1), Duration::from_secs(1)));
    options.settings.api_base = "http://127.0.0.1:9".to_owned();
    let text = connect(options).await.err().unwrap().to_string();
    assert!(text.contains("http://127.0.0.1:9") && text.contains("DISCORD_API_BASE"), "{text}");
}

#[tokio::test]
async fn the_ready_line_names_the_bot_and_counts_its_guilds() {
    let local = LocalDiscord::start().await;
    let (log, _guard) = Log::start();
    let _bot = Bot::start(&local).await;
    let line = local
        .wait_for("the line", |_| {
            log.text().lines().find(|line| line.contains("discord is ready")).map(str::to_owned)
        })
        .await;
    assert!(line.contains("user=aetheel") && line.contains("guilds=1"), "{line}");
}
