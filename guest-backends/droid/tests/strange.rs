//! Unknown output and disturbed recordings: unknown output is reported as unrecognised and never
//! dropped, links survive, and each turn ends exactly once.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod play;

use std::path::Path;

use aetheel_backend_sdk::disturb::{Change, disturbed, survive};
use aetheel_backend_sdk::fixture::{Fixture, line, run, start, unrecognised};
use aetheel_backend_sdk::wit::{
    Action, Answer, Command, Decision, EventKind, Input, Line, Part, Pipe, Query, QueryKind,
    Safety, SpawnFailed, Steer, TurnRef, Unrecognised,
};
use droid::Backend;
use proptest::prelude::*;
use serde_json::json;

use play::{events, live, note, play};

fn fixture(name: &str) -> Fixture {
    Fixture::load(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/droid").join(name),
    )
}

fn unknown(actions: &[Action]) -> Vec<Unrecognised> {
    unrecognised(actions).into_iter().cloned().collect()
}

#[test]
fn unknown_output_of_a_one_shot_run_is_reported_with_its_path_and_sample() {
    for (text, what, path) in [
        ("Debugger attached.", "line that is not a JSON object", None),
        ("42", "line that is not a JSON object", None),
        (r#"{"type":"hologram"}"#, r#"line type "hologram""#, Some("type")),
        (r#"{"hello":1}"#, r#"line type """#, Some("type")),
        (r#"{"type":"system","subtype":"aurora"}"#, r#"line type "system""#, Some("type")),
        (r#"{"type":"message","role":"ghost"}"#, r#"message of "ghost""#, Some("role")),
    ] {
        let found = unknown(&run::<Backend>(start("hi"), vec![line(Pipe::Stdout, text)]));
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!(
            (found[0].what.as_str(), found[0].path.as_deref(), found[0].sample.as_str()),
            (what, path, text)
        );
    }
    let cut =
        Line { proc: 1, pipe: Pipe::Stdout, text: "{\"type\":\"assi".to_owned(), truncated: true };
    assert_eq!(
        unknown(&run::<Backend>(start("hi"), vec![Input::Line(cut)]))[0].what,
        "line longer than the limit"
    );
}

#[test]
fn unknown_output_in_a_dialogue_is_reported_with_its_path_and_sample() {
    let message = |message| note(&json!({"type": "create_message", "message": message}));
    for (text, what, path) in [
        ("Debugger attached.".to_owned(), "line that is not a JSON object", None),
        ("{}".to_owned(), "line that is not a message", None),
        (
            json!({"method": "droid.sing", "params": {}}).to_string(),
            r#"notification "droid.sing""#,
            Some("method"),
        ),
        (
            note(&json!({"type": "hologram"})),
            r#"notification "hologram""#,
            Some("params.notification.type"),
        ),
        (
            message(json!({"id": "m", "role": "ghost", "content": []})),
            r#"message of "ghost""#,
            Some("params.notification.message.role"),
        ),
        (
            message(
                json!({"id": "m", "role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "video"}]}),
            ),
            r#"content block "video""#,
            Some("params.notification.message.content[1].type"),
        ),
    ] {
        let mut play = play("live-hello");
        play.start(live("Hello")).until_host("add_user_message").cut().say(&text);
        let found = unknown(&play.actions);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!(
            (found[0].what.as_str(), found[0].path.as_deref(), found[0].sample.as_str()),
            (what, path, text.as_str())
        );
    }
}

#[test]
fn a_session_without_an_id_fails_the_turn() {
    for (answer, path) in [
        (json!({"result": {"session": "renamed"}}), "result.sessionId"),
        (json!({"result": {"sessionId": ["in a list"]}}), "result.sessionId"),
        (json!({"id": ["1"], "result": {"sessionId": "d"}}), "id"),
    ] {
        let mut answer = answer;
        if answer["id"].is_null() {
            answer["id"] = json!("1");
        }
        answer["jsonrpc"] = json!("2.0");
        answer["type"] = json!("response");
        let mut play = play("live-hello");
        play.start(live("Hello")).until_host("initialize_session").cut().say(&answer.to_string());
        let found = unknown(&play.actions);
        assert_eq!(found.len(), 1, "{answer}: {found:?}");
        assert_eq!(found[0].path.as_deref(), Some(path), "{answer}");
        let failed = play.actions.iter().any(|action| matches!(action, Action::TurnDone(_)));
        assert_eq!(failed, path == "result.sessionId", "{answer}");
    }
}

#[test]
fn ignored_lines_are_not_unrecognised() {
    let mut play = play("live-hello");
    play.start(live("Hello")).until_host("add_user_message").cut();
    for kind in [
        "hook_execution_started",
        "mcp_auth_completed",
        "child_session_available",
        "tool_execution_heartbeat",
        "structured_output",
    ] {
        play.say(&note(&json!({"type": kind})));
    }
    let foreign = json!({"method": "droid.session_notification", "params": {"sessionId": "a-sub-agent", "notification": {"type": "hologram"}}});
    play.say("").say(&foreign.to_string());
    assert_eq!(unknown(&play.actions), []);
}

#[test]
fn the_activity_of_a_sub_agent_is_output_of_its_tool() {
    let mut play = play("live-hello");
    play.start(live("Hello")).until_host("add_user_message").cut();
    let task = json!({"type": "tool_call", "toolUse": {"id": "t", "name": "Task", "input": {"description": "look around"}}});
    play.say(&note(&task));
    for update in [
        json!({"type": "tool_call", "toolName": "Grep"}),
        json!({"type": "message", "text": "found it"}),
        json!({"type": "status", "text": ""}),
    ] {
        play.say(&note(&json!({"type": "tool_progress_update", "toolUseId": "t", "toolName": "Task", "update": update})));
    }
    let said: Vec<_> = events(&play.actions, 1)
        .into_iter()
        .filter_map(|kind| {
            if let EventKind::ToolOutput(output) = kind { Some(output.text.as_str()) } else { None }
        })
        .collect();
    assert_eq!(said, ["[Grep]\n", "found it\n"]);
}

/// Returns the inputs of a dialogue.
fn inputs_of(name: &str) -> Vec<Input> {
    let mut play = play(name);
    let mut first = live("Go on");
    if name.starts_with("live-re") && name != "live-retry" {
        first.native_id = Some("d1237233-3c08-439c-b93e-a882b205597b".to_owned());
    }
    play.start(first).finish();
    play.inputs.clone().into_iter().map(|timed| timed.input).collect()
}

fn commands() -> impl Strategy<Value = Input> {
    let key = TurnRef { session: 1, turn: 1 };
    let steer = Steer {
        session: 1,
        turn: 1,
        message: 3,
        parts: vec![Part::Text("STEER".to_owned())],
        fresh_id: start("").fresh_id,
    };
    let mut other = live("again");
    other.turn = 2;
    other.settings.safety = Safety::Edit;
    let mut anew = other.clone();
    anew.turn = 3;
    anew.settings.system_prompt = Some("be kind".to_owned());
    prop::sample::select(vec![
        Command::Interrupt(key),
        Command::Steer(steer),
        Command::Answer(Answer { ask: 1, decision: Decision::AllowOnce }),
        Command::Answer(Answer { ask: 1, decision: Decision::DenyAndStop }),
        Command::Answer(Answer { ask: 2, decision: Decision::Dismissed }),
        Command::StartTurn(other),
        Command::StartTurn(anew),
        Command::Query(Query { query: 1, session: Some(1), kind: QueryKind::Health }),
        Command::Query(Query { query: 2, session: Some(1), kind: QueryKind::Compact }),
        Command::Shutdown,
    ])
    .prop_map(Input::Command)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_disturbed_dialogue_still_ends_every_turn_once(
        name in prop::sample::select(play::names()),
        changes in prop::collection::vec(any::<Change>(), 0..12),
        more in prop::collection::vec((any::<prop::sample::Index>(), commands()), 0..6),
    ) {
        let mut inputs = disturbed(&inputs_of(&name), &changes);
        for (key, (at, mut command)) in (1..).zip(more) {
            if let Input::Command(Command::Query(query)) = &mut command {
                query.query = key;
            }
            // The first input starts the turn.
            let at = 1 + at.index(inputs.len());
            inputs.insert(at, command);
        }
        // Droid does not start again.
        inputs.extend((1..9).map(|proc| Input::SpawnFailed(SpawnFailed { proc, message: "no more".to_owned(), not_found: false })));
        survive::<Backend>(inputs);
    }

    #[test]
    fn a_disturbed_one_shot_run_still_ends_its_turn_once(
        name in prop::sample::select(&["think-tool", "tools-parallel", "error-429-once", "refusal", "resume-2", "spec-mode"][..]),
        changes in prop::collection::vec(any::<Change>(), 0..12),
    ) {
        let fixture = fixture(name);
        let mut inputs = vec![Input::Command(Command::StartTurn(start("hi")))];
        inputs.extend(disturbed(&fixture.inputs(), &changes));
        survive::<Backend>(inputs);
    }

    #[test]
    fn any_text_is_accepted(text in "\\PC{0,200}") {
        let _ = run::<Backend>(start("hi"), vec![line(Pipe::Stdout, &text), line(Pipe::Stdout, &json!({ "type": text }).to_string())]);
        let mut play = play("live-hello");
        play.start(live("Hello")).until_host("add_user_message").cut().say(&text).say(&note(&json!({ "type": text })));
    }
}
