//! Tests of the answers of heartbeats and cron jobs, for which nobody waits.

use aetheel_dispatch::TurnAnswer;
use aetheel_model::event::{Event, EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::id::ChannelId;

use super::bot::{Bot, Turn, answer};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER};

fn heartbeat() -> Event {
    let origin = EventOrigin::Internal { channel: Some(ChannelId::discord(CHANNEL)) };
    NewEvent::new(EventKind::Heartbeat, Lane::Heartbeat("inbox".to_owned()), origin, "look")
        .accepted(1, 0)
}

/// Returns when a turn that began before this call must have shown a draft, if it shows any.
async fn drafts_are_due(local: &LocalDiscord, bot: &Bot) {
    local.mention(OTHER, ANN, "go");
    let mut turn = bot.turn(local, "go").await;
    turn.say("Hello");
    local.wait_for_message(OTHER, |text| text == "Hello").await;
    turn.done("Hello").await;
}

#[tokio::test]
async fn a_heartbeat_without_news_posts_nothing() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    for nothing in ["HEARTBEAT_OK", ""] {
        let mut turn = Turn::of(&bot, &heartbeat());
        turn.say(nothing);
        drafts_are_due(&local, &bot).await;
        turn.done(nothing).await;
    }
    let told = |request: &&crate::support::discord::Request| {
        request.method != "GET" && request.path.contains(&CHANNEL.to_string())
    };
    assert_eq!(
        local
            .requests()
            .iter()
            .filter(told)
            .map(|request| request.path.clone())
            .collect::<Vec<_>>(),
        [""; 0]
    );
}

#[tokio::test]
async fn the_answer_of_a_heartbeat_is_posted_once_and_completely() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let mut turn = Turn::of(&bot, &heartbeat());
    turn.say("The disk ");
    drafts_are_due(&local, &bot).await;
    assert_eq!(local.texts(CHANNEL), [""; 0], "nobody waits for a draft");
    turn.done("The disk is full.").await;
    let [message] = &local.messages(CHANNEL)[..] else { panic!("{:?}", local.texts(CHANNEL)) };
    assert_eq!((message.content.as_str(), message.edits.len()), ("The disk is full.", 0));
}

#[tokio::test]
async fn a_failed_heartbeat_is_reported() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let failed = TurnAnswer {
        failure: Some(
            "Query timed out after 120 s, the limit here. Ask it to go on; the operator raises the limit with `QUERY_TIMEOUT_MS`. (timeout, ab12)".to_owned(),
        ),
        ..answer("")
    };
    Turn::of(&bot, &heartbeat()).finish(failed).await.unwrap();
    assert_eq!(
        local.texts(CHANNEL),
        [
            "⚠️ Query timed out after 120 s, the limit here. Ask it to go on; the operator raises the limit with `QUERY_TIMEOUT_MS`. (timeout, ab12)"
        ]
    );
}
