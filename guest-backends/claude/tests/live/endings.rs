//! Turns of a conversation that fail, are lost or interrupted.

use aetheel_backend_sdk::fixture::{ends, is_done, notices, shown};
use aetheel_backend_sdk::one_shot::LINGER_MS;
use aetheel_backend_sdk::wit::{
    Action, Command, Exit, Exited, FailureKind, Input, Outcome, Part, Signal, SpawnFailed,
    StartTurn, Steer, Stop, ToolStatus,
};

use crate::{at, launches, recorded, scenarios, turn};

#[test]
fn an_interrupt_reaches_the_agent_at_any_time() {
    for (name, play) in [
        ("interrupt-text", scenarios::interrupted("interrupt-text")),
        ("interrupt-tool", scenarios::interrupted("interrupt-tool")),
        ("interrupt-ask", scenarios::interrupted("interrupt-ask")),
        ("interrupt-at-once", scenarios::interrupted("interrupt-at-once")),
    ] {
        assert_eq!(play.written_with("\"interrupt\"").len(), 1, "{name}");
        assert_eq!(play.outcomes(), [&Outcome::Interrupted], "{name}");
    }
    for name in ["interrupt-tool", "interrupt-ask"] {
        let ended: Vec<ToolStatus> =
            ends(&scenarios::interrupted(name).actions).into_iter().map(|end| end.0).collect();
        assert_eq!(ended, [ToolStatus::Cancelled], "{name}");
    }
}

#[test]
fn the_agent_accepts_a_turn_after_an_interrupt() {
    for play in [scenarios::interrupt_text(), scenarios::interrupt_at_once()] {
        assert_eq!(play.outcomes(), [&Outcome::Interrupted, &Outcome::Completed]);
        assert_eq!(launches(&play).len(), 1);
    }
}

#[test]
fn text_before_an_interrupt_is_kept() {
    let play = scenarios::interrupted("interrupt-text");
    assert_eq!(shown(&play.actions), ["chunk0 chunk1 chunk2 chunk3 "]);
}

#[test]
fn errors_of_the_model_fail_only_their_turn() {
    let play = scenarios::errors();
    let kinds: Vec<FailureKind> = play.outcomes()[..4]
        .iter()
        .map(|outcome| match outcome {
            Outcome::Failed(failure) => failure.kind,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            FailureKind::BadRequest,
            FailureKind::Authentication,
            FailureKind::RateLimited,
            FailureKind::Overloaded
        ]
    );
    assert_eq!(play.done()[4].text.as_deref(), Some("Alive after all."));
    assert_eq!(launches(&play).len(), 1);
}

#[test]
fn an_unknown_session_fails_the_turn_without_a_handshake() {
    let play = scenarios::session_unknown();
    assert!(
        matches!(play.outcomes()[0], Outcome::Failed(failure) if failure.kind == FailureKind::SessionUnknown)
    );
    assert_eq!(play.written_with("\"user\"").len(), 0);
}

#[test]
fn an_unknown_session_is_detected_from_stderr() {
    let mut play = recorded("session-unknown");
    play.start(turn(1)).cut();
    let stderr_tail = "No conversation found with session ID: 0".to_owned();
    play.input(Input::Exited(Exited { proc: 1, how: Exit::Code(1), stderr_tail }));
    assert!(
        matches!(play.outcomes()[0], Outcome::Failed(failure) if failure.kind == FailureKind::SessionUnknown)
    );
}

#[test]
fn a_crash_of_the_agent_loses_its_turn() {
    for (name, words) in
        [("killed", "signal 9"), ("bad-line", "Error parsing streaming input line")]
    {
        let play = scenarios::single_turn(name);
        let Outcome::Lost(failure) = play.outcomes()[0] else {
            panic!("{name}: {:?}", play.outcomes())
        };
        assert_eq!(failure.kind, FailureKind::Crashed, "{name}");
        assert!(failure.message.contains(words), "{name}: {}", failure.message);
    }
}

