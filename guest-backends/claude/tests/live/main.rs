//! Recorded conversations with Claude Code 2.1.197, played to the backend.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod asks;
mod disturbed;
mod endings;
mod host_tools;
mod moves;
mod queries;
mod same;
mod scenarios;
mod settings;
mod turns;

use std::path::{Path, PathBuf};

use aetheel_backend_sdk::dialogue::{Play, control};
use aetheel_backend_sdk::fixture::{start, unrecognised};
use aetheel_backend_sdk::wit::{
    Action, Answer, Command, Decision, Safety, Settings, StartTurn, TurnRef, Value,
};
use claude::Backend;

/// A recorded conversation that is being played.
type Conversation = Play<Backend>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/claude")
}

/// Loads a recorded conversation.
fn recorded(name: &str) -> Conversation {
    Play::load(&folder().join("live").join(name), control)
}

/// Returns a turn of a conversation at the lowest safety level.
fn turn(number: u32) -> StartTurn {
    with(number, |_| {})
}

fn with(number: u32, change: impl FnOnce(&mut Settings)) -> StartTurn {
    let mut start = StartTurn { turn: number, one_shot: false, ..start("recorded") };
    start.settings.safety = Safety::Default;
    change(&mut start.settings);
    start
}

fn at(number: u32) -> TurnRef {
    TurnRef { session: 1, turn: number }
}

/// Plays up to the next question and sends a decision.
fn decide(play: &mut Conversation, decision: Decision) {
    let Action::Ask(ask) = play.until(|action| matches!(action, Action::Ask(_))) else {
        unreachable!("it fits")
    };
    play.command(Command::Answer(Answer { ask: ask.ask, decision }));
}

/// Returns the arguments of every process that the backend started.
fn launches(play: &Conversation) -> Vec<Vec<String>> {
    play.actions
        .iter()
        .filter_map(|action| match action {
            Action::Spawn(spawn) => Some(&spawn.arguments),
            _ => None,
        })
        .map(|arguments| {
            arguments
                .iter()
                .map(|argument| match argument {
                    Value::Text(text) => text.clone(),
                    Value::File(name) => format!("<{name}>"),
                    other => panic!("{other:?}"),
                })
                .collect()
        })
        .collect()
}

#[test]
fn every_conversation_matches_its_golden_actions() {
    for (name, play) in scenarios::all() {
        assert!(!play.done().is_empty(), "{name}");
        play.check();
    }
}

#[test]
fn no_output_of_a_recorded_conversation_is_unrecognised() {
    for (name, play) in scenarios::all() {
        let unknown = unrecognised(&play.actions);
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
    }
}
