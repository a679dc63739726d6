//! Compares the actions for recorded runs of Claude Code 2.1.197 with golden files. Special cases
//! have their own tests.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod answers;
mod endings;
mod tools;

use std::path::{Path, PathBuf};

use aetheel_backend_sdk::fixture::{Fixture, done, line, notices, ready, run, start, unrecognised};
use aetheel_backend_sdk::wit::{Action, FailureKind, Outcome, Pipe, SessionReady, StartTurn};
use claude::Backend;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/claude")
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
        // This run printed plain text instead of JSON.
        if fixture.name() == "text-plain" {
            continue;
        }
        let actions = fixture.run::<Backend>();
        let unknown = unrecognised(&actions);
        assert!(unknown.is_empty(), "{}: {unknown:?}", fixture.name());
    }
}

#[test]
fn a_session_is_reported_unless_it_was_not_found() {
    let found = actions("sigkill-stream");
    assert_eq!(ready(&found)[0].native_id.len(), 36);
    assert_eq!(ready(&found)[0].model.as_deref(), Some("claude-opus-4-8[1m]"));
    for name in ["resume-unknown", "json-resume-unknown"] {
        assert_eq!(ready(&actions(name)), Vec::<&SessionReady>::new(), "{name}");
    }
}

#[test]
fn users_are_notified_if_the_agent_uses_another_session() {
    assert_eq!(notices(&actions("resume-2")), [""; 0]);
    let fixture = Fixture::load(&folder().join("resume-2"));
    let other = StartTurn {
        native_id: Some("00000000-0000-4000-8000-000000000000".to_owned()),
        ..start("hi")
    };
    let other = run::<Backend>(other, fixture.inputs());
    assert_eq!(
        notices(&other),
        ["Claude Code began a new session: the earlier conversation is lost"]
    );
    let fork = StartTurn { fork: true, ..fixture.start.clone() };
    assert_eq!(notices(&run::<Backend>(fork, fixture.inputs())), [""; 0]);
}

#[test]
fn lines_of_stderr_never_change_the_actions() {
    for name in ["plain", "think-tool", "drop-mid"] {
        let fixture = Fixture::load(&folder().join(name));
        let calm = fixture.run::<Backend>();
        let mut noisy = Vec::new();
        for input in fixture.inputs() {
            noisy.push(line(Pipe::Stderr, "Warning: no stdin data received in 3s"));
            noisy.push(input);
        }
        assert_eq!(run::<Backend>(fixture.start.clone(), noisy), calm, "{name}");
    }
}