#[test]
fn a_crash_between_turns_restarts_the_agent_in_its_session() {
    let mut play = recorded("two-turns");
    play.start(turn(1));
    play.until(is_done);
    play.cut().exit(Exit::Signal(9));
    assert_eq!(play.done().len(), 1);
    play.start(turn(2));
    assert!(
        launches(&play)[1]
            .windows(2)
            .any(|pair| pair == ["--resume", "862e10fe-e55e-460a-95ba-96b72a02aba3"])
    );
}

#[test]
fn a_turn_limit_is_a_limit() {
    assert_eq!(
        scenarios::single_turn("turn-limit").outcomes(),
        [&Outcome::Limit("Reached maximum number of turns (2)".to_owned())]
    );
}

#[test]
fn an_agent_that_cannot_be_started_fails_the_turn() {
    for (not_found, kind) in [(true, FailureKind::NotFound), (false, FailureKind::Other)] {
        let mut play = recorded("two-turns");
        play.start(turn(1)).cut();
        play.input(Input::SpawnFailed(SpawnFailed {
            proc: 1,
            message: "no".to_owned(),
            not_found,
        }));
        assert!(matches!(play.outcomes()[0], Outcome::Failed(failure) if failure.kind == kind));
    }
}

#[test]
fn a_blank_prompt_and_an_invalid_id_fail_without_a_process() {
    let blank = StartTurn { parts: vec![Part::Text(" \n".to_owned())], ..turn(1) };
    let foreign = StartTurn { native_id: Some("last week".to_owned()), ..turn(2) };
    let mut play = recorded("two-turns");
    play.start(blank).start(foreign);
    let kinds: Vec<_> = play
        .outcomes()
        .into_iter()
        .map(|outcome| if let Outcome::Failed(failure) = outcome { failure.kind } else { panic!() })
        .collect();
    assert_eq!(kinds, [FailureKind::BadRequest, FailureKind::SessionUnknown]);
    assert!(launches(&play).is_empty());
}

#[test]
fn a_result_ends_the_turn_of_an_agent_that_never_reports_idle() {
    let mut play = recorded("no-state-events");
    play.start(turn(1)).until_agent("\"type\":\"result\"");
    assert_eq!(play.outcomes(), [&Outcome::Completed], "without a delay");
    assert!(!play.actions.iter().any(|action| matches!(action, Action::SetTimer(_))));
}

