//! Recorded runs of Droid 0.225.2 with one process for each turn. All runs are compared with their
//! expected actions, and special cases have their own tests.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

use std::path::{Path, PathBuf};

use aetheel_backend_sdk::fixture::{
    Fixture, done, events, line, notices, ready, run, shown, start, thoughts, tool_ends,
    tool_starts, unrecognised,
};
use aetheel_backend_sdk::one_shot::LINGER_MS;
use aetheel_backend_sdk::wit::{
    Action, EventKind, Exit, Exited, FailureKind, Input, Outcome, Pipe, PlanStatus, ToolStatus,
};
use droid::Backend;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/droid")
}

fn actions(name: &str) -> Vec<Action> {
    Fixture::load(&folder().join(name)).run::<Backend>()
}

fn failure(name: &str) -> (FailureKind, String) {
    match &done(&actions(name)).outcome {
        Outcome::Failed(failure) => (failure.kind, failure.message.clone()),
        outcome => panic!("{name} was {outcome:?}"),
    }
}

#[test]
fn every_recorded_run_matches_its_golden_actions() {
    for fixture in Fixture::all(&folder()) {
        let actions = fixture.run::<Backend>();
        done(&actions);
        fixture.check(&actions);
    }
}

#[test]
fn no_output_of_a_recorded_run_is_unrecognised() {
    for fixture in Fixture::all(&folder()) {
        let actions = fixture.run::<Backend>();
        let unknown = unrecognised(&actions);
        assert!(unknown.is_empty(), "{}: {unknown:?}", fixture.name());
    }
}

#[test]
fn the_answer_is_shown_exactly_once() {
    for name in ["plain", "unicode-newlines", "stdin-prompt", "sigint-stream", "reasoning-high"] {
        let actions = actions(name);
        assert_eq!(done(&actions).outcome, Outcome::Completed, "{name}");
        assert_eq!(Some(shown(&actions).concat()), done(&actions).text, "{name}");
    }
}

#[test]
fn errors_are_reported_with_their_kind_and_the_providers_message() {
    for (name, kind, words) in [
        ("error-400", FailureKind::BadRequest, "mock: scripted error 400 (400)"),
        ("error-401", FailureKind::Authentication, "mock: invalid credentials (401)"),
        ("error-429", FailureKind::RateLimited, "mock: scripted error 429 (429)"),
        ("refusal", FailureKind::Refused, "content moderation policy"),
        ("server-down", FailureKind::Network, "Connection error."),
        ("spec-mode", FailureKind::Refused, "insufficient permission"),
        // The reason is only on stderr.
        ("model-unknown", FailureKind::ModelNotFound, "Available custom models"),
        ("only-tools-claude-names", FailureKind::BadRequest, "Unknown tool identifier"),
        ("bad-flag", FailureKind::BadRequest, "unknown option"),
        ("sys-append-missing", FailureKind::Other, "Failed to read"),
        // The reason is neither on stdout nor on stderr.
        ("resume-unknown", FailureKind::SessionUnknown, "could not load the session"),
    ] {
        let (found, message) = failure(name);
        assert_eq!(found, kind, "{name}: {message}");
        assert!(message.contains(words), "{name}: {message}");
    }
}

#[test]
fn an_error_that_droid_recovers_from_does_not_fail_the_turn() {
    let actions = actions("error-429-once");
    assert_eq!(done(&actions).outcome, Outcome::Completed);
}

#[test]
fn an_exit_without_a_result_is_never_a_success() {
    let fixture = Fixture::load(&folder().join("plain"));
    let mut inputs = fixture.inputs();
    inputs.retain(
        |input| !matches!(input, Input::Line(line) if line.text.contains("\"completion\"")),
    );
    let actions = run::<Backend>(fixture.start.clone(), inputs);
    assert!(
        matches!(&done(&actions).outcome, Outcome::Lost(lost) if lost.kind == FailureKind::Protocol),
        "{:?}",
        done(&actions)
    );
    assert!(matches!(done(&self::actions("sigkill-stream")).outcome, Outcome::Lost(_)));
}

#[test]
fn the_turn_does_not_wait_for_a_process_that_lingers_after_its_completion() {
    let fixture = Fixture::load(&folder().join("plain"));
    let mut inputs = fixture.inputs();
    inputs.pop();
    inputs.push(Input::Timer(1));
    let actions = run::<Backend>(fixture.start.clone(), inputs);
    assert!(
        actions
            .iter()
            .any(|action| matches!(action, Action::SetTimer(timer) if timer.after_ms == LINGER_MS))
    );
    assert_eq!(done(&actions).outcome, Outcome::Completed);
}

