//! All ways in which the connection to Discord's gateway can break.

use std::time::Duration;

use serde_json::json;

use super::{Talk, discord, installed, serving, without_prompt_limit};
use crate::support::discord::{ANN, BOT, CHANNEL, LocalDiscord, OTHER, THREAD};

const CHANNELS: [u64; 3] = [CHANNEL, OTHER, THREAD];

/// The name, the fault, and whether the session is lost with it.
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
async fn every_message_is_answered_once_and_in_order_after_connection_faults() {
    answers_survive_all_troubles(&discord(false).await).await;
}

#[tokio::test]
async fn every_message_is_answered_once_and_in_order_after_connection_faults_over_tls() {
    answers_survive_all_troubles(&discord(true).await).await;
}

async fn answers_survive_all_troubles(local: &LocalDiscord) {
    let installation = without_prompt_limit(local);
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
        // Without an acknowledgement, serenity logs in again although it could resume.
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
async fn messages_written_while_connections_are_refused_are_answered_afterwards() {
    for tls in [false, true] {
        let local = discord(tls).await;
        let installation = installed(&local);
        let bot = serving(&installation).await;
        let mut talk = Talk::default();
        for channel in CHANNELS {
            talk.ask(&local, channel);
        }
        talk.settled(&local, "nothing").await;
        // Refused connections make serenity stall over TLS.
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
async fn messages_of_an_outage_longer_than_the_session_are_answered_despite_a_slow_heartbeat() {
    let local = discord(true).await;
    // Discord's own interval. serenity alone would need more than a minute to notice the outage.
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
    // The thread of the abandoned login ends, too.
    bot.has_threads("discord-gateway", 1).await;
}

#[tokio::test]
async fn missed_messages_are_requested_until_discord_returns_them_and_keep_their_order() {
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
    // This message comes by the new connection, and must not overtake the missed one.
    talk.ask(&local, CHANNEL);
    talk.ask(&local, OTHER);
    talk.settled(&local, "messages that cannot be read").await;
    assert_eq!(local.faults().waiting(), 0, "all faults occurred");
}

#[tokio::test]
async fn a_repeated_message_event_and_a_link_preview_cause_no_second_answer() {
    let local = discord(false).await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    let mut talk = Talk::default();
    let mut asked =
        vec![talk.ask_for(&local, CHANNEL, "slow 2", "Second 1. Second 2. There.".to_owned())];
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    // One prompt is running, and one is waiting.
    asked.push(talk.ask(&local, CHANNEL));
    for message in &asked {
        local.repeat(*message);
        local.unfurl(*message);
    }
    talk.settled(&local, "doubles").await;
    // All prompts are answered.
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
async fn events_with_the_id_zero_are_dropped_and_logged_once_per_kind() {
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
    let odd = ["MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE"];
    assert_eq!(dropped, odd, "{}", bot.stderr());
    assert!(!bot.stderr().contains("panic"), "{}", bot.stderr());
    assert_eq!(local.logins().0, 1);
}
