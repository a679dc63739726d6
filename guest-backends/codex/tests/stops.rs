//! Interrupted and closed conversations with `codex app-server` leave no processes running.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod support;

use aetheel_backend_sdk::dialogue::Play;
use aetheel_backend_sdk::wit::{Command, TurnRef};
use codex::Backend;
use serde_json::json;
use support::{live, play, until_done};

const THREAD: &str = "01a1ffe2-42ec-7b70-ae65-d995238de672";

/// Returns the threads whose commands were ended.
fn cleaned(play: &Play<Backend>) -> Vec<serde_json::Value> {
    play.written_with("thread/backgroundTerminals/clean")
        .iter()
        .map(|asked| asked["params"]["threadId"].clone())
        .collect()
}

#[test]
fn commands_of_an_interrupted_turn_are_ended() {
    let mut play = play("live-interrupt-mid-tool");
    play.start(live("sleep")).until_host("turn/interrupt");
    play.command(Command::Interrupt(TurnRef { session: 1, turn: 1 }));
    assert!(
        cleaned(&play).is_empty(),
        "the turn is interrupted first, so that it starts no further commands"
    );
    until_done(&mut play);
    let threads = play
        .written_with("turn/interrupt")
        .iter()
        .map(|asked| asked["params"]["threadId"].clone())
        .collect::<Vec<_>>();
    assert_eq!(cleaned(&play), threads);
}

#[test]
fn commands_of_a_closed_session_are_ended() {
    let mut play = play("live-init-prompt-streaming");
    play.start(live("first"));
    until_done(&mut play);
    assert!(cleaned(&play).is_empty(), "background commands of a completed turn continue");
    play.command(Command::CloseSession(1));
    assert_eq!(cleaned(&play), [json!(THREAD)]);
    let written = play.written.join("");
    assert!(
        written.find("backgroundTerminals").unwrap() < written.find("thread/unsubscribe").unwrap()
    );
}
