//! Functions shared by the tests of both modes.
#![allow(dead_code, clippy::unwrap_used, reason = "each test binary uses a part of it")]

use std::path::PathBuf;

use aetheel_backend_sdk::dialogue::{Play, json_rpc};
use aetheel_backend_sdk::fixture::{is_done, ready, start};
use aetheel_backend_sdk::wit::{
    Action, Answer, Ask, Command, Decision, Input, Query, QueryKind, Safety, StartTurn, TurnDone,
};
use codex::Backend;

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/codex")
}

/// Loads a recorded dialogue.
pub fn play(case: &str) -> Play<Backend> {
    Play::load(&folder().join(case), json_rpc)
}

/// Returns a turn of a long-lived link.
pub fn live(prompt: &str) -> StartTurn {
    StartTurn { one_shot: false, ..start(prompt) }
}

/// Returns a turn that asks before it changes anything.
pub fn careful(prompt: &str) -> StartTurn {
    let mut start = live(prompt);
    start.settings.safety = Safety::Default;
    start
}

/// Plays up to the end of a turn.
pub fn until_done(play: &mut Play<Backend>) -> TurnDone {
    match play.until(is_done) {
        Action::TurnDone(done) => done,
        other => panic!("{other:?}"),
    }
}

/// Plays up to a question to the user.
pub fn until_ask(play: &mut Play<Backend>) -> Ask {
    match play.until(|action| matches!(action, Action::Ask(_))) {
        Action::Ask(ask) => ask,
        other => panic!("{other:?}"),
    }
}

pub fn answer(ask: u32, decision: Decision) -> Command {
    Command::Answer(Answer { ask, decision })
}

pub fn query(query: u32, session: Option<u32>, kind: QueryKind) -> Command {
    Command::Query(Query { query, session, kind })
}

pub fn ids(actions: &[Action]) -> Vec<&str> {
    ready(actions).into_iter().map(|ready| ready.native_id.as_str()).collect()
}

pub fn inputs(play: &Play<Backend>) -> Vec<Input> {
    play.inputs.iter().map(|timed| timed.input.clone()).collect()
}
