//! Tests of reserved files and of muted warnings in Discord.

use aetheel_dispatch::{Notice, Offer, Outlet as _};
use aetheel_model::access::AllowLists;
use aetheel_model::event::Lane;
use aetheel_model::id::{ChannelId, UserId};

use super::bot::{Bot, everybody};
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord, Message, OTHER, OWNER};

async fn claim(local: &LocalDiscord, channel: u64, user: u64, value: Option<&str>) -> Message {
    local.answer_to(local.slash(channel, user, "claim", value)).await
}

#[tokio::test]
async fn people_of_a_channel_reserve_and_release_files_there() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let none = claim(&local, CHANNEL, ANN, None).await;
    assert_eq!((none.content.as_str(), none.ephemeral), ("No files are reserved here.", true));
    let taken = claim(&local, CHANNEL, ANN, Some("paths:=src, docs/*.md")).await;
    let said = taken.content.starts_with("Reserved for 60 minutes: docs/\\*.md, src \\(claim ")
        || taken.content.starts_with("Reserved for 59 minutes: docs/\\*.md, src \\(claim ");
    assert!(said && !taken.ephemeral, "{taken:?}");
    let listed = claim(&local, OTHER, BOB, None).await;
    assert!(listed.content.contains("by ann, in another conversation"), "{listed:?}");
    let status = local.answer_to(local.slash(CHANNEL, BOB, "status", None)).await.content;
    assert!(status.contains("**Reserved:** docs/\\*.md, src \\(by ann, here, "), "{status}");
    for everything in ["**", "/", "..", "."] {
        let refused = claim(&local, CHANNEL, ANN, Some(everything)).await;
        assert!(refused.ephemeral && refused.content.starts_with("Nothing was changed"));
    }
    let id = bot.dispatcher.claims.all()[0].id.clone();
    let release = format!("release:={id}");
    let refused = claim(&local, OTHER, BOB, Some(&release)).await;
    assert!(refused.ephemeral && refused.content.contains("another conversation"), "{refused:?}");
    assert_eq!(bot.dispatcher.claims.all().len(), 1);
    let released = claim(&local, CHANNEL, BOB, Some(&release)).await;
    assert!(!released.ephemeral && released.content.starts_with("Released 1 claim"));
    claim(&local, CHANNEL, ANN, Some("paths:=src")).await;
    let release = format!("release:={}", bot.dispatcher.claims.all()[0].id);
    let released = claim(&local, OTHER, OWNER, Some(&release)).await;
    assert!(released.content.starts_with("Released 1 claim"), "{released:?}");
    assert!(bot.dispatcher.claims.all().is_empty());
}

#[tokio::test]
async fn only_people_of_the_channel_mute_its_warnings() {
    let local = LocalDiscord::start().await;
    let users = [ANN, OWNER].map(UserId::discord).into();
    let bot = Bot::allowing(&local, AllowLists { users, ..everybody() }).await;
    let mark = "0123456789abcdef01234567";
    let post = async |channel: u64, random: &str| {
        let offer =
            Offer { id: format!("mute{random}{mark}-{CHANNEL}"), label: "Mute a.rs".to_owned() };
        let (channel, text) = (Some(ChannelId::discord(channel)), "⚠️ (collision)".to_owned());
        bot.discord
            .notify(Notice { channel, about: None, text, offers: vec![offer] })
            .await
            .unwrap();
    };
    let posted = async |channel: u64| {
        let newest = |local: &LocalDiscord| {
            let mut messages = local.messages(channel);
            messages.retain(|message| !local.buttons(message.id).is_empty());
            messages.pop()
        };
        local.wait_for("the warning", newest).await.id
    };
    let lane = Lane::Channel(ChannelId::discord(CHANNEL));
    let is_muted = || bot.home.workspace.state.collision_mutes.is_muted(&lane, mark);
    let refusal = "Only people who may use me in this channel can do that.";
    // Another channel, and a person who may not use the bot.
    post(OTHER, "00000000").await;
    local.press(posted(OTHER).await, ANN, "Mute a.rs");
    local.wait_for_message(OTHER, |text| text == refusal).await;
    post(CHANNEL, "11111111").await;
    let message = posted(CHANNEL).await;
    local.press(message, BOB, "Mute a.rs");
    local.wait_for_message(CHANNEL, |text| text == refusal).await;
    assert!(!is_muted());
    local.press(message, ANN, "Mute a.rs");
    let muted = "-# 🔇 Warnings about this file were muted here by ann.";
    local.wait_for_message(CHANNEL, |text| text.ends_with(muted)).await;
    assert!(is_muted() && local.buttons(message).is_empty());
    let status = async || local.answer_to(local.slash(CHANNEL, ANN, "status", None)).await.content;
    assert!(status().await.contains("**Muted:** warnings about 1 file"));
}
