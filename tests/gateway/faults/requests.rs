//! Discord's HTTP interface is slow, limited or failing while answers are delivered.

use std::time::Duration;

use super::{Talk, discord, installed, serving, without_prompt_limit};
use crate::support::discord::{ANN, CHANNEL, Fault, OTHER, ROLE, THREAD};

/// The `retry_after` of a 429, in seconds.
const WAIT: f64 = 1.0;

/// The name, the affected requests, the fault, and how many requests suffer it.
type Trouble = (&'static str, (&'static str, &'static str), fn() -> Fault, usize);

const TROUBLES: [Trouble; 10] = [
    (
        "a rate limit of a channel",
        ("POST", "/messages"),
        || Fault::Limit { retry_after: WAIT, global: false },
        2,
    ),
    (
        "a rate limit of everything",
        ("POST", "/messages"),
        || Fault::Limit { retry_after: WAIT, global: true },
        1,
    ),
    ("a server that fails", ("POST", "/messages"), || Fault::Status(500), 2),
    ("a server that is out of order for a while", ("POST", "/messages"), || Fault::Status(503), 5),
    ("a connection cut before anything was done", ("POST", "/messages"), || Fault::CutBefore, 2),
    ("a connection cut after it was done", ("POST", "/messages"), || Fault::CutAfter, 2),
    ("a slow server", ("POST", "/messages"), || Fault::Slow(Duration::from_secs(2)), 2),
    ("typing that is refused", ("POST", "/typing"), || Fault::Status(500), 2),
    (
        "typing that is limited",
        ("POST", "/typing"),
        || Fault::Limit { retry_after: WAIT, global: false },
        1,
    ),
    ("typing that may not be", ("POST", "/typing"), || Fault::Refuse(403, 50_013), 1),
];

#[tokio::test]
async fn every_message_is_answered_once_and_in_order_despite_request_faults() {
    let local = discord(true).await;
    let installation = without_prompt_limit(&local);
    let _bot = serving(&installation).await;
    let mut talk = Talk::default();
    for (name, (method, path), fault, times) in TROUBLES {
        local.faults().next(method, path, fault(), times);
        for channel in [CHANNEL, OTHER, CHANNEL] {
            talk.ask(&local, channel);
        }
        talk.settled(&local, name).await;
        assert_eq!(local.faults().waiting(), 0, "{name}: all faults occurred");
    }
    let requests = local.requests();
    let posts = |channel: u64| {
        let path = format!("/channels/{channel}/messages");
        requests
            .iter()
            .filter(move |request| request.method == "POST" && request.path == path)
            .collect::<Vec<_>>()
    };
    for posts in [posts(CHANNEL), posts(OTHER)] {
        for pair in posts.windows(2).filter(|pair| pair[0].status == 429) {
            let waited = pair[1].at - pair[0].at;
            assert!(waited >= Duration::from_secs_f64(WAIT), "tried again after {waited:?}");
        }
    }
}

#[tokio::test]
async fn access_is_checked_again_until_discord_answers_and_order_is_kept() {
    let local = discord(false).await;
    let installation = installed(&local)
        .with("ALLOWED_CHANNELS", &CHANNEL.to_string())
        .with("ALLOWED_ROLES", &ROLE.to_string());
    let _bot = serving(&installation).await;
    let mut talk = Talk::default();
    // A thread is admitted by its parent channel, which must be looked up.
    local.faults().next("GET", &format!("/channels/{THREAD}"), Fault::Status(502), 6);
    talk.ask(&local, THREAD);
    talk.ask(&local, CHANNEL);
    talk.ask(&local, THREAD);
    talk.settled(&local, "a thread that cannot be looked up").await;
    assert_eq!(local.faults().waiting(), 0, "all lookups failed first");
    // The authors of missed messages must be looked up, too.
    local.faults().next("GET", "/members/", Fault::Status(502), 6);
    local.faults().forget_sessions();
    local.faults().drop_gateway(false);
    talk.ask(&local, CHANNEL);
    talk.ask(&local, THREAD);
    talk.ask(&local, CHANNEL);
    talk.settled(&local, "members that cannot be looked up").await;
    assert_eq!(local.faults().waiting(), 0, "all lookups failed first");
}

#[tokio::test]
async fn a_revoked_token_is_noticed_by_the_first_refused_request() {
    let local = discord(false).await;
    let installation = installed(&local);
    let mut bot = serving(&installation).await;
    local.faults().refuse_token(true);
    local.mention(CHANNEL, ANN, "hello");
    let ended = bot.ended().await;
    assert_eq!(ended.code, 77, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("DISCORD_BOT_TOKEN") && ended.stderr.contains("shutdown: done"),
        "{}",
        ended.stderr
    );
    assert_eq!(local.texts(CHANNEL), Vec::<String>::new());
}
