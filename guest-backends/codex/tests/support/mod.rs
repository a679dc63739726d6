//! What the tests of both modes share.
#![allow(dead_code, clippy::unwrap_used)] // each test binary uses a part of it

use std::path::PathBuf;

use aetheel_backend_sdk::dialogue::{Play, json_rpc};
use aetheel_backend_sdk::fixture::start;
use aetheel_backend_sdk::wit::{
    Action, Answer, Ask, Command, Decision, EventKind, Input, Query, QueryKind, QueryResult,
    Safety, StartTurn, ToolEnd, ToolStart, TurnDone, Unrecognised,
};
use codex::Backend;

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/codex")
}

/// A recorded dialogue, not played yet.
pub fn play(case: &str) -> Play<Backend> {
    Play::load(&folder().join(case), json_rpc)
}

/// A turn of a long-lived link.
pub fn live(prompt: &str) -> StartTurn {
    StartTurn { one_shot: false, ..start(prompt) }
}

/// One that asks before it changes anything.
pub fn careful(prompt: &str) -> StartTurn {
    let mut start = live(prompt);
    start.settings.safety = Safety::Default;
    start
}

pub fn is_done(action: &Action) -> bool {
    matches!(action, Action::TurnDone(_))
}

/// Plays up to the end of a turn.
pub fn until_done(play: &mut Play<Backend>) -> TurnDone {
    match play.until(is_done) {
        Action::TurnDone(done) => done,
        other => panic!("{other:?}"),
    }
}

/// Plays up to a question to a person.
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

/// Answers to queries, in order.
pub fn answers(actions: &[Action]) -> Vec<&QueryResult> {
    actions
        .iter()
        .filter_map(|action| {
            if let Action::QueryAnswer(answer) = action { Some(&answer.answer) } else { None }
        })
        .collect()
}

pub fn events(actions: &[Action]) -> impl Iterator<Item = &EventKind> {
    actions.iter().filter_map(|action| {
        if let Action::Event(event) = action { Some(&event.kind) } else { None }
    })
}

/// Texts as people see them in the end, those withdrawn left out.
pub fn shown(actions: &[Action]) -> Vec<String> {
    pieces(
        events(actions)
            .filter_map(|event| if let EventKind::Text(text) = event { Some(text) } else { None }),
    )
}

/// Thoughts as people see them in the end.
pub fn thoughts(actions: &[Action]) -> Vec<String> {
    pieces(
        events(actions).filter_map(|event| {
            if let EventKind::Thinking(text) = event { Some(text) } else { None }
        }),
    )
}

fn pieces<'a>(texts: impl Iterator<Item = &'a aetheel_backend_sdk::wit::Text>) -> Vec<String> {
    let mut parts = std::collections::BTreeMap::<u32, String>::new();
    for text in texts {
        let part = parts.entry(text.part).or_default();
        if text.replace {
            part.clear();
        }
        part.push_str(&text.text);
    }
    parts.into_values().filter(|text| !text.is_empty()).collect()
}

pub fn tool_starts(actions: &[Action]) -> Vec<&ToolStart> {
    events(actions)
        .filter_map(|event| if let EventKind::ToolStart(tool) = event { Some(tool) } else { None })
        .collect()
}

pub fn tool_ends(actions: &[Action]) -> Vec<&ToolEnd> {
    events(actions)
        .filter_map(|event| if let EventKind::ToolEnd(tool) = event { Some(tool) } else { None })
        .collect()
}

pub fn unknown(actions: &[Action]) -> Vec<&Unrecognised> {
    events(actions)
        .filter_map(
            |event| if let EventKind::Unrecognised(unknown) = event { Some(unknown) } else { None },
        )
        .collect()
}

pub fn ids(actions: &[Action]) -> Vec<&str> {
    actions
        .iter()
        .filter_map(|action| {
            if let Action::SessionReady(ready) = action {
                Some(ready.native_id.as_str())
            } else {
                None
            }
        })
        .collect()
}

pub fn inputs(play: &Play<Backend>) -> Vec<Input> {
    play.inputs.iter().map(|timed| timed.input.clone()).collect()
}
