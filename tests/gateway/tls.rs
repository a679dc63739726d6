//! The program over TLS, with a trusted certificate authority and with an untrusted one.

use rustix::process::Signal;

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER};

#[tokio::test]
async fn a_conversation_works_over_tls() {
    let local = LocalDiscord::start_with_tls().await;
    let installation = installed(&local);
    let mut bot = serving(&installation).await;
    let question = local.mention(CHANNEL, ANN, "slow 2");
    let answer = local.wait_for_message(CHANNEL, |text| text == "Second 1. Second 2. There.").await;
    assert_eq!(answer.reply_to, Some(question));
    assert!(!answer.edits.is_empty(), "it was streamed");
    let asked = local.slash(OTHER, ANN, "ask", Some("hello"));
    local
        .wait_for_message(OTHER, |text| {
            text == "> 💬 hello\nYou said: hello\n\nThis is message 1 of our conversation."
        })
        .await;
    assert!(local.interaction(asked).acknowledged.is_some());
    bot.signal(Signal::TERM);
    let ended = bot.ended().await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(local.closed_with(), [Some(1000)], "a clean close");
}

#[tokio::test]
async fn an_untrusted_certificate_of_discord_is_78_with_its_cause_and_a_hint() {
    let (local, other) =
        (LocalDiscord::start_with_tls().await, LocalDiscord::start_with_tls().await);
    let others = other.authority().expect("it speaks TLS").display().to_string();
    // The system's authorities, another authority, and a missing file.
    for trusted in ["", &others, "/nonexistent/authority.pem"] {
        let ended = installed(&local).with("SSL_CERT_FILE", trusted).run(&["run"], "").await;
        assert_eq!(ended.code, 78, "{trusted:?}: {}", ended.stderr);
        for part in [local.url(), "invalid peer certificate: ", "hint: ", "`SSL_CERT_FILE`"] {
            assert!(
                ended.stderr.contains(part),
                "{trusted:?}: {part:?} is missing in\n{}",
                ended.stderr
            );
        }
    }
    assert!(local.requests().is_empty(), "the token was sent to an untrusted server");
}