#[test]
fn the_end_is_delayed_while_more_output_may_follow() {
    let started =
        r#"{"type":"system","subtype":"task_started","task_id":"b1","task_type":"local_bash"}"#;
    let changed = |tasks: &str| {
        format!(r#"{{"type":"system","subtype":"background_tasks_changed","tasks":{tasks}}}"#)
    };
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"ok"}"#;
    let ended =
        r#"{"type":"system","subtype":"task_notification","task_id":"b1","status":"completed"}"#;
    let updated = |status: &str| {
        format!(
            r#"{{"type":"system","subtype":"task_updated","task_id":"b1","patch":{{"status":"{status}"}}}}"#
        )
    };
    for (said, waits) in [
        (vec![started.to_owned()], true),
        (vec![started.to_owned(), updated("running")], true),
        (vec![started.to_owned(), ended.to_owned()], false),
        (vec![started.to_owned(), updated("completed")], false),
        (vec![changed(r#"[{"task_id":"b2"}]"#)], true),
        (vec![changed(r#"[{"task_id":"b2"}]"#), changed("[]")], false),
    ] {
        let mut play = recorded("no-state-events");
        play.start(turn(1)).until_agent("control_response").cut();
        for line in &said {
            play.say(line);
        }
        play.say(result);
        assert_eq!(play.done().is_empty(), waits, "{said:?}");
        play.elapse(f64::from(LINGER_MS));
        assert_eq!(play.outcomes(), [&Outcome::Completed], "{said:?}");
    }
    let mut play = recorded("no-state-events");
    play.start(turn(1)).until_agent("control_response").cut();
    let parts = vec![Part::Text("more".to_owned())];
    let steer = Steer { session: 1, turn: 1, message: 1, parts, fresh_id: String::new() };
    play.command(Command::Steer(steer)).say(result);
    assert!(play.done().is_empty(), "the added message has its own result");
    play.say(&result.replace("ok", "and more")).elapse(f64::from(LINGER_MS));
    assert_eq!(play.done()[0].text.as_deref(), Some("ok\n\nand more"));
}

#[test]
fn an_agent_that_does_not_exit_is_stopped() {
    let mut play = recorded("two-turns");
    play.start(turn(1));
    play.until(is_done);
    play.cut().command(Command::Shutdown);
    assert!(play.actions.contains(&Action::CloseStdin(1)));
    play.elapse(f64::from(LINGER_MS));
    assert!(matches!(
        play.actions.last(),
        Some(Action::Stop(Stop { proc: 1, signal: Signal::Terminate, .. }))
    ));
}

#[test]
fn an_agent_that_is_asked_to_exit_finishes_its_work() {
    assert_eq!(scenarios::stdin_closed().outcomes(), [&Outcome::Completed]);
}

#[test]
fn output_after_the_end_belongs_to_no_turn() {
    let mut play = recorded("two-turns");
    play.start(turn(1));
    play.until(is_done);
    let seen = play.actions.len();
    play.cut().say(
        r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"late"}]}}"#,
    );
    play.say(
        r#"{"type":"result","subtype":"success","is_error":false,"result":"late","session_id":"s","usage":{}}"#,
    );
    play.say(r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#);
    assert_eq!(play.actions.len(), seen);
    play.say(r#"{"type":"hologram"}"#);
    assert!(
        matches!(play.actions.last(), Some(Action::Diagnostic(line)) if line.text.contains("hologram"))
    );
    play.command(Command::Interrupt(at(1)));
    assert_eq!(play.written_with("\"interrupt\"").len(), 0);
}

#[test]
fn an_exit_before_the_prompt_fails_the_turn() {
    let mut play = recorded("two-turns");
    play.start(turn(1)).cut();
    let stderr_tail = "error: unknown option '--hologram'".to_owned();
    play.input(Input::Exited(Exited {
        proc: 1,
        how: Exit::Code(1),
        stderr_tail: stderr_tail.clone(),
    }));
    assert!(
        matches!(play.outcomes()[0], Outcome::Failed(failure) if failure.message == stderr_tail)
    );
}

#[test]
fn an_exiting_agent_cannot_begin_turns() {
    let mut play = recorded("two-turns");
    play.start(turn(1));
    play.until(is_done);
    play.cut()
        .command(Command::Shutdown)
        .say(r#"{"type":"system","subtype":"session_state_changed","state":"running"}"#);
    assert!(!play.actions.iter().any(|action| matches!(action, Action::TurnBegun(_))));
}

const IDLE: &str = r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#;

#[test]
fn a_failure_of_an_interrupted_turn_is_reported_as_interrupted() {
    let mut play = recorded("two-turns");
    play.start(turn(1)).until_agent("\"assistant\"").cut().command(Command::Interrupt(at(1)));
    play.say(r#"{"type":"result","subtype":"error_during_execution","is_error":true}"#).say(IDLE);
    assert_eq!(play.outcomes(), [&Outcome::Interrupted]);
}

#[test]
fn the_last_of_several_results_decides_and_earlier_failures_become_notices() {
    let ok = r#"{"type":"result","subtype":"success","is_error":false,"result":"fine"}"#;
    let failed = r#"{"type":"result","subtype":"success","is_error":true,"result":"API Error: 400 bad","api_error_status":400}"#;
    let mut play = recorded("two-turns");
    play.start(turn(1)).until_agent("running").cut().say(failed).say(ok).say(IDLE);
    assert_eq!(
        (play.outcomes()[0], play.done()[0].text.as_deref()),
        (&Outcome::Completed, Some("fine"))
    );
    assert_eq!(notices(&play.actions), ["API Error: 400 bad"]);
    let mut play = recorded("two-turns");
    play.start(turn(1)).until_agent("running").cut().say(ok).say(failed).say(IDLE);
    assert!(matches!(play.outcomes()[0], Outcome::Failed(_)));
    assert_eq!(play.done()[0].text, None, "users see the text that was shown");
}
