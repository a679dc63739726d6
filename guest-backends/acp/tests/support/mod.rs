//! Functions that the tests share.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "each test binary uses a part of it, and a panic reports the failure"
)]

use std::path::PathBuf;

use acp::Backend;
use aetheel_backend_sdk::dialogue::{Play, json_rpc};
use aetheel_backend_sdk::fixture::{self, is_done};
use aetheel_backend_sdk::wit::{
    Action, Answer, Ask, Command, Decision, EventKind, Outcome, QueryKind, Safety, StartTurn,
    TurnDone,
};

pub const SESSION: u32 = fixture::TURN.session;

/// Plays the dialogue recorded under this name in `tests/fixtures/acp`.
pub fn play(name: &str) -> Play<Backend> {
    Play::load(
        &PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/acp").join(name),
        json_rpc,
    )
}

/// Returns the start of a turn, for an agent whose modes are not changed.
pub fn turn(number: u32) -> StartTurn {
    let mut start = fixture::start("hello");
    start.turn = number;
    start.one_shot = false;
    start.settings.safety = Safety::Default;
    "/srv/project".clone_into(&mut start.cwd);
    r#"{"program":"acp-agent","arguments":["acp"]}"#.clone_into(&mut start.settings.options);
    start
}

/// Returns the start of the next turn, in the session that the agent reported.
pub fn next(play: &Play<Backend>, number: u32) -> StartTurn {
    let ready = play.actions.iter().rev().find_map(|action| {
        if let Action::SessionReady(ready) = action { Some(ready) } else { None }
    });
    StartTurn { native_id: Some(ready.expect("a session").native_id.clone()), ..turn(number) }
}

pub fn with_modes(mut start: StartTurn, modes: &str) -> StartTurn {
    start.settings.options = format!(r#"{{"program":"acp-agent","modes":{modes}}}"#);
    start
}

/// Plays the dialogue until the agent asks a question.
pub fn asked(play: &mut Play<Backend>) -> Ask {
    match play.until(|action| matches!(action, Action::Ask(_))) {
        Action::Ask(ask) => ask,
        other => panic!("{other:?}"),
    }
}

pub fn answer(play: &mut Play<Backend>, ask: u32, decision: Decision) {
    play.command(Command::Answer(Answer { ask, decision }));
}

/// Plays the dialogue to the end of a turn.
pub fn done(play: &mut Play<Backend>) -> TurnDone {
    match play.until(is_done) {
        Action::TurnDone(done) => done,
        other => panic!("{other:?}"),
    }
}

/// Returns the whole text of a turn.
pub fn text(actions: &[Action], turn: u32) -> String {
    let piece = |action: &Action| match action {
        Action::Event(event) if event.turn == turn => match &event.kind {
            EventKind::Text(text) => Some(text.text.clone()),
            _ => None,
        },
        _ => None,
    };
    actions.iter().filter_map(piece).collect()
}

pub fn failure(outcome: &Outcome) -> &aetheel_backend_sdk::wit::Failure {
    match outcome {
        Outcome::Failed(failure) | Outcome::Lost(failure) => failure,
        other => panic!("{other:?}"),
    }
}

pub fn query(number: u32, kind: QueryKind) -> Command {
    Command::Query(aetheel_backend_sdk::wit::Query { query: number, session: None, kind })
}
