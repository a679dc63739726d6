//! Ends of runs: results, kinds of failures, interrupts, crashes.

use aetheel_backend_sdk::fixture::{Fixture, TURN, done, events, run, shown, start};
use aetheel_backend_sdk::one_shot::LINGER_MS;
use aetheel_backend_sdk::wit::{Action, Command, EventKind, FailureKind, Input, Outcome};
use claude::Backend;

use crate::{actions, failure, folder};

#[test]
fn an_error_with_subtype_success_is_a_failure_of_its_kind() {
    for (name, kind, words) in [
        ("error-400", FailureKind::BadRequest, "API Error: 400"),
        ("error-401", FailureKind::Authentication, "Failed to authenticate"),
        ("error-429", FailureKind::RateLimited, "Request rejected (429)"),
        ("limit-plan", FailureKind::RateLimited, "You've hit your session limit"),
        ("error-500", FailureKind::Overloaded, "API Error: 500"),
        ("server-down", FailureKind::Network, "Unable to connect to API"),
        ("no-key", FailureKind::Authentication, "Not logged in"),
        ("refusal", FailureKind::Refused, "Usage Policy"),
        ("resume-unknown", FailureKind::SessionUnknown, "No conversation found"),
        // The reason is only on stderr.
        ("json-resume-unknown", FailureKind::SessionUnknown, "No conversation found"),
        ("as-root", FailureKind::Unsupported, "root/sudo"),
        ("prompt-empty", FailureKind::BadRequest, "Input must be provided"),
        ("sys-append-missing-file", FailureKind::Other, "file not found"),
        ("json-401", FailureKind::Authentication, "Failed to authenticate"),
        ("json-no-key", FailureKind::Authentication, "Not logged in"),
        ("json-error-400", FailureKind::BadRequest, "API Error: 400"),
    ] {
        let (found, message) = failure(name);
        assert_eq!(found, kind, "{name}: {message}");
        assert!(message.contains(words), "{name}: {message}");
    }
}

#[test]
fn an_api_error_is_not_shown_as_the_answer() {
    for name in ["error-400", "error-429", "no-key", "server-down"] {
        assert_eq!(shown(&actions(name)), [""; 0], "{name}");
    }
    assert_eq!(shown(&actions("refusal")), ["I cannot help."]);
}

#[test]
fn retries_have_a_reason_and_a_delay() {
    let actions = actions("error-429-once");
    let retries: Vec<_> = events(&actions)
        .filter_map(|event| match event {
            EventKind::Retry(failure) => {
                Some((failure.kind, failure.message.as_str(), failure.retry_after_ms))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        retries,
        [(FailureKind::RateLimited, "attempt 1 of 10 (rate_limit, 429)", Some(1000))]
    );
    assert_eq!(done(&actions).outcome, Outcome::Completed);
}

#[test]
fn a_turn_limit_is_a_limit_and_not_a_failure() {
    assert_eq!(
        done(&actions("max-turns-2-json")).outcome,
        Outcome::Limit("Reached maximum number of turns (2)".to_owned())
    );
}

#[test]
fn a_killed_run_is_lost_and_keeps_its_text() {
    for (name, message) in [
        ("sigkill-stream", "the agent was ended by signal 9"),
        ("sigterm-stream", "the agent was ended by signal 15"),
        ("sigterm-tool", "the agent was ended by signal 15"),
    ] {
        let actions = actions(name);
        let Outcome::Lost(failure) = &done(&actions).outcome else {
            panic!("{name}: {:?}", done(&actions).outcome)
        };
        assert_eq!(
            (failure.kind, failure.message.as_str()),
            (FailureKind::Crashed, message),
            "{name}"
        );
        assert_eq!(done(&actions).text, None, "{name}");
    }
    assert!(shown(&actions("sigterm-stream"))[0].starts_with("0000 The quick brown fox"));
}

#[test]
fn an_interrupt_from_outside_is_reported_as_interrupted() {
    assert_eq!(done(&actions("sigint-tool")).outcome, Outcome::Interrupted);
}

#[test]
fn an_interrupt_signals_the_process_and_overrides_a_missing_result() {
    let fixture = Fixture::load(&folder().join("sigterm-stream"));
    let mut inputs = fixture.inputs();
    inputs.insert(6, Input::Command(Command::Interrupt(TURN)));
    let actions = run::<Backend>(fixture.start.clone(), inputs);
    assert!(actions.iter().any(|action| matches!(action, Action::Stop(_))));
    assert_eq!(done(&actions).outcome, Outcome::Interrupted);
}

#[test]
fn exit_0_without_output_is_not_a_success() {
    let actions =
        run::<Backend>(start("hi"), vec![Fixture::load(&folder().join("plain")).exited()]);
    let Outcome::Lost(failure) = &done(&actions).outcome else {
        panic!("{:?}", done(&actions).outcome)
    };
    assert_eq!(failure.kind, FailureKind::Protocol);
}

#[test]
fn a_process_may_exit_shortly_after_its_result() {
    let fixture = Fixture::load(&folder().join("plain"));
    let mut inputs = fixture.inputs();
    inputs.pop();
    let actions = run::<Backend>(fixture.start.clone(), inputs);
    assert!(
        matches!(actions.last(), Some(Action::SetTimer(timer)) if timer.after_ms == LINGER_MS),
        "{:?}",
        actions.last()
    );
}
