//! The gateway connection breaks, in every way it can.

use std::time::Duration;

use serde_json::json;

use super::{Talk, discord, installed, serving};
use crate::support::discord::{ANN, BOT, CHANNEL, LocalDiscord, OTHER, THREAD};

const CHANNELS: [u64; 3] = [CHANNEL, OTHER, THREAD];

/// A name, what happens, and whether the session is gone with it.
type Trouble = (&'static str, fn(&LocalDiscord), bool);

const TROUBLES: [Trouble; 7] = [
    ("a request to reconnect (op 7)", |local| local.faults().ask_to_reconnect(), false),
    (
        "an invalid session that can be resumed (op 9)",
        |local| local.faults().invalidate(true),
        false,
    ),
    ("an invalid session that cannot (op 9)", |local| local.faults().invalidate(false), true),
    (
        "a connection that vanishes without a word",
        |local| local.faults().drop_gateway(false),
        false,
    ),
    ("a connection that is reset", |local| local.faults().drop_gateway(true), false),
    (
        "a connection that does nothing more (no acknowledgement of heartbeats)",
        |local| local.faults().freeze_gateway(),
        false,
    ),
    (
        "a session that cannot be resumed after a cut",
        |local| {
            local.faults().forget_sessions();
            local.faults().drop_gateway(false);
        },
        true,
    ),
];

#[tokio::test]
async fn whatever_breaks_the_connection_every_message_is_answered_once_and_in_order() {
    every_trouble_passes(&discord(false).await).await;
}

#[tokio::test]
async fn whatever_breaks_the_connection_over_tls_every_message_is_answered_once_and_in_order() {
    every_trouble_passes(&discord(true).await).await;
}

async fn every_trouble_passes(local: &LocalDiscord) {
    let installation = installed(local);
    let _bot = serving(&installation).await;
    let mut talk = Talk::default();
    for channel in CHANNELS {
        talk.ask(local, channel);
    }
    talk.settled(local, "nothing").await;
    for (name, happen, gone) in TROUBLES {
        let (logins, resumed) = local.logins();
        happen(local);
        for channel in CHANNELS {
            talk.ask(local, channel);
        }
        talk.settled(local, name).await;
        // Without an acknowledgement serenity logs in anew where it could resume.
        let connected = |local: &LocalDiscord| {
            let (now, again) = local.logins();
            if gone { now > logins } else { now + again > logins + resumed }
        };
        local
            .wait_for(&format!("the connection after {name}"), |local| {
                connected(local).then_some(())
            })
            .await;
        for channel in CHANNELS {
            talk.ask(local, channel);
        }
        talk.settled(local, name).await;
    }
}

#[tokio::test]
async fn messages_written_while_no_connection_is_taken_are_answered_when_it_is() {
    for tls in [false, true] {
        let local = discord(tls).await;
        let installation = installed(&local);
        let bot = serving(&installation).await;
        let mut talk = Talk::default();
        for channel in CHANNELS {
            talk.ask(&local, channel);
        }
        talk.settled(&local, "nothing").await;
        // Nothing is taken at first: what makes serenity stall over TLS.
        local.faults().refuse_gateway(true);
        local.faults().drop_gateway(false);
        local.wait_for("a refused connection", |local| (local.refused() > 0).then_some(())).await;
        for channel in CHANNELS {
            talk.ask(&local, channel);
            talk.ask(&local, channel);
        }
        bot.logs("discord connection lost; reconnecting").await;
        local.faults().refuse_gateway(false);
        talk.settled(&local, "a refused connection").await;
        for channel in CHANNELS {
            talk.ask(&local, channel);
        }
        talk.settled(&local, "a refused connection").await;
    }
}

#[tokio::test]
async fn an_outage_that_outlasts_the_session_is_caught_up_with_although_discords_heart_beats_slowly()
 {
    let local = discord(true).await;
    // As Discord's does: serenity alone would notice after more than a minute.
    local.faults().heartbeat(Duration::from_millis(41_250));
    let installation = installed(&local);
    let bot = serving(&installation).await;
    let mut talk = Talk::default();
    talk.ask(&local, CHANNEL);
    talk.ask(&local, THREAD);
    talk.settled(&local, "nothing").await;
    local.faults().refuse_gateway(true);
    local.faults().drop_gateway(false);
    local.wait_for("a refused connection", |local| (local.refused() > 0).then_some(())).await;
    local.faults().forget_sessions();
    for channel in [CHANNEL, THREAD, CHANNEL] {
        talk.ask(&local, channel);
    }
    bot.logs("discord connection did not come back; logging in again").await;
    local.faults().refuse_gateway(false);
    talk.settled(&local, "a long outage").await;
    talk.ask(&local, CHANNEL);
    talk.settled(&local, "a long outage").await;
    assert_eq!(local.logins().0, 2);
}

#[tokio::test]
async fn what_was_missed_is_asked_for_until_discord_hands_it_out_and_keeps_its_order() {
    let local = discord(false).await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    let mut talk = Talk::default();
    talk.ask(&local, CHANNEL);
    talk.ask(&local, OTHER);
    talk.settled(&local, "nothing").await;
    local.faults().next(
        "GET",
        &format!("/channels/{CHANNEL}/messages"),
        crate::support::discord::Fault::Status(503),
        8,
    );
    local.faults().forget_sessions();
    local.faults().drop_gateway(false);
    talk.ask(&local, CHANNEL);
    bot.logs("discord does not return missed messages").await;
    // Comes by the new connection, and must not overtake the one before.
    talk.ask(&local, CHANNEL);
    talk.ask(&local, OTHER);
    talk.settled(&local, "messages that cannot be read").await;
    assert_eq!(local.faults().waiting(), 0, "the fault came to pass");
}

#[tokio::test]
async fn a_message_told_twice_and_the_preview_of_a_link_bring_no_second_answer() {
    let local = discord(false).await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    let mut talk = Talk::default();
    let mut asked =
        vec![talk.ask_for(&local, CHANNEL, "slow 2", "Second 1. Second 2. There.".to_owned())];
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    // One runs, one waits behind it.
    asked.push(talk.ask(&local, CHANNEL));
    for message in &asked {
        local.repeat(*message);
        local.unfurl(*message);
    }
    talk.settled(&local, "doubles").await;
    // All are answered.
    asked.extend(local.messages(CHANNEL).iter().map(|message| message.id));
    for message in asked {
        local.repeat(message);
        local.unfurl(message);
    }
    talk.ask(&local, CHANNEL);
    talk.settled(&local, "late doubles").await;
    assert_eq!(installation.recordings().len(), 3, "three prompts, three turns");
}

#[tokio::test]
async fn events_with_the_id_zero_are_dropped_and_logged_once_a_kind() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    let author = json!({"id": ANN.to_string(), "username": "ann"});
    let message = |id: &str, server: &str| {
        json!({
            "id": id, "channel_id": CHANNEL.to_string(), "guild_id": server, "author": author,
            "content": format!("<@{BOT}> odd"), "mentions": [], "mention_roles": [],
            "attachments": [], "type": 0, "edited_timestamp": "2026-08-06T12:00:00.000000+00:00",
        })
    };
    for id in ["11", "12", "0"] {
        local.send_event("MESSAGE_CREATE", &message(id, "0"));
        local.send_event("MESSAGE_UPDATE", &message(id, "0"));
    }
    let deleted = json!({"id": "11", "channel_id": CHANNEL.to_string(), "guild_id": "0"});
    local.send_event("MESSAGE_DELETE", &deleted);
    let member = json!({"guild_id": "0", "user": {"id": BOT.to_string(), "username": "bot"}});
    local.send_event("GUILD_MEMBER_UPDATE", &member);
    local.send_event(
        "INTERACTION_CREATE",
        &json!({
            "id": "13", "application_id": "0", "type": 2, "token": "t", "guild_id": "0",
            "channel_id": CHANNEL.to_string(), "user": author, "data": {"name": "status"},
        }),
    );
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    let texts = local.texts(CHANNEL);
    assert!(!texts.iter().any(|text| text.contains("odd")), "{texts:?}");
    let log = bot.log();
    let dropped: Vec<_> = log
        .iter()
        .filter(|line| line["message"] == "an event of discord cannot be read and is dropped")
        .map(|line| line["event"].as_str().unwrap())
        .collect();
    assert_eq!(dropped, ["MESSAGE_CREATE", "MESSAGE_UPDATE"], "{}", bot.stderr());
    assert!(!bot.stderr().contains("panic"), "{}", bot.stderr());
    assert_eq!(local.logins().0, 1);
}
