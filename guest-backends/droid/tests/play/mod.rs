//! Loads recorded dialogues, and selects from the resulting actions.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "every test file uses some of it"
)]

use std::fs;
use std::path::{Path, PathBuf};

use aetheel_backend_sdk::dialogue::{Play, json_rpc};
use aetheel_backend_sdk::fixture::{self, start};
use aetheel_backend_sdk::wit::{
    Action, EventKind, Safety, StartTurn, SteerOutcome, ToolStatus, Value,
};
use droid::Backend;

pub type Live = Play<Backend>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/droid")
}

/// Returns the names of all dialogues.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".dialogue").map(str::to_owned))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    names
}

pub fn play(name: &str) -> Live {
    Play::load(&folder().join(name), json_rpc)
}

/// Returns a turn that asks before every change.
pub fn live(prompt: &str) -> StartTurn {
    let mut start = StartTurn { one_shot: false, ..start(prompt) };
    start.settings.safety = Safety::Default;
    start
}

pub fn turn(turn: u32, prompt: &str) -> StartTurn {
    StartTurn { turn, ..live(prompt) }
}

/// Returns the line of a `droid.session_notification`.
pub fn note(notification: &serde_json::Value) -> String {
    serde_json::json!({"type": "notification", "method": "droid.session_notification", "params": {"notification": notification}})
        .to_string()
}

pub fn events(actions: &[Action], turn: u32) -> Vec<&EventKind> {
    let mut events = Vec::new();
    for action in actions {
        if let Action::Event(event) = action
            && event.turn == turn
        {
            events.push(&event.kind);
        }
    }
    events
}

/// Returns the final text that the user sees.
pub fn shown(actions: &[Action], turn: u32) -> String {
    let of_turn = |action: &&Action| matches!(action, Action::Event(event) if event.turn == turn);
    fixture::shown(&actions.iter().filter(of_turn).cloned().collect::<Vec<_>>()).concat()
}

pub fn notices(actions: &[Action], turn: u32) -> Vec<&str> {
    events(actions, turn)
        .into_iter()
        .filter_map(|event| {
            if let EventKind::Notice(notice) = event { Some(notice.text.as_str()) } else { None }
        })
        .collect()
}

pub fn tool_ends(actions: &[Action], turn: u32) -> Vec<ToolStatus> {
    events(actions, turn)
        .into_iter()
        .filter_map(
            |event| if let EventKind::ToolEnd(end) = event { Some(end.status) } else { None },
        )
        .collect()
}

pub fn ready(actions: &[Action]) -> Vec<String> {
    fixture::ready(actions).into_iter().map(|ready| ready.native_id.clone()).collect()
}

pub fn steered(actions: &[Action]) -> Vec<(u32, SteerOutcome)> {
    actions
        .iter()
        .filter_map(|action| {
            if let Action::Steered(steered) = action {
                Some((steered.message, steered.outcome))
            } else {
                None
            }
        })
        .collect()
}

/// Returns the arguments of every started process.
pub fn spawns(actions: &[Action]) -> Vec<Vec<String>> {
    let words = |arguments: &[Value]| {
        arguments
            .iter()
            .map(|value| if let Value::Text(text) = value { text.clone() } else { "<>".to_owned() })
            .collect()
    };
    actions
        .iter()
        .filter_map(|action| {
            if let Action::Spawn(spawn) = action { Some(words(&spawn.arguments)) } else { None }
        })
        .collect()
}