#[test]
fn tool_uses_have_kinds_and_results() {
    for (name, kinds) in [
        ("tool-shell", &["bash"][..]),
        ("tool-edit", &["file_read", "file_edit"]),
        ("tool-write", &["file_write"]),
        ("tools-sequence", &["bash", "file_read", "file_write", "file_search"]),
        ("tools-parallel", &["bash", "file_read"]),
    ] {
        let actions = actions(name);
        let found: Vec<_> =
            tool_starts(&actions).into_iter().map(|tool| tool.kind.as_str()).collect();
        assert_eq!(found, kinds, "{name}");
        assert!(tool_ends(&actions).iter().all(|end| end.status == ToolStatus::Ok), "{name}");
    }
    for (name, end) in [
        ("tool-fail", (ToolStatus::Failed, Some(3))),
        ("only-tools-call", (ToolStatus::Denied, None)),
        ("spec-mode", (ToolStatus::Denied, None)),
    ] {
        let actions = actions(name);
        let ends = tool_ends(&actions).into_iter().map(|end| (end.status, end.exit_code));
        assert_eq!(ends.collect::<Vec<_>>(), [end], "{name}");
    }
}

#[test]
fn a_written_file_and_a_plan_are_reported() {
    let call = |name: &str, input: &str| {
        format!(
            r#"{{"type":"tool_call","id":"t","messageId":"m","toolId":"{name}","toolName":"{name}","parameters":{input}}}"#
        )
    };
    let lines = [
        call("Create", r#"{"file_path":"/srv/proj/a.txt","content":"one"}"#),
        r#"{"type":"tool_result","id":"t","isError":false,"value":"{\"success\":true,\"file_path\":\"/srv/proj/a.txt\"}"}"#.to_owned(),
        call("TodoWrite", r#"{"todos":"1. [in_progress] one\n2. [pending] two\n3. [completed] three"}"#),
    ];
    let actions =
        run::<Backend>(start("hi"), lines.iter().map(|text| line(Pipe::Stdout, text)).collect());
    let events: Vec<_> = events(&actions).collect();
    assert!(
        events.iter().any(|event| matches!(event, EventKind::ToolEnd(end)
            if end.diffs.len() == 1 && end.diffs[0].path == "/srv/proj/a.txt" && end.diffs[0].new_text.as_deref() == Some("one"))),
        "{events:?}"
    );
    let Some(EventKind::Plan(plan)) = events.last() else { panic!("{events:?}") };
    let found: Vec<_> = plan.iter().map(|entry| (entry.text.as_str(), entry.status)).collect();
    assert_eq!(
        found,
        [("one", PlanStatus::Active), ("two", PlanStatus::Pending), ("three", PlanStatus::Done)]
    );
}

#[test]
fn a_reply_to_a_reminder_of_open_todos_does_not_replace_the_answer() {
    let says = |id: &str, text: &str| {
        format!(r#"{{"type":"message","role":"assistant","id":"{id}","text":"{text}"}}"#)
    };
    let lines = [
        says("m1", "The answer is 42."),
        says("m2", "Plan is up-to-date."),
        r#"{"type":"completion","finalText":"Plan is up-to-date.","numTurns":2}"#.to_owned(),
    ];
    let exited = Input::Exited(Exited { proc: 1, how: Exit::Code(0), stderr_tail: String::new() });
    let actions = run::<Backend>(
        start("hi"),
        lines.iter().map(|text| line(Pipe::Stdout, text)).chain([exited]).collect(),
    );
    assert_eq!(done(&actions).text.as_deref(), Some("The answer is 42."));
}

#[test]
fn the_session_is_reported_and_a_lost_session_causes_a_notice() {
    let resumed = actions("resume-2");
    let fixture = Fixture::load(&folder().join("resume-2"));
    assert_eq!(Some(&ready(&resumed)[0].native_id), fixture.start.native_id.as_ref());
    assert_eq!(notices(&resumed), [""; 0]);
    // Droid accepts any id, and starts a new session for an unknown one. Only the number of rounds
    // shows it.
    assert_eq!(notices(&actions("resume-malformed")).len(), 1);
    // A copy has a new id and keeps the conversation.
    assert_eq!(notices(&actions("fork")), [""; 0]);
    let mut moved = fixture.clone();
    moved.stdout[0] = moved.stdout[0].replace(fixture.start.native_id.as_ref().unwrap(), "another");
    let actions = moved.run::<Backend>();
    assert!(notices(&actions).iter().any(|notice| notice.contains("earlier conversation is lost")));
}

#[test]
fn usage_is_reported_only_if_it_is_known_for_the_turn() {
    let usage = done(&actions("plain")).usage.clone().unwrap();
    assert_eq!((usage.input, usage.cached, usage.output), (1020, 200, 5));
    // A resumed session reports the sum of all its turns.
    assert_eq!(done(&actions("resume-2")).usage, None);
}

#[test]
fn thinking_is_separate_from_the_answer() {
    let actions = actions("think-tool");
    assert!(thoughts(&actions)[0].contains("Thinking about step 0"));
    assert!(!shown(&actions).concat().contains("Thinking about"));
}
