//! Compares the actions for recorded one-shot runs of Gemini CLI 0.61.0 with golden files. Special
//! cases have their own tests.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

use std::path::{Path, PathBuf};

use aetheel_backend_sdk::fixture::{Fixture, TURN, done, events, run, shown, start, unrecognised};
use aetheel_backend_sdk::wit::{
    Action, Command, EventKind, FailureKind, Input, Outcome, PlanStatus, StartTurn, ToolStatus,
};
use gemini::Backend;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/gemini")
}

fn actions(name: &str) -> Vec<Action> {
    Fixture::load(&folder().join(name)).run::<Backend>()
}

fn failed(actions: &[Action]) -> (FailureKind, &str) {
    match &done(actions).outcome {
        Outcome::Failed(failure) | Outcome::Lost(failure) => (failure.kind, &failure.message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_recorded_run_matches_its_golden_actions_without_unrecognised_output() {
    let all = Fixture::all(&folder());
    assert!(all.len() >= 40, "{}", all.len());
    for fixture in all {
        let actions = fixture.run::<Backend>();
        assert!(unrecognised(&actions).is_empty(), "{}", fixture.name());
        done(&actions);
        fixture.check(&actions);
    }
}

#[test]
fn a_plain_answer_is_streamed_with_its_usage_and_session() {
    let actions = actions("plain");
    let done = done(&actions);
    assert_eq!(
        (&done.outcome, done.text.as_deref()),
        (&Outcome::Completed, Some("MOCK ANSWER: Say hello."))
    );
    let usage = done.usage.as_ref().unwrap();
    assert_eq!(
        (usage.input, usage.output, usage.cached),
        (810, 5, 200),
        "cached tokens are not counted twice"
    );
    assert!(actions.iter().any(|action| matches!(action, Action::SessionReady(ready) if ready.native_id == "f3733b35-226b-4149-817f-e93602caa49c" && ready.model.as_deref() == Some("gemini-2.5-flash"))));
    assert!(
        !shown(&actions).concat().contains("[[")
            && events(&actions).filter(|event| matches!(event, EventKind::Text(_))).count() == 2,
        "the prompt is not echoed"
    );
}

#[test]
fn tools_have_unified_kinds() {
    let kind = |name: &str| {
        let actions = actions(name);
        let kind = events(&actions).filter_map(|event| {
            if let EventKind::ToolStart(start) = event { Some(start.kind.clone()) } else { None }
        });
        // An edit is preceded by a read.
        kind.last().unwrap_or_else(|| panic!("{name}"))
    };
    for (name, expected) in [
        ("tool-shell", "bash"),
        ("tool-read", "file_read"),
        ("tool-write", "file_write"),
        ("tool-edit", "file_edit"),
        ("tool-glob", "file_search"),
        ("tool-grep", "content_search"),
        ("tool-search", "web_search"),
        ("tool-fetch", "web_fetch"),
        ("tool-task", "agent_spawn"),
        ("tool-todo", "todo"),
        ("tool-unknown", "other"),
    ] {
        assert_eq!(kind(name), expected, "{name}");
    }
}

#[test]
fn failed_tools_are_failed_and_parallel_tools_end_separately() {
    let unknown = actions("tool-unknown");
    assert!(events(&unknown).any(|event| matches!(event, EventKind::ToolEnd(end) if end.status == ToolStatus::Failed && end.output.as_deref().unwrap().contains("not found"))));
    let parallel = actions("tools-parallel");
    let ids: Vec<_> = events(&parallel)
        .filter_map(|event| match event {
            EventKind::ToolStart(start) => Some(("start", start.id.as_str())),
            EventKind::ToolEnd(end) => Some(("end", end.id.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(
        ids.iter().map(|(what, _)| *what).collect::<Vec<_>>(),
        ["start", "start", "end", "end"]
    );
    assert_eq!((ids[0].1, ids[1].1), (ids[2].1, ids[3].1));
    assert!(done(&parallel).text.as_deref().unwrap().starts_with("MOCK ANSWER"));
}

#[test]
fn todos_become_the_plan() {
    let actions = actions("tool-todo");
    let plan = events(&actions)
        .find_map(|event| if let EventKind::Plan(plan) = event { Some(plan) } else { None })
        .unwrap();
    assert_eq!((plan[0].text.as_str(), plan[0].status), ("first step", PlanStatus::Active));
}

#[test]
fn errors_of_the_service_have_their_kind() {
    for (name, kind) in [
        ("error-400", FailureKind::BadRequest),
        ("error-401", FailureKind::Authentication),
        ("error-429", FailureKind::RateLimited),
        ("limit-plan", FailureKind::Quota),
        ("error-500", FailureKind::Overloaded),
        ("server-down", FailureKind::Network),
        ("no-settings", FailureKind::Authentication),
        ("untrusted", FailureKind::Unsupported),
        ("resume-unknown", FailureKind::SessionUnknown),
        ("prompt-empty", FailureKind::BadRequest),
    ] {
        let actions = actions(name);
        let (found, message) = failed(&actions);
        assert_eq!(found, kind, "{name}: {message}");
        assert!(!message.contains("{\"") && !message.contains("YOLO"), "{name}: {message}");
    }
}

#[test]
fn retries_on_stderr_are_reported() {
    let actions = actions("error-429");
    let first = events(&actions)
        .find_map(|event| if let EventKind::Retry(failure) = event { Some(failure) } else { None })
        .unwrap();
    assert_eq!(
        (first.kind, first.message.as_str()),
        (FailureKind::RateLimited, "Attempt 1 failed with status 429")
    );
}

#[test]
fn a_turn_limit_is_a_limit() {
    assert!(
        matches!(&done(&actions("max-turns-setting")).outcome, Outcome::Limit(text) if text.contains("max session turns"))
    );
}

#[test]
fn a_repeated_answer_is_shown_once() {
    let actions = actions("error-mid-recovers");
    assert_eq!(done(&actions).text.as_deref(), Some("Half an answer and more. The end."));
    assert_eq!(shown(&actions).concat(), "Half an answer and more. The end.");
}

#[test]
fn a_failure_that_exits_with_0_is_a_failure() {
    let actions = actions("error-mid");
    assert_eq!(failed(&actions).1, "Model stream ended without a finish reason.");
    assert_eq!(shown(&actions).concat(), "Half an answer and more. ");
}

#[test]
fn an_exit_without_a_result_is_never_a_success() {
    for name in ["norelaunch-sigterm", "norelaunch-sigkill-tool"] {
        let actions = actions(name);
        assert!(matches!(done(&actions).outcome, Outcome::Lost(_)), "{name}");
    }
}

#[test]
fn an_interrupted_run_that_exits_with_0_is_interrupted() {
    let fixture = Fixture::load(&folder().join("norelaunch-sigint"));
    let mut inputs = fixture.inputs();
    inputs.insert(inputs.len() - 1, Input::Command(Command::Interrupt(TURN)));
    let actions = run::<Backend>(fixture.start.clone(), inputs);
    assert_eq!(done(&actions).outcome, Outcome::Interrupted);
    assert!(
        shown(&actions).concat().starts_with("0000 The quick brown fox"),
        "text before the interrupt is kept"
    );
}

#[test]
fn a_resumed_run_has_its_history_and_another_id_is_a_notice() {
    let resumed = actions("resume-2");
    assert!(shown(&resumed).concat().contains("BLUE-42"));
    assert!(!events(&resumed).any(|event| matches!(event, EventKind::Notice(_))));
    let fixture = Fixture::load(&folder().join("plain"));
    let other = StartTurn {
        native_id: Some("00000000-0000-4000-8000-000000000000".to_owned()),
        ..start("hi")
    };
    let actions = run::<Backend>(other, fixture.inputs());
    assert!(events(&actions).any(
        |event| matches!(event, EventKind::Notice(notice) if notice.text.contains("new session"))
    ));
}
